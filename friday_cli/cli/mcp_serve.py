"""`friday mcp serve`: a separate module, so that a server starts without the rest of the family."""

from __future__ import annotations

from typing import Any

import typer

from friday_cli.frontends.mcp_server.options import OPTIONS

from .help import add_family
from .parameters import set_parameters


def register(app: typer.Typer, about: str) -> None:
    """Add the family `mcp` with only this command."""
    add_family(app, "mcp", about, {"serve": serve})


def serve(**values: Any) -> None:
    """Serve Friday's sub-agents to another agent by MCP (stdio).

    For the MCP settings of Claude Code, Codex, Zed and others: the command is `friday`, its arguments are `mcp serve`. The caps
    hold for all calls together. Without a person at the client, sub-agents only read.
    """
    from friday_cli.frontends.mcp_server.run import serve  # imports the library, which the help does not need

    raise typer.Exit(serve(values))


set_parameters(serve, [], OPTIONS)
