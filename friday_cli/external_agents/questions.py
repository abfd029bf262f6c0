"""Requests of an external agent for a permission: each is judged as the call of Friday's tool that does the same."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from friday_cli.core.agent.agent import Agent, HookOutcome, Services
from friday_cli.core.agent.call_permission import require_permission
from friday_cli.core.agent.understood_call import as_understood
from friday_cli.core.protocol.displays import DiffDisplay
from friday_cli.core.protocol.errors import FridayError, PermissionDenied, ToolError
from friday_cli.core.protocol.events import InboxMessage, ToolFinished
from friday_cli.core.protocol.messages import ToolCall
from friday_cli.core.protocol.receipt import ToolFacts
from friday_cli.core.protocol.tool import KnownFiles, Output, Tool, ToolContext
from friday_cli.core.protocol.tool_info import WEB_FETCH
from friday_cli.core.protocol.workspace import Workspace
from friday_cli.core.text.diff import difference
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.core.tool_catalog import BASH, EXTERNAL, READ_FILE, TOOLS, WRITE_FILE
from friday_cli.llm.transport.text import dict_in, dicts_in

from .updates import Updates, bounded, command_of, paths_of

MOST_SHOWN = 1024 * 1024
"""Bytes of a file whose change is shown."""


class _ExternalArguments(msgspec.Struct, frozen=True):
    """What a program asks about that no tool of Friday does."""

    title: str


async def _not_run(context: ToolContext, args: _ExternalArguments) -> Output:
    return Output("The program does it itself.", error=True)


def external_tool(name: str) -> Tool:
    """Stands for what no tool of Friday does, in rules `external(NAME:title)`."""
    return Tool(
        _not_run,
        TOOLS[EXTERNAL],
        args=_ExternalArguments,
        description="An action of another program.",
        subjects=lambda args, workspace: (f"{name}:{sanitize_line(args.title, 200)}",),
        title=lambda args: sanitize_line(args.title, 200),
    )


class Questions:
    """Answers the questions of one agent's program, which is called `name`."""

    def __init__(self, agent: Agent, services: Services, name: str, updates: Updates) -> None:
        self._agent, self._services, self._name, self._updates = agent, services, name, updates
        self.open = 0
        """The questions that wait for an answer."""
        self.closed = False
        """Whether all questions are refused: the agent hands back what it has."""

    async def permission(self, params: dict[str, Any]) -> dict[str, Any]:
        """The answer to `session/request_permission`."""
        fields = dict_in(params.get("toolCall"))
        ident = str(fields.get("toolCallId") or "")[:200]
        known = self._updates.calls.get(ident)
        merged = {**(known.fields if known else {}), **bounded(fields)}
        self.open += 1
        try:
            reason = await self._refusal(self._updates.call_id(ident), merged)
        finally:
            self.open -= 1
        wanted = "reject_once" if reason else "allow_once"
        chosen = next(
            (row.get("optionId") for row in dicts_in(params.get("options")) if row.get("kind") == wanted), None
        )
        if chosen is None:
            return {"outcome": {"outcome": "cancelled"}}
        return {"outcome": {"outcome": "selected", "optionId": chosen}}

    async def _refusal(self, call_id: str, fields: dict[str, Any]) -> str:
        """Why a call may not be made, "" if it may."""
        if self.closed:
            return "The agent is being stopped."
        tool = ""
        try:
            for tool, arguments in self._as_our_calls(fields):
                await self._judge(ToolCall(call_id, tool, arguments), fields)
        except FridayError as error:
            self._agent.receipt_builder.add(tool, "denied", ToolFacts())
            denied = ToolFinished(call_id, tool, "denied", text=str(error))
            self._services.log.emit_soon(self._agent.path, denied)
            if isinstance(error, PermissionDenied) and error.words:  # the protocol has no place for a reason
                what = sanitize_line(command_of(fields) or ", ".join(paths_of(fields)) or str(fields.get("title")), 200)
                await self._agent.inbox.put(InboxMessage(f"Not allowed: {what}. {error.words}", "person"))
            return str(error)
        return ""

    def _as_our_calls(self, fields: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        """What the program wants to do, as calls of Friday's tools: one for each file."""
        kind, url = fields.get("kind"), dict_in(fields.get("rawInput")).get("url")
        if kind == "execute" and (command := command_of(fields)):
            return [(BASH, {"command": command})]
        paths = paths_of(fields)
        if kind in ("edit", "delete", "move") and paths:
            news = {path: "".join(new for _, new in _changes(fields, path)) for path in paths}
            return [(WRITE_FILE, {"path": path, "content": new}) for path, new in news.items()]
        if kind in ("read", "search") and paths:
            return [(READ_FILE, {"path": path}) for path in paths]
        if kind == "fetch" and isinstance(url, str):
            return [(WEB_FETCH, {"url": url})]
        title = str(fields.get("title") or kind or "an unnamed action")
        return [(EXTERNAL, {"title": title})]

    async def _judge(self, call: ToolCall, fields: dict[str, Any]) -> None:
        """Raises PermissionDenied, ToolError, StopRun."""
        agent, services = self._agent, self._services
        tool = external_tool(self._name) if call.name == EXTERNAL else agent.conversation.tools.get(call.name)
        if tool is None:
            raise PermissionDenied(f"The profile {agent.profile} does not have {call.name}.")
        if tool.change is not None:  # the program has read its files by itself
            tool = msgspec.structs.replace(tool, change=partial(_reported_change, fields))
        known = as_understood(agent, tool, tool.understand(call.arguments).arguments)
        hooked = HookOutcome()
        if services.hooks is not None:
            hooked = await services.hooks.before_call(agent, known.seen(call))
            if hooked.stop or hooked.arguments is not None:
                raise PermissionDenied(hooked.stop or "A hook changed this call, and another program would make it.")
        permit = await require_permission(agent, services, call, known, known.wanted, hooked)
        if permit.command:
            words = f"Run this instead: {permit.command}"
            raise PermissionDenied(f"The user wants a different command: {permit.command}", words=words)


def _changes(fields: dict[str, Any], path: str) -> list[tuple[str, str]]:
    """What would be replaced in a file, and by what, as far as the program shows it; "" stands for the whole file."""
    rows = [row for row in dicts_in(fields.get("content")) if row.get("path") == path]
    texts = [(row.get("oldText") or "", row.get("newText")) for row in rows]
    return [(old, new) for old, new in texts if isinstance(old, str) and isinstance(new, str)]


async def _reported_change(
    fields: dict[str, Any], workspace: Workspace, known: KnownFiles, args: Any
) -> DiffDisplay | None:
    """What a program says that it would change in a file, None if it does not say."""
    changes = _changes(fields, args.path)
    if not changes and fields.get("kind") != "delete":
        return None
    path, before = workspace.resolve(args.path, write=True), ""
    exists = await workspace.stat(path) is not None
    with suppress(ToolError):  # a folder
        before = (await workspace.read(path, limit=MOST_SHOWN)).decode("utf-8", "replace") if exists else ""
    after = before if changes else ""
    for old, new in changes:
        if old not in after:  # it shows another text than the file has
            before, after = old, old
        after = after.replace(old, new, 1) if old else new
    diff, added, removed = await asyncio.to_thread(difference, before, after)
    return DiffDisplay(workspace.label(path), diff, added, removed, None if exists else len(after.encode()))
