"""`friday attach`: the chat on a session that another process owns."""

from __future__ import annotations

import asyncio

import typer

from friday_cli.core.protocol.errors import UsageError
from friday_cli.frontends.options import defaults
from friday_cli.frontends.tui.options import OPTIONS
from friday_cli.session import lists
from friday_cli.system import session_socket

from . import other_host
from .help import HelpCommand
from .session_lookup import reconcile

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
        from friday_cli.frontends.tui.run import chat  # imports the screen, which the help does not need

        name, cwd = asyncio.run(_found(session))
        values = defaults(OPTIONS) | {"resume": name, "cwd": cwd, "plain": plain}
        raise typer.Exit(chat(values, joins=session_socket.is_there(name)))


async def _found(prefix: str) -> tuple[str, str]:
    """The id and the folder of a session. Raises UsageError."""
    await reconcile()
    rows = {row.id: row for row in await lists.sessions()}
    if not rows:
        raise UsageError("There is no session yet.", hint='Start one: friday ask -b "TASK".')
    if prefix:
        name = await lists.find_session(prefix)
    else:
        live = list(await lists.owners([name for name in session_socket.sessions() if name in rows]))
        name = live[0] if len(live) == 1 else next(iter(rows))
        if len(live) > 1:
            name = next(row for row in rows if row in live)
    if name not in rows:
        raise UsageError(f"Session {name[:8]} has not begun yet.")
    return name, rows[name].cwd
