"""`friday mcp tools` and `call`: a connection to one MCP server, for a person."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

import typer

from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.protocol.format import pluralize
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.core.text.suggest import closest_match
from friday_cli.mcp.catalog import Catalog, CatalogCache
from friday_cli.mcp.connection import Reply, ServerCall, ServerConnection
from friday_cli.mcp.entry import ServerEntry
from friday_cli.mcp.names import tool_names
from friday_cli.system.paths import working_folder

from . import output
from .mcp_lookup import NAME, find
from .project_context import load_context
from .session_args import JSON

T = TypeVar("T")
_REFRESH = typer.Option(False, "--refresh", help="Ask the server again, even if its tools are known.")


def tools(name: str = NAME, refresh: bool = _REFRESH, as_json: bool = JSON) -> None:
    """List the tools of an MCP server. It is started or contacted if they are not known."""
    entry = _enabled(name)
    catalog = CatalogCache().read(entry)
    if refresh or catalog is None or not catalog.fresh():
        catalog = asyncio.run(_connected(entry, lambda connection: connection.catalog()))
        CatalogCache().write(entry, catalog)
    if as_json:
        output.show_json(catalog.tools)
        return
    _show_tools(entry, catalog)


def call(
    name: str = NAME,
    tool: str = typer.Argument(metavar="TOOL", help="The tool, with or without mcp__NAME__ before it."),
    arguments: str = typer.Argument("{}", metavar="JSON", help="Its arguments as an object.", show_default=False),
) -> None:
    """Call a tool of an MCP server yourself. No agent takes part, and no permission rule is checked.

    Exit code 1 if the server reports that the tool failed.
    """
    entry = _enabled(name)
    try:
        given = json.loads(arguments)
    except (json.JSONDecodeError, RecursionError) as failed:
        raise UsageError(f"The arguments are not valid JSON: {failed}.") from None
    if not isinstance(given, dict):
        raise UsageError('The arguments are a JSON object, such as \'{"path": "."}\'.')
    known = CatalogCache().read(entry)
    names = [offered.name for offered in known.tools] if known else []
    tool = tool_names(name, names).get(tool, tool)
    if known and known.fresh() and tool not in names:
        close = closest_match(tool, names)
        hint = f"Did you mean {close}?" if close else f"`friday mcp tools {name} --refresh` lists them."
        raise UsageError(f"The MCP server {name} has no tool {sanitize_line(tool)!r}.", hint=hint)
    request = ServerCall(entry.timeout_s, show=lambda text: output.remark(text.rstrip("\n")))
    reply: Reply = asyncio.run(_connected(entry, lambda connection: connection.call(tool, given, request)))
    output.show(reply.text)
    for image in reply.images:
        output.remark(
            f"{image.media_type}, {len(base64.b64decode(image.data)):,} bytes: an image that is not shown here"
        )
    if reply.error:
        raise FridayError(f"MCP server {name}: {tool} failed.")


def _enabled(name: str) -> ServerEntry:
    entry = find(name)
    if not entry.enabled:
        raise UsageError(
            f"The MCP server {name} is disabled in {entry.file}.", hint="Set enabled to true there to use it."
        )
    return entry


async def _connected(entry: ServerEntry, work: Callable[[ServerConnection], Awaitable[T]]) -> T:
    from friday_cli.session.server_connection import server_connection  # most commands connect to nothing

    settings = load_context().settings
    async with server_connection(entry, working_folder(), settings, os.environ, output.remark) as connection:
        return await work(connection)


def _show_tools(entry: ServerEntry, catalog: Catalog) -> None:
    about = {tool.name: tool for tool in catalog.tools}
    for shown, own in tool_names(entry.name, about).items():
        tool = about[own]
        reads = " (read-only, it says)" if tool.read_only else ""
        output.show_hanging(4, (shown, "cyan"), (reads, "dim"))
        if tool.description:
            output.show_hanging(4, ("    ", ""), (sanitize_line(tool.description, 300), ""))
    server = sanitize_line(f"{catalog.server} {catalog.version}".strip() or "the server")
    left = f"; {catalog.offered - len(catalog.tools):,} are not used" if catalog.offered > len(catalog.tools) else ""
    output.remark(f"{pluralize(len(about), 'tool')} of {server}{left}")
