"""The first message of a sub-agent: its task, or the conversation of its parent that it continues as a fork."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from friday_cli.core.agent.agent import Agent
from friday_cli.core.protocol.messages import Message, closed, user
from friday_cli.core.protocol.tool_info import SERVER_PREFIX
from friday_cli.core.subagents.node import SubagentTask
from friday_cli.extensions.profiles import Profile

from . import system_prompt


def fork(
    agent: Agent, parent: Agent, profile: Profile, spec: SubagentTask, environment: system_prompt.Environment
) -> Message:
    """Let `agent` continue its parent's conversation with an identical prefix; calls it may not make are refused."""
    above, tools = parent.conversation, agent.conversation.tools
    listed = {spec.name for spec in above.specs}
    mine = [name for name in tools if name in listed]
    agent.conversation = msgspec.structs.replace(
        agent.conversation,
        provider=above.provider,
        effort=above.effort,
        cache_key=above.cache_key,
        system=above.system,
        specs=above.specs,
        tools={n: t for n, t in tools.items() if n in listed or n.startswith(SERVER_PREFIX)},
        history=closed(above.history, why="Continues in the main agent; you are a fork of it."),
        context=above.context,
        sent=above.sent,
        cache_missed=above.cache_missed,
    )
    about = system_prompt.COPY.format(folder=environment.copy_of)
    moved = f"[Your folder is now {environment.folder}. {about}]\n\n" if environment.copy_of else ""
    return user(system_prompt.fork_message(profile, agent.path, moved + spec.task, mine), source="parent")


def first_message(spec: SubagentTask, path: str, limit: int, overflow_folder: Callable[[], Path]) -> Message:
    """The task of a sub-agent, with at most `limit` characters of its context; the rest is in a file."""
    rest = ""
    if len(spec.context) > limit:
        with suppress(OSError):  # then the message says that the rest is missing
            file = overflow_folder() / f"context-{path}.txt"
            file.write_text(spec.context, encoding="utf-8")
            rest = str(file)
    return user(system_prompt.task_message(spec.task, spec.context, limit=limit, rest=rest), source="parent")
