"""`friday memory`: notes for later sessions. Notes of sub-agents and for all projects wait for a promotion."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import typer

from friday_cli.session import lists
from friday_cli.store.records import MemoryItem
from friday_cli.system.paths import with_tilde, working_folder

from . import completion, output
from .help import add_family
from .output import confirm, has_table, remark, show_json, show_painted, show_table
from .session_args import JSON, YES

_IDS = typer.Argument(metavar="ID", help="Numbers of the notes in the list.", autocompletion=completion.notes)


def register(app: typer.Typer, about: str) -> None:
    """Add the family `memory`."""
    add_family(app, "memory", about, {"list": list_, "show": show, "promote": promote, "forget": forget})


def list_(
    everywhere: bool = typer.Option(False, "--all", "-a", help="Notes of all projects."),
    pending: bool = typer.Option(False, "--pending", help="Only notes that are not promoted yet."),
    as_json: bool = JSON,
) -> None:
    """List your notes and those of this project, newest first.

    A note of a sub-agent, and one for all projects, is pending: only its agent sees it until `friday memory promote`.
    """
    rows = [
        row
        for row in asyncio.run(lists.notes(None if everywhere else working_folder()))
        if not (pending and row.promoted)
    ]
    kind = "pending notes" if pending else "notes"
    none = f"no {kind}." if everywhere else f"no {kind} in this project; --all lists all projects."
    if not has_table(rows, as_json=as_json, none=none):
        return
    table = []
    for row in rows:
        about = (with_tilde(row.project) if everywhere else "project") if row.scope == "project" else "you"
        by = f"{row.agent[:8]}:{row.agent.rpartition(':')[2]}" if ":" in row.agent else row.agent
        table.append((row.id, _day(row.at), _state(row), by, about, " ".join(row.tags), " ".join(row.text.split())))
    wide = ("NOTE", "ABOUT") if everywhere else ("NOTE",)
    show_table(("ID", "SAVED", "STATE", "BY", "ABOUT", "TAGS", "NOTE"), table, right=("ID",), wide=wide)


def show(
    number: str = typer.Argument(metavar="ID", help="Number of the note.", autocompletion=completion.notes),
    as_json: bool = JSON,
) -> None:
    """Show a note and its author."""
    [item] = asyncio.run(lists.find_notes([number]))
    if as_json:
        show_json(item)
        return
    about = with_tilde(item.project) if item.scope == "project" else "you, in all projects"
    show_painted((f"note {item.id}  ", "cyan"), (_state(item), "green" if item.promoted else "yellow"))
    facts = [f"saved {_day(item.at)} by {item.agent}", f"about {about}", *(f"#{tag}" for tag in item.tags)]
    show_painted((" · ".join(facts), "dim"))
    output.show(f"\n{item.text}")


def promote(numbers: list[str] = _IDS) -> None:
    """Make pending notes visible to every agent, yours in all projects."""
    changed = [item.id for item in asyncio.run(lists.promote_notes(numbers))]
    if changed:
        remark(f"promoted {_note_numbers(changed)}: visible to every agent")
    else:
        remark(f"already promoted: {_note_numbers(numbers)}")


def forget(numbers: list[str] = _IDS, yes: bool = YES) -> None:
    """Delete notes. This cannot be undone."""
    for item in asyncio.run(lists.find_notes(numbers)):
        show_painted((f"{item.id}  ", "cyan"), (" ".join(item.text.split())[:200], ""))
    if not confirm(f"Delete {_note_numbers(numbers)}?", yes=yes, otherwise="Nothing was deleted"):
        return
    deleted = asyncio.run(lists.forget_notes(numbers))
    remark(f"deleted {_note_numbers([item.id for item in deleted])}")


def _state(item: MemoryItem) -> str:
    return "promoted" if item.promoted else "pending"


def _note_numbers(numbers: Sequence[str]) -> str:
    return f"note {numbers[0]}" if len(numbers) == 1 else f"notes {', '.join(numbers)}"


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(at))
