"""Arguments and options shared by several commands."""

from __future__ import annotations

import typer

from . import completion

NAME = typer.Argument(
    metavar="ID", help="The session: any unique prefix of its id.", autocompletion=completion.sessions
)
AGENT = typer.Argument(
    metavar="ID",
    autocompletion=completion.sessions,
    help="The session: any unique prefix of its id; ID:PATH names one of its agents, such as 7f3a:a.2.",
)
LAST = typer.Argument(
    "",
    metavar="ID",
    autocompletion=completion.sessions,
    help="The session: any unique prefix of its id, default: the last one of this folder; ID:PATH names one of its agents.",
)
JSON = typer.Option(False, "--json", help="Print JSON for programs.")
YES = typer.Option(False, "--yes", "-y", help="Do not ask.")
