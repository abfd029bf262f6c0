"""Worktrees of sessions whose processes are gone: found by their cards, removed where nothing is in them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.text.lazy_regex import pattern

from .metadata import Worktree, cards
from .worktrees import Worktrees

Own = Callable[[str], Awaitable[AbstractContextManager[object]]]
"""Takes the lock of a session; raises UsageError while a process has it."""
_SESSION = pattern(r"[0-9a-f]{8}-[0-9a-f-]{27}")


class OrphanWorktree(msgspec.Struct, frozen=True):
    """A worktree that is still there. `living`: the process of its session lives, so it was not looked into."""

    worktree: Worktree
    living: bool = False


class OrphanScan(msgspec.Struct, frozen=True):
    """What stands below a folder: the worktrees that are still there, and how many were removed: nothing was in them."""

    left: tuple[OrphanWorktree, ...]
    removed: int


async def look_through(folder: Path, own: Own, environ: Mapping[str, str], *, skip: str = "") -> OrphanScan:
    """Look through the worktrees of every session below `folder` but `skip`, and remove those without work."""
    left: list[OrphanWorktree] = []
    removed = 0
    for session in await asyncio.to_thread(_sessions, folder):
        if session == skip:
            continue
        try:
            with await own(session):
                worktrees = Worktrees(folder / session, session=session, environ=environ)
                found = await worktrees.recall()
                await worktrees.close()
        except UsageError:
            left += [OrphanWorktree(worktree, True) for worktree in await asyncio.to_thread(_cards, folder / session)]
            continue
        except (FridayError, OSError):
            continue  # one that cannot be looked at must not hide the others
        left += [OrphanWorktree(worktree) for worktree in found if worktree.open]
        removed += sum(not worktree.open for worktree in found)
    return OrphanScan(tuple(left), removed)


def _sessions(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir() if _SESSION().fullmatch(path.name))
    except OSError:
        return []


def _cards(folder: Path) -> list[Worktree]:
    return list(cards(folder))
