"""What a Python program gives to a session that it opens in its own process: tools, hooks, and a judge of calls."""

from __future__ import annotations

import copy
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from friday_cli.core.agent.agent import Agent
from friday_cli.core.protocol.tool import Tool
from friday_cli.core.protocol.tool_info import Effect
from friday_cli.core.text.sanitize import sanitize

log = logging.getLogger(__name__)

REASON_CHARS = 2_000
"""Characters of the reason of a refusal that the model reads."""


class ToolRequest(msgspec.Struct, frozen=True):
    """A call that an agent wants to make, as it will run if the rules allow it. `agent` is the agent's path, such as `a.2.1`;
    `lineage` are the profiles from the main agent down to it. `effect` is what the tool may change."""

    tool: str
    arguments: dict[str, Any]
    agent: str
    lineage: tuple[str, ...]
    effect: Effect


CanUse = Callable[[ToolRequest], Awaitable[bool | str]]
"""Returns whether a call may run, or why not. The rules judge it too: True allows nothing that they do not allow."""
HookFunction = Callable[[dict[str, Any]], Awaitable[Mapping[str, Any] | None]]
"""A hook: gets the input of docs/hooks.md, and returns the JSON object that a hook program would write, or None."""


class Program(msgspec.Struct, frozen=True, eq=False):
    """The Python program that opened a session. `hooks` are its functions by the name of their event. `can_use` is asked about
    every call of every agent."""

    tools: tuple[Tool, ...] = ()
    hooks: Mapping[str, Sequence[HookFunction]] = {}
    can_use: CanUse | None = None


async def refusal(can_use: CanUse, agent: Agent, tool: Tool, arguments: dict[str, Any]) -> str:
    """Why the program refuses a call, "" if it does not. A judge that fails refuses."""
    lineage = [agent.profile]
    above = agent.parent
    while above is not None:
        lineage.insert(0, above.profile)
        above = above.parent
    request = ToolRequest(tool.name, copy.deepcopy(arguments), agent.path, tuple(lineage), tool.effect)
    try:
        answer: object = await can_use(request)
    except Exception as error:
        log.exception("can_use failed")
        return f"denied, because can_use of the program failed: {type(error).__name__}"
    if answer is True:
        return ""
    if answer is False:
        return "denied by the program"
    if isinstance(answer, str):
        return f"denied by the program: {sanitize(answer)[:REASON_CHARS]}" if answer else "denied by the program"
    return f"denied, because can_use of the program returned {type(answer).__name__} instead of True, False or a reason"
