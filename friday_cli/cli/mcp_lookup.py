"""Finds the MCP server that a command names."""

from __future__ import annotations

import typer

from friday_cli.core.protocol.errors import UsageError
from friday_cli.mcp.entry import ServerEntry
from friday_cli.mcp.names import no_server
from friday_cli.mcp.parse import TABLE

from . import completion
from .project_context import load_context

NAME = typer.Argument(metavar="NAME", help="The server.", autocompletion=completion.mcp_servers, show_default=False)


def find(name: str) -> ServerEntry:
    """The server `name`. Raises UsageError if there is none, or if its entry cannot be used."""
    entries, problems = load_context().mcp_servers()
    found = next((entry for entry in entries if entry.name == name), None)
    if found is None:
        broken = next((text for text in problems if f"{TABLE}.{name}" in text), "")
        if broken:
            raise UsageError(broken)
        missing = no_server(name, [entry.name for entry in entries])
        raise UsageError(missing.message, hint=" ".join((missing.hint, *problems[:3])))
    return found
