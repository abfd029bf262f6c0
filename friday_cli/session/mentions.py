"""`@NAME` at the start of a prompt: the person wants this done by a sub-agent of that profile."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from friday_cli.core.eventlog.notices import NOTE
from friday_cli.core.protocol.messages import ToolCall
from friday_cli.core.text.lazy_regex import pattern
from friday_cli.core.text.suggest import closest_match
from friday_cli.tool_catalog import DELEGATE_TASK, DELEGATE_TASKS

if TYPE_CHECKING:
    from friday_cli.core.agent.agent import Agent
    from friday_cli.core.subagents.tree import SubagentTree

NEAR = 0.75
"""How like a profile's name (0 to 1, difflib's ratio) a word must be to be taken for a misspelt one."""
_LIKE_ONE = pattern(r"\s*@([\w-]{2,64})[:,]?(?=\s|\Z)")
_NAMED = pattern(r"\s*@([a-z0-9][a-z0-9_-]*)[:,]?(?=\s|\Z)")


def addressed(prompt: str, profiles: Collection[str]) -> str:
    """The profile that a prompt begins with, "" when it is none of `profiles`."""
    match = _NAMED().match(prompt)
    return match[1] if match and match[1] in profiles else ""


def misspelt(prompt: str, profiles: Collection[str]) -> str:
    """The profile that was probably meant where a prompt begins with an `@name` that is none of them, "" where none is
    near."""
    match = _LIKE_ONE().match(prompt)
    if not match or match[1] in profiles:
        return ""
    return closest_match(match[1].lower(), profiles, NEAR)


def task_of(prompt: str) -> str:
    """What a prompt that is `addressed` says after the name."""
    return _NAMED().sub("", prompt, count=1).strip()


def note(profile: str) -> str:
    """What the main agent is told of it."""
    return (
        f"{NOTE} By @{profile} the user asks for a sub-agent: hand this to {profile!r} with {DELEGATE_TASK}, with all it "
        "must know, and answer from its result."
    )


def demand(root: Agent, tree: SubagentTree, profile: str, then: Callable[[str], str]) -> Callable[[str], str]:
    """The check of an answer: it has no complaint once the root has tried to hand something to `profile`, and then
    those that `then` has. A try that was refused counts: more is not in the root's power."""
    before = {known.path for known in tree.below(root.path)}
    begun = len(root.history)

    def complaint(answer: str) -> str:
        started = any(k.profile == profile and k.path not in before for k in tree.below(root.path))
        if started or any(_hands_to(call, profile, tree) for m in root.history[begun:] for call in m.calls):
            return then(answer)
        return (
            f"it came without the delegation that the user asked for by @{profile}; call {DELEGATE_TASK} with the profile "
            f"{profile!r} first"
        )

    return complaint


def _hands_to(call: ToolCall, profile: str, tree: SubagentTree) -> bool:
    if call.name not in (DELEGATE_TASK, DELEGATE_TASKS):
        return False
    tasks = call.arguments.get("tasks", [call.arguments])
    for task in tasks if isinstance(tasks, list) else ():
        if isinstance(task, dict):
            known = tree.known(str(task.get("resume", "")))
            if profile in (task.get("profile"), known.profile if known else None):
                return True
    return False
