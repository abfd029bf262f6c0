"""`friday memory`: the notes that outlive sessions. Those of sub-agents count once a person has promoted them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import typer

from friday_cli.core.protocol.errors import UsageError
from friday_cli.extensions.trust import project_root
from friday_cli.paths import with_tilde, working_folder
from friday_cli.store import MemoryItem, Store

from . import completion, output
from .help import add_family
from .output import TableColumn, confirm, remark, show_json, show_painted, show_table
from .session_args import JSON, YES
from .session_lookup import opened

T = TypeVar("T")
_IDS = typer.Argument(
    metavar="ID", help="The notes, by their numbers in the list.", autocompletion=completion.notes, show_default=False
)  # fmt: skip


def register(app: typer.Typer, about: str) -> None:
    """Add the family `memory`."""
    add_family(app, "memory", about, {"list": list_, "show": show, "promote": promote, "forget": forget})


def list_(
    everywhere: bool = typer.Option(False, "--all", "-a", help="Those of every project, not only of this one."),
    pending: bool = typer.Option(False, "--pending", help="Only those that wait for you to promote or forget them."),
    as_json: bool = JSON,
) -> None:
    """List the notes of this project and your own, the newest first.

    A note that a sub-agent saved is pending: only that sub-agent sees it. `friday memory promote` lets it count for
    every agent.
    """
    rows = [row for row in asyncio.run(_notes(everywhere)) if not (pending and row.promoted)]
    if as_json:
        show_json(rows)
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
                                      show_default=False), as_json: bool = JSON) -> None:  # fmt: skip
    """Show a note in full, and who saved it."""
    item = asyncio.run(_kept(lambda store: store.notes.get(number)))
    if as_json:
        show_json(item)
        return
    about = with_tilde(item.project) if item.scope == "project" else "you, everywhere"
    show_painted((f"note {item.id}  ", "cyan"), (_state(item), "green" if item.promoted else "yellow"))
    facts = [f"saved {_day(item.at)} by {item.agent}", f"about {about}", *(f"#{tag}" for tag in item.tags)]
    show_painted((" · ".join(facts), "dim"))
    output.show(f"\n{item.text}")


def promote(numbers: list[str] = _IDS) -> None:
    """Let notes of sub-agents count for every agent, as your own do."""
    changed = [item.id for item in asyncio.run(_kept(lambda store: store.notes.promote(numbers)))]
    if changed:
        remark(f"every agent sees {_named(changed)} now")
    else:
        remark(f"every agent saw {_named(numbers)} already")


def forget(numbers: list[str] = _IDS, yes: bool = YES) -> None:
    """Throw notes away. This cannot be undone."""
    for item in asyncio.run(_kept(lambda store: _several(store, numbers))):
        show_painted((f"{item.id}  ", "cyan"), (" ".join(item.text.split())[:200], ""))
    if not confirm(f"Forget {_named(numbers)}?", yes=yes, otherwise="Nothing was forgotten"):
        remark("nothing was forgotten")
        return
    forgotten = asyncio.run(_kept(lambda store: store.notes.forget(numbers)))
    remark(f"forgot {_named([item.id for item in forgotten])}")


# ---- the store --------------------------------------------------------------------------------------------------


async def _notes(everywhere: bool) -> list[MemoryItem]:
    project = None if everywhere else str(project_root(working_folder()))
    async with opened() as store:
        return [] if store is None else await store.notes.list_notes(project)


async def _kept(work: Callable[[Store], Awaitable[T]]) -> T:
    """What `work` makes of the store. Raises UsageError where there is none."""
    async with opened() as store:
        if store is None:
            raise UsageError("There are no notes yet.")
        return await work(store)


async def _several(store: Store, numbers: Sequence[str]) -> list[MemoryItem]:
    return [await store.notes.get(number) for number in numbers]


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
