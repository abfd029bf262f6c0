"""Finds the MCP server that a command names."""

from __future__ import annotations

import typer

from friday_cli.core.protocol.errors import UsageError
from friday_cli.mcp.entry import ServerEntry
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
        names = ", ".join(entry.name for entry in entries) or "none"
        hint = " ".join((f"Available: {names}.", *problems[:3]))
        raise UsageError(broken or f"There is no MCP server {name!r}.", hint="" if broken else hint)
    return found
