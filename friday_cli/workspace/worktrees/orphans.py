"""Finds worktrees of sessions whose process has ended, and removes those without changes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.text.lazy_regex import pattern

from .metadata import Worktree, load_worktrees
from .worktrees import Worktrees

LockSession = Callable[[str], Awaitable[AbstractContextManager[object]]]
"""Takes the lock of a session; raises UsageError while another process has it."""
_SESSION = pattern(r"[0-9a-f]{8}-[0-9a-f-]{27}")


class OrphanWorktree(msgspec.Struct, frozen=True):
    """A worktree that still exists. `in_use`: its session is open in a process, so its changes were not examined."""

    worktree: Worktree
    in_use: bool = False


class OrphanScan(msgspec.Struct, frozen=True):
    """The worktrees that still exist (`left`), and the number of those that were removed because they had no changes."""

    left: tuple[OrphanWorktree, ...]
    removed: int


async def scan_orphans(folder: Path, lock: LockSession, environ: Mapping[str, str], *, skip: str = "") -> OrphanScan:
    """Examine the worktrees of every session below `folder` except `skip`, and remove those without changes."""
    left: list[OrphanWorktree] = []
    removed = 0
    names = await asyncio.to_thread(os.listdir, folder) if await asyncio.to_thread(folder.is_dir) else []
    for session in sorted(name for name in names if _SESSION().fullmatch(name) and name != skip):
        try:
            with await lock(session):
                worktrees = Worktrees(folder / session, session=session, environ=environ)
                found = await worktrees.load_remaining()
                await worktrees.close()
        except UsageError:
            in_use = await asyncio.to_thread(lambda: list(load_worktrees(folder / session)))  # noqa: B023
            left += [OrphanWorktree(worktree, True) for worktree in in_use]
            continue
        except (FridayError, OSError):
            continue  # a session that cannot be read must not hide the others
        left += [OrphanWorktree(worktree) for worktree in found if worktree.open]
        removed += sum(not worktree.open for worktree in found)
    return OrphanScan(tuple(left), removed)
