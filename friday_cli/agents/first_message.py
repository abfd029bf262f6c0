"""What a sub-agent begins with: a message with its task, or the conversation of its parent that it continues as a fork."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from friday_cli.core.agent.agent import Conversation
from friday_cli.core.protocol.messages import Message, closed, user
from friday_cli.core.protocol.tool_info import SERVER_PREFIX
from friday_cli.core.subagents.node import SubagentTask
from friday_cli.extensions.profiles import Profile

from . import system_prompt


def forked(conversation: Conversation, above: Conversation) -> Conversation:
    """A new conversation that continues the one `above` it with an identical prefix; calls it may not make are refused."""
    listed = {spec.name for spec in above.specs}
    return msgspec.structs.replace(
        conversation,
        provider=above.provider,
        effort=above.effort,
        cache_key=above.cache_key,
        system=above.system,
        specs=above.specs,
        tools={n: t for n, t in conversation.tools.items() if n in listed or n.startswith(SERVER_PREFIX)},
        history=closed(above.history, why="Continues in the main agent; you are a fork of it."),
        context=above.context,
        sent=above.sent,
        cache_missed=above.cache_missed,
    )


def message_to_fork(
    conversation: Conversation, profile: Profile, path: str, spec: SubagentTask, environment: system_prompt.Environment
) -> Message:
    """The task of a sub-agent that continues its parent's `conversation`, and which of its tools it may call."""
    listed = {spec.name for spec in conversation.specs}
    mine = [name for name in conversation.tools if name in listed]
    about = system_prompt.COPY.format(folder=environment.copy_of)
    moved = f"[Your folder is now {environment.folder}. {about}]\n\n" if environment.copy_of else ""
    return user(system_prompt.fork_message(profile, path, moved + spec.task, mine), source="parent")


def first_message(spec: SubagentTask, path: str, limit: int, overflow_folder: Callable[[], Path]) -> Message:
    """The task of a sub-agent, with at most `limit` characters of its context; the rest is in a file."""
    rest = ""
    if len(spec.context) > limit:
        with suppress(OSError):  # then the message says that the rest is missing
            file = overflow_folder() / f"context-{path}.txt"
            file.write_text(spec.context, encoding="utf-8")
            rest = str(file)
    return user(system_prompt.task_message(spec.task, spec.context, limit=limit, rest=rest), source="parent")
