"""`friday worktrees`: unapplied changes of sub-agents in git worktrees."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import typer

from friday_cli.core.eventlog.log import Log
from friday_cli.core.protocol.errors import FridayError, StoreError, UsageError
from friday_cli.core.protocol.format import diffstat, pluralize
from friday_cli.session.lists import open_store
from friday_cli.session.rewind import without_agents
from friday_cli.store.locks import Ownership
from friday_cli.store.store import Store
from friday_cli.system.paths import data_dir, with_tilde
from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.worktrees.apply import Applied
from friday_cli.workspace.worktrees.metadata import Worktree, WorktreeMetadata
from friday_cli.workspace.worktrees.orphans import OrphanScan, OrphanWorktree, scan_orphans
from friday_cli.workspace.worktrees.worktrees import Worktrees

from . import completion, output
from .help import add_family
from .output import confirm, remark, show_json, show_painted, show_table
from .session_args import JSON, YES

_ID = typer.Argument(
    metavar="ID",
    autocompletion=completion.worktrees,
    help="The worktree: a unique prefix of its name in the list, or SESSION:PATH of its agent, such as 7f3a:a.2.",
)


def register(app: typer.Typer, about: str) -> None:
    """Add the family `worktrees`."""
    add_family(
        app, "worktrees", about, {"list": list_, "show": show, "apply": apply, "discard": discard, "clean": clean}
    )


def list_(as_json: bool = JSON) -> None:
    """List the existing worktrees.

    Unchanged worktrees of ended sessions are removed first. Worktrees of an open session are in use; apply or discard them
    there.
    """
    found = asyncio.run(_scan())
    if as_json:
        show_json([_data(left) for left in found.left])
        return
    if found.removed:
        remark(f"removed {pluralize(found.removed, 'unchanged worktree')}.")
    if not found.left:
        remark("no worktrees.")
        return
    cards = [(left, left.worktree.metadata) for left in found.left]
    rows = [(card.name, _agent(card), _state(left), card.branch, with_tilde(card.home)) for left, card in cards]
    show_table(("ID", "AGENT", "STATE", "BRANCH", "PROJECT"), rows, wide=("PROJECT",))


def show(name: str = _ID, as_json: bool = JSON) -> None:
    """Show the changes in a worktree."""
    left, text = asyncio.run(_shown(name))
    if as_json:
        show_json({**_data(left), "diff": text})
        return
    card = left.worktree.metadata
    show_painted((f"{card.name}  ", "cyan"), (_state(left), "yellow"))
    show_painted((f"agent {_agent(card)} · branch {card.branch} · of {with_tilde(card.home)}", "dim"))
    show_painted((with_tilde(card.folder), "dim"))
    for row in left.worktree.files:
        output.show(f"  {row.path} +{row.added} -{row.removed}{f' ({row.seen})' if row.seen else ''}")
    if text:
        output.show(f"\n{text}")


def apply(name: str = _ID) -> None:
    """Apply the changes of a worktree to the project, and remove it.

    Files that were also changed in the project are merged. If there are conflicts, nothing is applied and they are listed.
    Nothing is staged or committed.
    """
    applied, home = asyncio.run(_apply(name))
    for row in applied.files:
        output.show(f"{row.path} +{row.added} -{row.removed}")
    if applied.merged:
        remark(f"merged with newer changes: {', '.join(applied.merged)}")
    remark(f"applied to {home}")


def discard(
    name: str = _ID,
    keep_branch: bool = typer.Option(
        False, "--keep-branch", help="Commit the changes on its branch; remove only the folder."
    ),
    yes: bool = YES,
) -> None:
    """Remove a worktree with its changes, unless its branch is kept. This cannot be undone."""
    left = asyncio.run(_find(name))
    card = left.worktree.metadata
    question = f"Discard {card.name} ({_state(left)})?"
    if not confirm(question, yes=yes or keep_branch, otherwise="Nothing was discarded"):
        return
    asyncio.run(_discard(card.name, keep_branch))
    remark(f"the changes are on branch {card.branch}" if keep_branch else f"discarded {card.name}")


def clean() -> None:
    """Remove unchanged worktrees, and ask about each of the others."""
    found = asyncio.run(_scan())
    removed, kept = found.removed, 0
    interactive = sys.stdin is not None and sys.stdin.isatty()
    for left in found.left:
        card = left.worktree.metadata
        question = f"Discard {card.name} of {_agent(card)} ({_state(left)})?"
        if not left.in_use and interactive and confirm(question, yes=False, otherwise=""):
            asyncio.run(_discard(card.name, False))
            removed += 1
        else:
            kept += 1
    remark(f"removed {removed}, kept {kept}" + ("; `friday worktrees list` shows them" if kept else ""))


async def _scan() -> OrphanScan:
    async with open_store() as store:
        if store is None:
            return OrphanScan((), 0)
        await store.reconcile()
        return await scan_orphans(data_dir() / "worktrees", store.own, os.environ)


async def _find(name: str) -> OrphanWorktree:
    """Find a worktree by its name. Raises UsageError."""
    prefix, _, agent = name.partition(":")
    found = (await _scan()).left
    if agent:
        matches = [
            x for x in found if x.worktree.metadata.session.startswith(prefix) and x.worktree.metadata.agent == agent
        ]
    else:
        matches = [x for x in found if name in (x.worktree.metadata.name, x.worktree.metadata.branch)]
        matches = matches or [x for x in found if x.worktree.metadata.name.startswith(name)]
    if len(matches) == 1 and name:
        return matches[0]
    names = ", ".join(x.worktree.metadata.name for x in matches or found)
    if not matches:
        raise UsageError(f"There is no worktree {name!r}.", hint=f"Available: {names}." if names else "There are none.")
    raise UsageError(f"{name!r} matches several worktrees: {names}.", hint="Use a longer prefix.")


@asynccontextmanager
async def _locked(name: str) -> AsyncIterator[tuple[Worktrees, Worktree, Store, Ownership]]:
    """Lock the session of a worktree for the block. Raises UsageError if it is in use."""
    left = await _find(name)
    card = left.worktree.metadata
    if left.in_use:
        raise UsageError(
            f"{card.name} is in use: session {card.session[:8]} is open in another friday process.",
            hint="Apply or discard it there, or close that process first.",
        )
    async with open_store() as store:
        assert store is not None
        with await store.own(card.session) as owner:
            worktrees = Worktrees(data_dir() / "worktrees" / card.session, session=card.session)
            found = [w for w in await worktrees.load_remaining() if w.metadata.name == card.name and w.open]
            if not found:
                raise UsageError(f"{card.name} no longer exists.", hint="`friday worktrees list` shows the others.")
            yield worktrees, found[0], store, owner
            await worktrees.close()


async def _shown(name: str) -> tuple[OrphanWorktree, str]:
    left = await _find(name)
    if left.in_use:
        return left, ""
    async with _locked(name) as (worktrees, worktree, *_):
        return OrphanWorktree(worktree), await worktrees.diff(worktree, limit=10_000_000)


async def _apply(name: str) -> tuple[Applied, str]:
    async with _locked(name) as (worktrees, worktree, store, owner):
        async with _target(store, worktree, owner) as target:
            applied = await worktrees.apply(worktree, target)
            await _log_outcome(store, worktree)
        return applied, worktree.metadata.home


@asynccontextmanager
async def _target(store: Store, worktree: Worktree, owner: Ownership) -> AsyncIterator[LocalWorkspace]:
    """The workspace to apply to. If the session still exists, the current content is saved for a rewind."""
    async with AsyncExitStack() as stack:
        target = LocalWorkspace(Path(worktree.metadata.home))
        stack.push_async_callback(target.close)
        try:
            rewinder = await stack.enter_async_context(without_agents(store, worktree.metadata.session, owner=owner))
        except FridayError:  # the session was deleted, or its folder no longer exists
            yield target
            return
        yield rewinder.workspace if rewinder.workspace.root == target.root else target


async def _discard(name: str, keep_branch: bool) -> None:
    async with _locked(name) as (worktrees, worktree, store, _):
        await worktrees.discard(worktree, keep_branch=keep_branch)
        await _log_outcome(store, worktree)


async def _log_outcome(store: Store, worktree: Worktree) -> None:
    """Add the outcome of a worktree to the log of its session, unless the session was deleted."""
    session = worktree.metadata.session
    try:
        last = max((envelope.seq or 0 for envelope in await store.events(session)), default=0)
        if last and worktree.path:
            await Log(store.journal(session), last=last).emit(worktree.path, worktree.event)
            await store.sync()
    except StoreError:
        return


def _agent(card: WorktreeMetadata) -> str:
    """The agent of a worktree, as `7f3a1b2c:a.2`."""
    return f"{card.session[:8]}:{card.agent or '?'}"


def _state(left: OrphanWorktree) -> str:
    worktree = left.worktree
    if left.in_use:
        return "in use"
    if worktree.problem:
        return f"cannot be compared: {worktree.problem}"
    return f"{pluralize(len(worktree.files), 'file')} {diffstat(worktree.files)}"


def _data(left: OrphanWorktree) -> dict[str, Any]:
    worktree, card = left.worktree, left.worktree.metadata
    return {
        "id": card.name,
        "session": card.session,
        "agent": card.agent,
        "state": "in_use" if left.in_use else "unknown" if worktree.problem else "changed",
        "branch": card.branch,
        "folder": card.folder,
        "project": card.home,
        "base": card.base,
        "files": [
            {"path": row.path, "added": row.added, "removed": row.removed, "remark": row.seen} for row in worktree.files
        ],
    }
