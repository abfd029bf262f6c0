"""Reads a call of a model: which tool it is for, what its arguments are, and what it would do."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from ..permissions.rule import RuleInput
from ..protocol.call_arguments import UnderstoodArguments
from ..protocol.errors import PermissionDenied, ToolError
from ..protocol.events import Denied
from ..protocol.messages import ToolCall
from ..protocol.tool import Tool
from ..protocol.workspace import Workspace, for_one_call
from ..text.suggest import closest_match
from ..tool_catalog import TOOLS
from .agent import Agent, HookedCall, Services


class UnderstoodCall(NamedTuple):
    """A call whose tool the agent has. `args` are its `arguments` as the tool takes them, `wanted` what it would do.
    `workspace` opens what its paths led to when that was found out."""

    tool: Tool
    arguments: dict[str, Any]
    args: msgspec.Struct | dict[str, Any]
    wanted: RuleInput
    workspace: Workspace

    def seen(self, call: ToolCall, wanted: RuleInput | None = None) -> HookedCall:
        """The call as hooks are given it; `wanted`: what it does, if that is not the usual."""
        return HookedCall(call, self.tool, self.arguments, wanted or self.wanted)


def forwarded(agent: Agent, call: ToolCall) -> ToolCall:
    """The call that `call` is treated as: itself, or one of a server's tools. Raises ToolError."""
    tool = agent.conversation.tools.get(call.name)
    if tool is None or tool.forward is None or call.error:
        return call
    name, arguments = tool.forward(tool.parse(tool.understand(call.arguments).arguments))
    return msgspec.structs.replace(call, name=name, arguments=arguments)


async def understand(agent: Agent, services: Services, call: ToolCall) -> tuple[Tool, UnderstoodArguments]:
    """Read a call and its arguments. Raises PermissionDenied for a tool that the agent does not have, ToolError for wrong
    arguments."""
    conversation = agent.conversation
    tool = conversation.tools.get(call.name)
    if tool is None:
        listed = any(spec.name == call.name for spec in conversation.specs)
        listed = listed or (call.name in TOOLS.granted_by("profile") and agent.rules.may(call.name))
        names = ", ".join(sorted(spec.name for spec in conversation.specs if spec.name in conversation.tools))
        near = "" if listed else closest_match(call.name, conversation.tools)
        reason = "it cannot be used now" if listed else "the agent does not have this tool"
        await services.log.emit(agent.path, Denied(call.id, call.name, "", reason))
        raise PermissionDenied(
            f"{call.name} cannot be used now." if listed else f"There is no tool {call.name!r}.",
            hint=f"Did you mean {near}?" if near else f"Tools you may use: {names or 'none'}.",
        )
    if call.error:
        raise ToolError(f"The arguments of {call.name} could not be read: {call.error}.", hint="Send them again.")
    return tool, tool.understand(call.arguments)


def as_understood(agent: Agent, tool: Tool, arguments: dict[str, Any]) -> UnderstoodCall:
    args = tool.parse(arguments)
    workspace = for_one_call(agent.workspace)
    subjects, also = tool.used(args, workspace)
    sandbox_access, justification = tool.sandbox_access(args, workspace)
    wanted = RuleInput(
        tool.name,
        "read" if tool.only_shows(args) else tool.effect,
        subjects,
        tool.script(args, workspace),
        sandbox_access=sandbox_access,
        justification=justification,
        also=also,
    )
    return UnderstoodCall(tool, arguments, args, wanted, workspace)
