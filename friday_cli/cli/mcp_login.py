"""`friday mcp login` and `logout`: OAuth of servers that are reached by HTTP."""

from __future__ import annotations

import asyncio

import typer

from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.mcp.tokens import logins_dir, remove_logins, uses_oauth
from friday_cli.system.paths import with_tilde

from . import output
from .mcp_lookup import NAME, find

_NO_BROWSER = typer.Option(False, "--no-browser", help="Print the address and read the pasted redirect.")


def login(name: str = NAME, no_browser: bool = _NO_BROWSER) -> None:
    """Log in to an MCP server with OAuth. The login is stored in a file that only you can read.

    On a machine without a browser use --no-browser: open the printed address anywhere, log in, and paste the address of the
    page that does not load.
    """
    entry = find(name)
    if not uses_oauth(entry):
        why = "is a program" if entry.transport == "stdio" else "has an Authorization header in its entry"
        raise UsageError(f"The server {name} {why}: it has no login.")
    from friday_cli.mcp.login import log_in, summary  # imports the library mcp: 0.8 s

    try:
        stored = asyncio.run(log_in(entry, output.remark, browser=not no_browser))
    except KeyboardInterrupt:
        raise FridayError(f"The login to {name} was cancelled.") from None
    output.remark(f"logged in to {name}: {summary(stored)}")


def logout(name: str = NAME) -> None:
    """Remove the stored login to an MCP server."""
    if not remove_logins(name):
        raise UsageError(f"No login to {sanitize_line(name)} in {with_tilde(logins_dir())}.")
    output.remark(f"removed the login to {name}")
