"""Finds the MCP server that a command names."""

from __future__ import annotations

import typer

from friday_cli.core.protocol.errors import UsageError
from friday_cli.extensions import trust
from friday_cli.mcp import read
from friday_cli.mcp.entry import ServerEntry
from friday_cli.mcp.names import no_server
from friday_cli.mcp.parse import TABLE
from friday_cli.system.paths import with_tilde, working_folder

from . import completion
from .project_context import load_context

NAME = typer.Argument(metavar="NAME", help="The server.", autocompletion=completion.mcp_servers)


def untrusted_note() -> list[str]:
    """A line about the servers of a project that are not used, because it is not trusted."""
    status = trust.is_trusted(working_folder())
    if status.ok or read.PROJECT_FILE not in status.files:
        return []
    return [f"{with_tilde(status.root / read.PROJECT_FILE)} is not used: {status.reason} Run `friday trust`."]


def find(name: str) -> ServerEntry:
    """The server `name`. Raises UsageError if there is none, or if its entry cannot be used."""
    entries, problems = load_context().mcp_servers()
    found = next((entry for entry in entries if entry.name == name), None)
    if found is None:
        broken = next((text for text in problems if f"{TABLE}.{name}" in text), "")
        if broken:
            raise UsageError(broken)
        missing = no_server(name, [entry.name for entry in entries])
        raise UsageError(missing.message, hint=" ".join((missing.hint, *problems[:3], *untrusted_note())))
    return found
