"""Makes the tools of servers, and the tools with which agents search and call those that their prompts do not describe."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import unquote

import msgspec

from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.receipt import ToolFacts
from friday_cli.core.protocol.server_calls import (
    CALL,
    LIST,
    READ,
    arguments_line,
    meant_call,
    server_and_tool,
    server_of,
)
from friday_cli.core.protocol.tool import Output, Tool, ToolContext
from friday_cli.core.protocol.tool_info import SERVER_PREFIX, CallEffect, ToolInfo
from friday_cli.core.protocol.workspace import Workspace, tamper_warning
from friday_cli.core.text.sanitize import sanitize, sanitize_line
from friday_cli.core.text.suggest import closest_match
from friday_cli.core.text.untrusted import wrap_untrusted

from .catalog import OfferedTool
from .connection import Reply, ServerCall, ServerConnection
from .portable_schema import portable

MOST_DESCRIPTION = 2_000
"""Characters of a tool's description."""
MOST_SUBJECT = 2_000
"""Characters of the arguments that rules are matched with and a person is shown."""
FOUND = 8
"""Tools in the result of one search."""
HEAD = 0.7
"""Share of a long result that is its beginning."""

Send = Callable[[ServerCall, dict[str, Any]], Awaitable[Reply]]


class _Arguments(msgspec.Struct):
    """A server's tool has a schema instead of fields."""


class SearchToolsArguments(msgspec.Struct, forbid_unknown_fields=True):
    query: Annotated[str, msgspec.Meta(description="Words that describe what the tool should do.")]


class CallArguments(msgspec.Struct, forbid_unknown_fields=True):
    server: Annotated[str, msgspec.Meta(description="The name of the server.")]
    tool: Annotated[str, msgspec.Meta(description="The name of the tool, as mcp_search shows it.")]
    arguments: Annotated[dict[str, Any], msgspec.Meta(description="The arguments of the tool.")] = {}


class ListResourcesArguments(msgspec.Struct, forbid_unknown_fields=True):
    server: Annotated[str, msgspec.Meta(description="The name of the server.")]


class ReadResourceArguments(msgspec.Struct, forbid_unknown_fields=True):
    server: Annotated[str, msgspec.Meta(description="The name of the server.")]
    uri: Annotated[str, msgspec.Meta(description="The address of the resource.")]


# ---- tools of a server -----------------------------------------------------------------------


def server_tool(connection: ServerConnection, name: str, offered: OfferedTool, output_chars: int) -> Tool:
    """A tool of a server by its name here. It is asked about like a command, unless the person's own entry is `readonly` and the
    server says that it only reads."""

    async def send(call: ServerCall, arguments: dict[str, Any]) -> Reply:
        return await connection.call(offered.name, arguments, call)

    about = sanitize(offered.description)[:MOST_DESCRIPTION] or f"The tool {offered.name} of the MCP server."
    schema, more = portable(offered.schema)
    about = f"{about}\n{sanitize(more)}" if more else about
    read_only = offered.read_only and connection.entry.readonly
    return _tool(connection, OfferedTool(name, about, schema, read_only), send, output_chars)


def resource_tools(connection: ServerConnection, output_chars: int) -> list[Tool]:
    """The tools for the resources of a server, which no prompt describes: calls of `mcp_list` and `mcp_read` are treated as
    calls of them."""
    entry = connection.entry

    async def listed(call: ServerCall, arguments: dict[str, Any]) -> Reply:
        return Reply("\n".join(await connection.resources()) or "(no resources)")

    async def read(call: ServerCall, arguments: dict[str, Any]) -> Reply:
        return await connection.read(str(arguments["uri"]), call)

    prefix, schema = f"{SERVER_PREFIX}{entry.name}__", {"type": "object"}
    made = ((LIST, "Lists the resources.", listed), (READ, "Reads a resource.", read))
    return [
        _tool(connection, OfferedTool(prefix + name, about, schema, entry.readonly), send, output_chars)
        for name, about, send in made
    ]


def file_labels(uri: str, workspace: Workspace) -> tuple[str, ...]:
    """The file that the address of a resource names, as rules name it; () for other addresses."""
    seen = (
        re.sub(r"[\t\r\n]", "", uri).strip("".join(map(chr, range(33)))).replace("\\", "/")
    )  # as servers read it: WHATWG URL, 4.4
    scheme, _, rest = seen.partition(":")
    if scheme.lower() != "file":
        return ()
    if rest.startswith("//"):
        rest = rest[2:].partition("/")[1] + rest[2:].partition("/")[2]
    path = unquote(re.split(r"[?#]", rest, maxsplit=1)[0])
    try:
        return workspace.labels(path)
    except ToolError:
        return (path,)  # a server may read files that an agent may not


def _tool(connection: ServerConnection, offered: OfferedTool, send: Send, output_chars: int) -> Tool:
    """The tool that `offered` describes by its name here, and for models."""
    entry, name = connection.entry, offered.name

    def also(arguments: dict[str, Any], workspace: Workspace) -> tuple[CallEffect, ...]:
        labels = file_labels(str(arguments.get("uri", "")), workspace) if name.endswith(f"__{READ}") else ()
        return (CallEffect("read", labels),) if labels else ()

    async def run(context: ToolContext, arguments: dict[str, Any]) -> Output:
        call = ServerCall(entry.timeout_s, agent=context.agent, show=context.emit, ask=context.ask)
        async with connection.observed(context.agent, name) as done:
            reply = await send(call, arguments)
        text = await _shortened(context, reply.text, output_chars)
        if text:
            text = wrap_untrusted(text, source=f"MCP server {entry.name}")
        if done is None:
            return Output(text, images=reply.images, error=reply.error)
        facts = ToolFacts(files=done.changed, unknown=done.unknown)
        warnings = (tamper_warning(f"MCP server {entry.name}: {name}", done.tampered),) if done.tampered else ()
        return Output(text, facts=facts, images=reply.images, error=reply.error, warnings=warnings)

    return Tool(
        run=run,
        info=ToolInfo(name, "read" if offered.read_only else "run"),
        args=_Arguments,
        description=offered.description,
        schema=offered.schema,
        subjects=lambda arguments, workspace: (_line(arguments),) if arguments else (),
        title=lambda arguments: sanitize_line(arguments_line(arguments), MOST_SUBJECT),
        also=also,
    )


