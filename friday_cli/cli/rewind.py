"""`friday sessions rewind` and `diff`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import typer

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.format import pluralize
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.session.rewind import Rewinder, points, without_agents
from friday_cli.session.rewind_result import Resolve, RewindResult, What
from friday_cli.workspace.checkpoints.review import FileDiff

from .output import Style, confirm, has_table, remark, show, show_json, show_painted, show_table, when
from .session_args import AGENT, JSON, NAME
from .session_lookup import choose_agent, find, read, require_agent, whole_session

STYLES: dict[str, Style] = {"+": "green", "-": "red", "@": "cyan"}
MESSAGE_CHARS = 60
"""Characters of a message in the list."""


def rewind(
    name: str = NAME,
    *,
    to: int | None = typer.Option(
        None, "--to", metavar="N", min=1, help="Go back to the state before your N-th message."
    ),
    files: bool = typer.Option(False, "--files", help="Restore only the files."),
    conversation: bool = typer.Option(False, "--conversation", help="Rewind only the conversation."),
    undo: bool = typer.Option(False, "--undo", help="Undo the last rewind."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Show what would be done, without doing it."),
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask, except about files that somebody else changed."),
    force: bool = typer.Option(False, "--force", help="Also overwrite files that somebody else changed."),
    leave: bool = typer.Option(False, "--leave", help="Skip files that somebody else changed."),
    as_json: bool = JSON,
) -> None:
    """Go back to an earlier message: conversation and files.

    Without --to, lists your messages. The current content of the files is saved first, so that --undo can restore it.
    Files that somebody else changed are never overwritten without asking.

    \b
    friday sessions rewind 7f3a                  list your messages
    friday sessions rewind 7f3a --to 2           the state before message 2
    friday sessions rewind 7f3a --to 2 --files   only the files
    friday sessions rewind 7f3a --undo           undo the rewind
    """
    if files and conversation:
        raise UsageError("--files and --conversation cannot be combined.", hint="Omit both to rewind both.")
    if force and leave:
        raise UsageError("--force and --leave cannot be combined.")
    if undo and (to is not None or files or conversation):
        raise UsageError("--undo cannot be combined with --to, --files or --conversation.")
    if to is None and not undo:
        _list(name, as_json)
        return
    wanted = _Wanted(
        to,
        "files" if files else "conversation" if conversation else "both",
        "overwrite" if force else "leave" if leave else "ask",
    )
    asyncio.run(_rewind(name, wanted, dry_run=dry_run, yes=yes, as_json=as_json))


def diff(
    name: str = AGENT,
    agent: str | None = typer.Option(None, "--agent", metavar="PATH", help="Only changes of this agent, such as a.2."),
    stat: bool = typer.Option(False, "--stat", help="Only file names and line counts."),
    as_json: bool = JSON,
) -> None:
    """Show the file changes of a session, by agent and file.

    Includes changes by commands, as far as they were detected. Undone and accepted changes are omitted. Works while the
    session is running.
    """
    rows = asyncio.run(_changes(name, agent))
    if not has_table(rows, as_json=as_json, none="no changes."):
        return
    before = ""
    for row in rows:
        if row.agent != before:
            show_painted((f"agent {row.agent}", "bold"))
            before = row.agent
        remarks = [row.kind] * (row.kind != "changed") + [row.remark] * bool(row.remark)
        remarks += ["changed later, not by an agent"] * row.yours
        about = f" ({', '.join(remarks)})" if remarks else ""
        show(f"  {row.path} +{row.added} -{row.removed}{about}")
        for text in row.diff.splitlines() if not stat else ():
            show_painted((f"    {text}", STYLES.get(text[:1], "")))


class _Wanted(NamedTuple):
    """What the person wants to rewind."""

    to: int | None
    """The number of the message; None to undo the last rewind."""
    what: What
    conflicts: Resolve

    async def run(self, rewinder: Rewinder, *, dry_run: bool) -> RewindResult:
        if self.to is None:
            return await rewinder.undo(dry_run=dry_run, conflicts=self.conflicts)
        return await rewinder.to(self.to, self.what, dry_run=dry_run, conflicts=self.conflicts)


async def _rewind(name: str, wanted: _Wanted, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    async with _rewinder(name) as rewinder:
        found = await wanted.run(rewinder, dry_run=True)
        if not as_json:
            _show(found)
        if not dry_run:
            if not confirm("Rewind?", yes=yes, otherwise="Nothing was changed"):
                return
            if found.conflicts and wanted.conflicts == "ask":
                wanted = wanted._replace(conflicts=_ask_conflicts(len(found.conflicts)))
            found = await wanted.run(rewinder, dry_run=False)
        if as_json:
            show_json(found)
        elif found.done:
            undo_hint = f" Undo: `friday sessions rewind {name} --undo`" if wanted.to is not None else ""
            remark(f"done.{undo_hint}")


def _ask_conflicts(count: int) -> Resolve:
    """Ask what to do with files that somebody else changed. Raises UsageError without a terminal."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(
            "Nothing was changed: somebody else changed files.",
            hint="Use --force to overwrite them (their content is saved), or --leave to skip them.",
        )
    files = pluralize(count, "file")
    overwrite = confirm(f"Overwrite the {files} that somebody else changed?", yes=False, otherwise="")
    return "overwrite" if overwrite else "leave"


def _show(found: RewindResult) -> None:
    if found.point is not None:
        text = f"{found.point.number}: {sanitize_line(found.point.text, MESSAGE_CHARS)}"
        show_painted(("before message ", "dim"), (text, ""))
    for file in found.files:
        show(f"  {file.path} +{file.added} -{file.removed}{f' ({file.seen})' if file.seen else ''}")
    if found.what != "conversation" and not found.files:
        show("  no files to restore")
    for title, rows in (("changed by somebody else:", found.conflicts), ("cannot be restored:", found.lost)):
        if rows:
            show_painted((title, "yellow"))
            for row in rows:
                show(f"  {row.path}: {row.reason}")


def _list(name: str, as_json: bool) -> None:
    rows = points(asyncio.run(read(name)).envelopes)
    if not has_table(rows, as_json=as_json, none="you have not written a message in this session."):
        return
    table = [
        (
            str(p.number),
            when(p.at),
            pluralize(len(p.files), "file") if p.files else "-",
            sanitize_line(p.text, MESSAGE_CHARS),
        )
        for p in rows
    ]
    show_table(("N", "WHEN", "CHANGED SINCE", "MESSAGE"), table, right=("N",), wide=("MESSAGE",))


async def _changes(name: str, agent: str | None) -> list[FileDiff]:
    async with find(name) as (store, session, path):
        path = choose_agent(name, path, agent)
        require_agent(session, path, [row.path for row in await store.agents(session)])
        async with without_agents(store, session) as rewinder:
            return [row for row in await rewinder.changes() if path in ("", row.agent)]


@asynccontextmanager
async def _rewinder(name: str) -> AsyncIterator[Rewinder]:
    """A Rewinder for a session that no process has open. Raises UsageError."""
    async with whole_session(name, "Only a whole session can be rewound.") as (store, session):
        await store.reconcile()
        with await store.own(session) as owner:
            async with without_agents(store, session, owner=owner) as rewinder:
                for text in rewinder.recovered:
                    remark(text)
                yield rewinder
