"""`friday sessions fork`, `rewind` and `diff`: going on from an earlier message, and what was done to files."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import typer

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.format import pluralize
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.session.rewind import Resolve, Rewinder, RewindResult, What, points, without_agents
from friday_cli.session.rewind import fork as fork_session
from friday_cli.workspace.checkpoints.review import FileDiff

from .output import Style, TableColumn, confirm, remark, show, show_json, show_painted, show_table, when
from .session_args import AGENT, JSON, NAME
from .session_lookup import find, named, opened, read, whole_session

STYLES: dict[str, Style] = {"+": "green", "-": "red", "@": "cyan"}
TEXT = 60
"""Characters of a message in the list."""


def fork(
    name: str = NAME,
    at: int | None = typer.Option(
        None, "--at", metavar="N", min=1, show_default=False,
        help="Take what came before your N-th message; all of it where this is left out.",
    ),
    as_json: bool = JSON,
) -> None:  # fmt: skip
    """Make a new session that begins with the history of another.

    The other one stays as it is, and may be at work. Go on in the new one with `friday -r ID`.
    """
    made = asyncio.run(_fork(name, at))
    if as_json:
        show_json({"session_id": made})
        return
    show(made)
    remark(f"go on in it with `friday -r {made[:8]}`")


def rewind(
    name: str = NAME,
    *,
    to: int | None = typer.Option(
        None, "--to", metavar="N", min=1, show_default=False, help="Go back to right before your N-th message."
    ),
    files: bool = typer.Option(False, "--files", help="Only the files; the conversation stays."),
    conversation: bool = typer.Option(False, "--conversation", help="Only the conversation; the files stay."),
    undo: bool = typer.Option(False, "--undo", help="Take the newest rewind back."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Show what would be done, and do nothing."),
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask, but for files that somebody else changed."),
    force: bool = typer.Option(False, "--force", help="Overwrite files that somebody else changed, too."),
    leave: bool = typer.Option(False, "--leave", help="Leave files alone that somebody else changed."),
    as_json: bool = JSON,
) -> None:
    """Go back to an earlier message, with the files.

    The conversation, the files that were changed since, or both. Without --to your messages are listed. Nothing is
    lost: what files hold now is kept before they are changed, and --undo takes the rewind back. Files that are not as
    the agents left them are never overwritten unasked.

    \b
    friday sessions rewind 7f3a                  your messages
    friday sessions rewind 7f3a --to 2           as before message 2
    friday sessions rewind 7f3a --to 2 --files   the files only
    friday sessions rewind 7f3a --undo           back again
    """
    if files and conversation:
        raise UsageError("--files and --conversation exclude each other.", hint="Without both, both go back.")
    if force and leave:
        raise UsageError("--force and --leave exclude each other.")
    if undo and (to is not None or files or conversation):
        raise UsageError(
            "--undo takes back what the newest rewind did.", hint="It takes no --to, --files or --conversation."
        )
    if to is None and not undo:
        _list(name, as_json)
        return
    what: What = "files" if files else "conversation" if conversation else "both"
    asyncio.run(_rewind(name, to, what, dry_run=dry_run, yes=yes, force=force, leave=leave, as_json=as_json))


def diff(
    name: str = AGENT,
    agent: str | None = typer.Option(
        None, "--agent", metavar="PATH", help="Only what this agent did, such as a.2.", show_default=False
    ),
    stat: bool = typer.Option(False, "--stat", help="The files and how many lines changed, without the lines."),
    as_json: bool = JSON,
) -> None:
    """Show what a session changed in your files, by agent and file.

    From what each file held before to what is there now, commands included as far as they could be seen. What was
    taken back or accepted is left out. It may be asked while the session is at work.
    """
    rows = asyncio.run(_changes(name, agent))
    if as_json:
        show_json(rows)
        return
    if not rows:
        remark("nothing that was changed is left to be seen.")
        return
    before = ""
    for row in rows:
        if row.agent != before:
            show_painted((f"agent {row.agent}", "bold"))
            before = row.agent
        remarks = [row.kind] * (row.kind != "changed") + [row.remark] * bool(row.remark)
        remarks += ["changed again since, not by an agent"] * row.yours
        about = f" ({', '.join(remarks)})" if remarks else ""
        show(f"  {row.path} +{row.added} -{row.removed}{about}")
        for text in row.diff.splitlines() if not stat else ():
            show_painted((f"    {text}", STYLES.get(text[:1], "")))


async def _rewind(
    name: str, to: int | None, what: What, *, dry_run: bool, yes: bool, force: bool, leave: bool, as_json: bool
) -> None:
    async with _past(name) as past:

        async def go(dry_run: bool, conflicts: Resolve) -> RewindResult:
            if to is None:
                return await past.undo(dry_run=dry_run, conflicts=conflicts)
            return await past.to(to, what, dry_run=dry_run, conflicts=conflicts)

        resolve: Resolve = "overwrite" if force else "leave" if leave else "ask"
        found = await go(True, resolve)
        if not as_json:
            _show(found)
        if not dry_run:
            done = "Nothing was changed"
            if not confirm("Go back?", yes=yes, otherwise=done):
                remark("nothing was changed")
                return
            if found.conflicts and resolve == "ask":
                resolve = _asked(len(found.conflicts))
            found = await go(False, resolve)
        if as_json:
            show_json(found)
        elif found.done:
            again = f" `friday sessions rewind {name} --undo` takes it back." if to is not None else ""
            remark(f"done.{again}")


def _asked(count: int) -> Resolve:
    """What a person wants to become of files that somebody else changed. Raises UsageError where nobody can be asked."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(
            "Nothing was changed: somebody else changed files since.",
            hint="--force overwrites them (what they hold is kept), --leave leaves them alone.",
        )
    files = pluralize(count, "file")
    return (
        "overwrite"
        if confirm(f"Overwrite the {files} that somebody else changed?", yes=False, otherwise="")
        else "leave"
    )


