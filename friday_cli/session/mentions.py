"""`@NAME` at the start of a prompt: a sub-agent with this profile must do the task."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from friday_cli.core.eventlog.notices import NOTE
from friday_cli.core.protocol.messages import ToolCall
from friday_cli.core.protocol.tool_info import DELEGATE_TASK
from friday_cli.core.text.lazy_regex import pattern
from friday_cli.core.text.suggest import closest_match
from friday_cli.core.tool_catalog import DELEGATE_TASKS

if TYPE_CHECKING:
    from friday_cli.core.agent.agent import Agent
    from friday_cli.core.subagents.tree import SubagentTree

NEAR = 0.75
"""Similarity to a profile's name (difflib's ratio, 0 to 1) from which a word counts as misspelt."""
_LIKE_ONE = pattern(r"\s*@([\w-]{2,64})[:,]?(?=\s|\Z)")
_NAMED = pattern(r"\s*@([a-z0-9][a-z0-9_-]*)[:,]?(?=\s|\Z)")


def addressed(prompt: str, profiles: Collection[str]) -> str:
    """The profile that a prompt begins with, "" if it begins with none of `profiles`."""
    match = _NAMED().match(prompt) if "@" in prompt else None
    return match[1] if match and match[1] in profiles else ""


def misspelt(prompt: str, profiles: Collection[str]) -> str:
    """The profile that was probably meant if a prompt begins with an unknown `@name`, "" if none is similar."""
    match = _LIKE_ONE().match(prompt) if "@" in prompt else None
    if not match or match[1] in profiles:
        return ""
    return closest_match(match[1].lower(), profiles, NEAR)


def task_of(prompt: str) -> str:
    """The text after the name in a prompt that is `addressed`."""
    return _NAMED().sub("", prompt, count=1).strip()


def note(profile: str) -> str:
    """The note to the main agent's model."""
    return (
        f"{NOTE} By @{profile} the user asks for a sub-agent: hand this to {profile!r} with {DELEGATE_TASK}, with all it "
        "must know, and answer from its result."
    )


def demand(root: Agent, tree: SubagentTree, profile: str, then: Callable[[str], str]) -> Callable[[str], str]:
    """A check of the answer: it fails until the main agent has tried to delegate to `profile`; then `then` decides. A
    refused attempt counts, since the agent can do no more."""
    before = {known.path for known in tree.below(root.path)}
    begun = len(root.conversation.history)

    def complaint(answer: str) -> str:
        started = any(k.profile == profile and k.path not in before for k in tree.below(root.path))
        if started or any(
            _delegates_to(call, profile, tree) for m in root.conversation.history[begun:] for call in m.calls
        ):
            return then(answer)
        return (
            f"it came without the delegation that the user asked for by @{profile}; call {DELEGATE_TASK} with the profile "
            f"{profile!r} first"
        )

    return complaint


def _delegates_to(call: ToolCall, profile: str, tree: SubagentTree) -> bool:
    if call.name not in (DELEGATE_TASK, DELEGATE_TASKS):
        return False
    tasks = call.arguments.get("tasks", [call.arguments])
    for task in tasks if isinstance(tasks, list) else ():
        if isinstance(task, dict):
            known = tree.known(str(task.get("resume", "")))
            if profile in (task.get("profile"), known.profile if known else None):
                return True
    return False
