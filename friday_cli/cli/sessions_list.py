"""`friday sessions list`: a separate module, so that it imports neither asyncio nor the events (60 ms)."""

from __future__ import annotations

import typer

from friday_cli.core.protocol import format
from friday_cli.core.protocol.format import how_it_ended, tokens
from friday_cli.core.protocol.messages import Usage
from friday_cli.store.listing import list_sessions, run_query, short_ids, unfinished_sessions
from friday_cli.store.records import SessionRow
from friday_cli.system.paths import existing_store_path, text_of, with_tilde, working_folder

from .help import add_family
from .output import has_table, on_terminal, show_table, when
from .session_args import JSON


def register(app: typer.Typer, about: str) -> None:
    """Add the family `sessions` with only this command."""
    add_family(app, "sessions", about, {"list": list_})


def list_(
    everywhere: bool = typer.Option(False, "--all", "-a", help="Sessions of all folders."),
    as_json: bool = JSON,
) -> None:
    """List the sessions of this folder, newest first.

    Tokens and cost include the sub-agents.
    """
    rows = listed(None if everywhere else text_of(working_folder()))
    if not has_table(
        rows,
        as_json=as_json,
        none="no sessions yet." if everywhere else "no sessions in this folder; --all lists all folders.",
    ):
        return
    short = short_ids([row.id for row in rows])
    groups = [with_tilde(row.cwd) for row in rows] if everywhere and on_terminal() else []  # does not fit into a row
    folder = everywhere and not groups
    table = [
        (
            short[row.id],
            when(row.updated, short=on_terminal()),
            how_it_ended(row.status, row.stop_reason),
            str(row.agents or "-"),
            tokens(Usage(input=row.tokens)),
            price(row.model, row.cost_usd),
            row.title,
            *([row.cwd] * folder),
        )
        for row in rows
    ]
    figures = ("AGENTS", "TOKENS", "COST")
    titles = ("ID", "LAST USED", "STATUS", *figures, "TITLE", *(["FOLDER"] * folder))
    show_table(titles, table, right=figures, wide=("STATUS", "TITLE"), groups=groups)


def listed(cwd: str | None) -> list[SessionRow]:
    """The sessions of a folder, or all; sessions of dead processes are marked as ended first."""
    path = existing_store_path()
    if path is None:
        return []
    rows, open_ = run_query(path, lambda db: (list_sessions(db, cwd, None), unfinished_sessions(db)))
    if open_:
        import asyncio  # rarely needed, and takes 20 ms

        from .session_lookup import reconcile

        if asyncio.run(reconcile()):
            rows = run_query(path, lambda db: list_sessions(db, cwd, None))
    return rows


def price(model: str, cost_usd: float | None) -> str:
    """The cost in US dollars for a table."""
    return format.price(model, Usage(cost_usd=cost_usd)).removeprefix("cost ")
