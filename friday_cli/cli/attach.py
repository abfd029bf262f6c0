"""`friday attach`: the chat on a session that another process owns."""

from __future__ import annotations

import typer

from . import live_sessions, other_host
from .help import HelpCommand

HELP = """Open the chat on a session that runs in the background.

Leaving the chat (Ctrl+D, /detach) leaves the session running; /stop ends it. Several terminals can be attached at once. A session
that has ended is resumed here. Without ID: the only one that runs, or the last one that was used."""


def register(app: typer.Typer, _: str) -> None:
    """Add the command `attach`."""

    @app.command("attach", cls=HelpCommand, help=HELP)
    def attach(
        session: str = typer.Argument("", metavar="ID", help="The session, any unique prefix of its id."),
        plain: bool = typer.Option(False, "--plain", help="Linear text, for screen readers and simple terminals."),
        host: str = typer.Option("", "--host", metavar="HOST", help=other_host.HELP),
    ) -> None:
        raise typer.Exit(live_sessions.attach(session, plain=plain))