def _line(arguments: dict[str, Any]) -> str:
    return sanitize_line(json.dumps(arguments, ensure_ascii=False), MOST_SUBJECT) if arguments else ""


async def _shortened(context: ToolContext, text: str, most: int) -> str:
    """`text`, or its beginning and end with the name of a file with all of it."""
    if len(text) <= most:
        return text
    try:
        where = f"all of it is in {await context.workspace.keep_output(text.encode('utf-8', 'replace'))}"
    except ToolError as error:
        where = str(error)
    head = int(most * HEAD)
    return f"{text[:head]}\n[... {len(text) - most:,} characters left out; {where} ...]\n{text[head - most :]}"


# ---- tools to find and call those that no prompt describes -----------------------------------


class ToolSearch:
    """The helpers of one agent. `searchable`: its tools that no prompt describes; `readable`: its servers with resources;
    `about`: what each server is for."""

    def __init__(self, searchable: Mapping[str, Tool], readable: Sequence[str], about: Mapping[str, str]) -> None:
        self._searchable, self._readable, self._about = searchable, readable, about

    def tools(self) -> list[Tool]:
        """The helpers that the agent needs."""
        made = []
        if self._searchable:
            made += [self._search(), self._call()]
        if self._readable:
            made += self._resources()
        return made

    def _search(self) -> Tool:
        async def run(context: ToolContext, args: SearchToolsArguments) -> Output:
            found = self.search(args.query)
            if not found:
                return Output(f"No tool matches {args.query!r}. The servers are: {self._servers()}.")
            return Output(wrap_untrusted("\n\n".join(map(_described, found)), source="MCP servers"))

        counted = f"Finds tools of MCP servers by words, with their arguments. Servers: {self._servers()}."
        return Tool(run=run, info=ToolInfo("mcp_search", "own"), args=SearchToolsArguments, description=counted)

    def _call(self) -> Tool:
        def forward(args: CallArguments) -> tuple[str, dict[str, Any]]:
            name, given = meant_call(CALL, msgspec.structs.asdict(args))
            if name not in self._searchable and (near := closest_match(name, self._searchable)):
                server, tool = server_and_tool(near)
                known = any(server_of(one) == args.server for one in self._searchable)
                problem = f"The MCP server {args.server} has no tool {args.tool!r}."
                raise ToolError(
                    problem if known else f"There is no MCP server {args.server!r}.",
                    hint=f"Did you mean the tool {tool} of the server {server}?",
                )
            return name, given

        about = "Calls a tool that mcp_search found."
        return _forwarding(CALL, CallArguments, about, forward)

    def _resources(self) -> list[Tool]:
        def listing(args: ListResourcesArguments) -> tuple[str, dict[str, Any]]:
            return f"{SERVER_PREFIX}{self._known(args.server)}__{LIST}", {}

        def reading(args: ReadResourceArguments) -> tuple[str, dict[str, Any]]:
            return f"{SERVER_PREFIX}{self._known(args.server)}__{READ}", {"uri": args.uri}

        names = ", ".join(self._readable)
        return [
            _forwarding(
                LIST, ListResourcesArguments, f"Lists the resources of an MCP server. Servers: {names}.", listing
            ),
            _forwarding(READ, ReadResourceArguments, "Reads a resource that mcp_list lists.", reading),
        ]

    def _known(self, server: str) -> str:
        if server not in self._readable:
            raise ToolError(
                f"There is no MCP server {server!r} with resources.",
                hint=f"Servers with resources: {', '.join(self._readable)}.",
            )
        return server

    def search(self, query: str) -> list[Tool]:
        """The tools that have the most words of `query`: in their name before in their description."""
        words = [word for word in re.split(r"[^a-z0-9]+", query.lower()) if word]
        scored = []
        for name, tool in self._searchable.items():
            text = tool.description.lower()
            score = sum(3 * (word in name.lower()) + (word in text) for word in words)
            if score:
                scored.append((-score, name, tool))
        return [tool for *_, tool in sorted(scored, key=lambda row: row[:2])[:FOUND]]

    def _servers(self) -> str:
        counts: dict[str, int] = {}
        for name in self._searchable:
            counts[server_of(name)] = counts.get(server_of(name), 0) + 1
        parts = []
        for server, count in sorted(counts.items()):
            about = sanitize_line(self._about.get(server, ""), 200)
            parts.append(f"{server} ({count} tools{': ' + about if about else ''})")
        return ", ".join(parts)


def _forwarding(name: str, args: type[msgspec.Struct], about: str, forward: Callable[[Any], Any]) -> Tool:
    async def run(context: ToolContext, args: Any) -> Output:
        raise ToolError(f"{name} does not run tools itself.")

    return Tool(run=run, info=ToolInfo(name, "run", exact=True), args=args, description=about, forward=forward)


def _described(tool: Tool) -> str:
    server = server_of(tool.name)
    name = tool.name.removeprefix(f"{SERVER_PREFIX}{server}__")
    schema = msgspec.json.encode(tool.spec.schema).decode()
    return f"server: {server}\ntool: {name}\n{tool.description[:500]}\narguments: {schema[:4_000]}"