def _show(found: RewindResult) -> None:
    if found.point is not None:
        show_painted(("before message ", "dim"), (f"{found.point.number}: {sanitize_line(found.point.text, TEXT)}", ""))
    for file in found.files:
        show(f"  {file.path} +{file.added} -{file.removed}{f' ({file.seen})' if file.seen else ''}")
    if found.what != "conversation" and not found.files:
        show("  no file is to be brought back")
    for title, rows in (("changed by somebody else:", found.conflicts), ("cannot be brought back:", found.lost)):
        if rows:
            show_painted((title, "yellow"))
            for row in rows:
                show(f"  {row.path}: {row.reason}")


def _list(name: str, as_json: bool) -> None:
    rows = points(asyncio.run(read(name)).envelopes)
    if as_json:
        show_json(rows)
        return
    if not rows:
        remark("there is no message of yours in this session.")
        return
    columns = [
        TableColumn("N", right=True),
        TableColumn("WHEN"),
        TableColumn("CHANGED SINCE"),
        TableColumn("MESSAGE", wide=True),
    ]
    show_table(columns, [(str(p.number), when(p.at), _count(p.files), sanitize_line(p.text, TEXT)) for p in rows])


def _count(files: Sequence[str]) -> str:
    return pluralize(len(files), "file") if files else "-"


# ---- the store --------------------------------------------------------------------------------------------------


async def _fork(name: str, at: int | None) -> str:
    async with whole_session(name, "A session is forked with all its agents.") as (store, session):
        return await fork_session(store, session, at=at)


async def _changes(name: str, agent: str | None) -> list[FileDiff]:
    async with opened() as store:
        session, path = await find(store, name)
        path = named(name, path, agent)
        assert store is not None
        if path and path not in {row.path for row in await store.agents(session)}:
            raise UsageError(f"Session {session[:8]} has no agent {path!r}.")
        async with without_agents(store, session) as past:
            return [row for row in await past.changes() if path in ("", row.agent)]


@asynccontextmanager
async def _past(name: str) -> AsyncIterator[Rewinder]:
    """The past of a session that no process has open. Raises UsageError."""
    async with whole_session(name, "A session is rewound with all its agents.") as (store, session):
        await store.reconcile()
        with await store.own(session):
            async with without_agents(store, session) as past:
                yield past
