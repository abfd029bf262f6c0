"""`friday memory`: the notes that outlive sessions. Those of sub-agents count once a person has promoted them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from friday_cli.paths import with_tilde

from . import completion
from .help import HelpCommand, HelpGroup

if TYPE_CHECKING:
    from friday_cli.store import MemoryItem, Store

_IDS = typer.Argument(
    metavar="ID", help="The notes, by their numbers in the list.", autocompletion=completion.notes, show_default=False
)  # fmt: skip
_JSON = typer.Option(False, "--json", help="Print JSON for programs.")


def register(app: typer.Typer) -> None:
    """Add the family `memory`."""
    family = typer.Typer(
        cls=HelpGroup, help="Notes that agents kept: list, show, promote, forget.", rich_markup_mode=None
    )
    for name, function in (("list", list_), ("show", show), ("promote", promote), ("forget", forget)):
        family.command(name, cls=HelpCommand)(function)
    app.add_typer(family, name="memory")


def list_(
    everywhere: bool = typer.Option(False, "--all", "-a", help="Those of every project, not only of this one."),
    pending: bool = typer.Option(False, "--pending", help="Only those that wait for you to promote or forget them."),
    as_json: bool = _JSON,
) -> None:
    """List the notes of this project and your own, the newest first.

    A note that a sub-agent saved is pending: only that sub-agent sees it. `friday memory promote` lets it count for
    every agent.
    """
    from .output import TableColumn, remark, show_json, show_table

    rows = [row for row in asyncio.run(_notes(everywhere)) if not (pending and row.promoted)]
    if as_json:
        import msgspec

        show_json(msgspec.to_builtins(rows))
        return
    if not rows:
        kind = "pending notes" if pending else "notes"
        remark(f"no {kind}." if everywhere else f"no {kind} of this project; --all lists those of every project.")
        return
    columns = [
        TableColumn("ID", right=True),
        TableColumn("SAVED"),
        TableColumn("STATE"),
        TableColumn("BY"),
        TableColumn("ABOUT", wide=everywhere),
    ]
    columns += [TableColumn("TAGS"), TableColumn("NOTE", wide=True)]
    table = []
    for row in rows:
        about = (with_tilde(row.project) if everywhere else "project") if row.scope == "project" else "you"
        table.append(
            (row.id, _day(row.at), _state(row), _by(row), about, " ".join(row.tags), " ".join(row.text.split()))
        )
    show_table(columns, table)


def show(number: str = typer.Argument(metavar="ID", help="The note, by its number.", autocompletion=completion.notes,
                                      show_default=False), as_json: bool = _JSON) -> None:  # fmt: skip
    """Show a note in full, and who saved it."""
    from .output import show as print_
    from .output import show_json, show_painted

    item = asyncio.run(_note(number))
    if as_json:
        import msgspec

        show_json(msgspec.to_builtins(item))
        return
    about = with_tilde(item.project) if item.scope == "project" else "you, everywhere"
    show_painted((f"note {item.id}  ", "cyan"), (_state(item), "green" if item.promoted else "yellow"))
    facts = [f"saved {_day(item.at)} by {item.agent}", f"about {about}", *(f"#{tag}" for tag in item.tags)]
    show_painted((" · ".join(facts), "dim"))
    print_(f"\n{item.text}")


def promote(numbers: list[str] = _IDS) -> None:
    """Let notes of sub-agents count for every agent, as your own do."""
    from .output import remark

    changed = [item.id for item in asyncio.run(_promote(numbers))]
    if changed:
        remark(f"every agent sees {_named(changed)} now")
    else:
        remark(f"every agent saw {_named(numbers)} already")


def forget(numbers: list[str] = _IDS, yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask.")) -> None:
    """Throw notes away. This cannot be undone."""
    from .output import confirm, remark, show_painted

    for item in asyncio.run(_several(numbers)):
        show_painted((f"{item.id}  ", "cyan"), (" ".join(item.text.split())[:200], ""))
    if not confirm(f"Forget {_named(numbers)}?", yes=yes, otherwise="Nothing was forgotten"):
        remark("nothing was forgotten")
        return
    remark(f"forgot {_named([item.id for item in asyncio.run(_forget(numbers))])}")


# ---- the store --------------------------------------------------------------------------------------------------


async def _notes(everywhere: bool) -> list[MemoryItem]:
    from friday_cli.extensions.trust import project_root
    from friday_cli.paths import working_folder

    from .session_lookup import opened

    project = None if everywhere else str(project_root(working_folder()))
    async with opened() as store:
        return [] if store is None else await store.notes(project)


async def _note(number: str) -> MemoryItem:
    return (await _several([number]))[0]


async def _several(numbers: Sequence[str]) -> list[MemoryItem]:
    from .session_lookup import opened

    async with opened() as store:
        return [await _kept(store).note(number) for number in numbers]


async def _promote(numbers: Sequence[str]) -> list[MemoryItem]:
    from .session_lookup import opened

    async with opened() as store:
        return list(await _kept(store).promote(numbers))


async def _forget(numbers: Sequence[str]) -> list[MemoryItem]:
    from .session_lookup import opened

    async with opened() as store:
        return list(await _kept(store).forget(numbers))


def _kept(store: Store | None) -> Store:
    from friday_cli.core.protocol.errors import UsageError

    if store is None:
        raise UsageError("There are no notes yet.")
    return store


# ---- words ------------------------------------------------------------------------------------------------------


def _state(item: MemoryItem) -> str:
    return "promoted" if item.promoted else "pending"


def _by(item: MemoryItem) -> str:
    session, _, path = item.agent.rpartition(":")
    return f"{session[:8]}:{path}" if session else path


def _named(numbers: Sequence[str]) -> str:
    return f"note {numbers[0]}" if len(numbers) == 1 else f"notes {', '.join(numbers)}"


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(at))
