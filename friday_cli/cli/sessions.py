"""`friday sessions`: export, rename, delete, stats and repair; other commands are in their own modules."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import typer

from friday_cli import __version__
from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.protocol.format import pluralize, seconds, tokens
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.session import lists
from friday_cli.store.records import StatRow
from friday_cli.store.repair import repair as repaired
from friday_cli.store.retention import KEPT
from friday_cli.system.paths import data_dir, store_path, with_tilde
from friday_cli.view.reports import FORMATS, FormatName, RecordedSession, write_file

from . import rewind
from .help import add_family
from .output import confirm, has_table, remark, show_table
from .session_args import JSON, NAME, YES
from .session_lookup import read, refuse_agent, whole_session
from .sessions_fork import fork
from .sessions_list import list_, price
from .sessions_receipt import receipt
from .sessions_replay import replay
from .sessions_show import show

FORM = typer.Option("md", "--format", "-f", help=f"{', '.join(form.about for form in FORMATS.values())}.")


def register(app: typer.Typer, about: str) -> None:
    """Add the family `sessions`."""
    commands: dict[str, Callable[..., None]] = {
        "list": list_,
        "show": show,
        "export": export,
        "receipt": receipt,
        "replay": replay,
        "diff": rewind.diff,
    }
    commands |= {"rewind": rewind.rewind, "fork": fork, "rename": rename, "delete": delete, "stats": stats}
    add_family(app, "sessions", about, {**commands, "repair": repair})


def export(
    name: str = NAME,
    form: FormatName = FORM,
    file: str | None = typer.Option(
        None, "--output", "-o", metavar="FILE", help="Write to this file instead of standard output."
    ),
) -> None:
    """Export a session, such as Markdown or a web page.

    Likely keys and passwords are masked. Check the result before you publish it.
    """
    record = asyncio.run(read(name))
    refuse_agent(record.id, record.agent, "Only a whole session can be exported.")
    from .project_context import load_context  # listing sessions needs no settings

    with suppress(FridayError):  # the keys of the settings are masked; a session can be exported without them
        load_context()
    text = FORMATS[form].write(RecordedSession(record.id, record.envelopes, __version__, record.title))
    if file is None or file == "-":
        print(text, end="")
        return
    write_file(Path(file), text, replace=True)
    remark(f"exported session {record.id[:8]} to {file}")


def rename(name: str = NAME, title: str = typer.Argument(metavar="TITLE", help="The new title.")) -> None:
    """Change the title of a session."""
    if not sanitize_line(title):
        raise UsageError("The title is empty.")
    session = asyncio.run(_rename(name, title))
    remark(f"renamed session {session[:8]} to {sanitize_line(title)!r}")


def delete(name: str = NAME, yes: bool = YES) -> None:
    """Delete a session with all its agents. This cannot be undone."""
    record = asyncio.run(read(name))
    refuse_agent(record.id, record.agent, "Only a whole session can be deleted.")
    count = max(0, len(record.state.agents) - 1)
    agents = f" and its {pluralize(count, 'sub-agent')}" if count else ""
    what = f"session {record.id[:8]} ({record.title or 'untitled'}){agents}"
    if not confirm(f"Delete {what}?", yes=yes, otherwise="Nothing was deleted"):
        return
    asyncio.run(_delete(record.id))
    remark(f"deleted {what}")


def stats(as_json: bool = JSON) -> None:
    """Show statistics of runs by profile and model.

    A run that reached a limit does not count as a success. CACHED: the share of the input that was read from a cache. p50 and p95:
    percentiles of the duration. The last table: what half, and nine of ten, of the delegations to a profile use at most, including
    their own sub-agents.
    """
    rows = asyncio.run(_stats())
    if not has_table(rows, as_json=as_json, none="no sessions yet."):
        return
    table = [
        (
            row.profile,
            row.model,
            str(row.runs),
            "-" if row.success_rate is None else f"{row.success_rate:.0%}",
            tokens(Usage(input=row.tokens)),
            "-" if row.cache_share is None else f"{row.cache_share:.0%}",
            price(row.model, row.cost_usd),
            *(seconds(time) if row.runs else "-" for time in (row.p50_s, row.p95_s)),
            ", ".join(f"{reason} {count}" for reason, count in row.stop_reasons.items()) or "-",
        )
        for row in rows
    ]
    figures = ("RUNS", "SUCCESS", "TOKENS", "CACHED", "COST", "P50", "P95")
    show_table(("PROFILE", "MODEL", *figures, "ENDED BY"), table, right=figures, wide=("MODEL", "ENDED BY"))
    usual = [(row.forecast.line(),) for row in rows if row.forecast]
    if usual:
        show_table(("A DELEGATION",), usual, wide=("A DELEGATION",))


def repair() -> None:
    """Recover damaged files of sessions and batches. A damaged file is kept under another name."""
    if (batches := data_dir() / "map.db").exists():
        _repair_batches(batches)
    path = store_path()
    if not path.exists():
        remark("no sessions yet: nothing to repair.")
        return
    saved = repaired(path, remark)
    if saved.kept is None:
        remark(f"{with_tilde(str(path))} is not damaged; nothing was changed")
        return
    lost = f"; {saved.missing} events could not be read" if saved.missing else ""
    lost += f"; {saved.left_out} rows were damaged and left out" if saved.left_out else ""
    remark(f"recovered {saved.sessions} sessions with {saved.events} events, and {saved.notes} notes{lost}")
    remark(f"the damaged file is now {with_tilde(str(saved.kept))}")


def _repair_batches(path: Path) -> None:
    from friday_cli.map.repair import repair as repair_batches  # most people have no batches

    saved = repair_batches(path, remark)
    if saved.kept is None:
        remark(f"{with_tilde(str(path))} is not damaged; nothing was changed")
        return
    lost = f"; {saved.left_out} rows were damaged and left out" if saved.left_out else ""
    remark(f"recovered {saved.rows['batches']} batches and the work of {saved.rows['items']} items{lost}")
    remark(
        "run the command of a missing batch again to recreate it; what it spent before then no longer counts towards its cap"
    )
    remark(f"the damaged file is now {with_tilde(str(saved.kept))}")


async def _rename(name: str, title: str) -> str:
    async with whole_session(name, "Only a session has a title.") as (store, session):
        await store.rename(session, title)
    return session


async def _delete(session: str) -> None:
    await lists.delete(session)
    for folder in KEPT:
        shutil.rmtree(data_dir() / folder / session, ignore_errors=True)


async def _stats() -> list[StatRow]:
    async with lists.open_store() as store:
        if store is None:
            return []
        await store.reconcile()
        return list(await store.stats())
