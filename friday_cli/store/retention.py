"""Removes sessions that were not used for long, and the oldest ones if all together are too large."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from friday_cli.core.protocol.errors import UsageError

from . import locks
from .journal import remove
from .schema import connect, retry_while_busy, transaction

DAY_S = 86_400.0
FRESH_S = 3_600.0
"""A session used in the last hour is not removed because of its size: it may be opened again soon."""
GIGABYTE = 1_000_000_000
KEPT = ("spill", "checkpoints", "baselines")
"""Folders next to the file with a subfolder per session: long output, earlier contents of files, and those that a killed
process left behind."""
_PAGES = 1_000
"""Pages returned to the file system in one step, so that other processes do not wait long."""


def prune(path: Path, *, days: float, gigabytes: float, now: float) -> list[str]:
    """Remove the sessions of the file at `path` that were not used for `days`, then the oldest ones while sessions and
    their spilled output are larger than `gigabytes`; 0 means no limit. Returns the ids of the removed sessions.

    A session stays if a process owns it, or if its folder in `worktrees` is not empty. Pruning can be interrupted at
    any time: each session is removed completely or not at all. Raises StoreError or OSError.
    """
    if not path.exists():
        return []
    gone = []
    with closing(connect(path)) as db:
        spilled: dict[str, int] = {}
        for folder in _folders(path.parent / "spill") if gigabytes > 0 else ():
            spilled[folder.name] = sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file())
        for session, updated in db.execute("SELECT id, updated FROM sessions ORDER BY updated, key").fetchall():
            old = days > 0 and updated < now - days * DAY_S
            if not old:
                pages, free, size = (_pragma(db, name) for name in ("page_count", "freelist_count", "page_size"))
                taken = (pages - free) * size + sum(spilled.values())
                if gigabytes == 0 or updated >= now - FRESH_S or taken <= gigabytes * GIGABYTE:
                    break
            if _remove(db, path, session, updated):
                gone.append(session)
                spilled.pop(session, 0)
        _remove_leftovers(db, path, now)
        _shrink(db)
    return gone


def _remove(db: sqlite3.Connection, path: Path, session: str, updated: float) -> bool:
    """Remove a session, unless a process owns it or it was used since it was listed."""
    try:
        ownership = locks.own(path.parent / "locks", session)
    except UsageError:
        return False  # a process has it open
    with ownership:
        if not _is_empty(path.parent / "worktrees" / session):
            return False
        with transaction(db):
            if db.execute("SELECT updated FROM sessions WHERE id = ?", (session,)).fetchone() != (updated,):
                return False  # it was used or removed in the meantime
            remove(db, session)
        for kept in KEPT:
            shutil.rmtree(path.parent / kept / session, ignore_errors=True)
    return True


def _is_empty(folder: Path) -> bool:
    """Whether a folder is empty or missing. An empty one is removed."""
    try:
        folder.rmdir()
    except FileNotFoundError:
        pass
    except OSError:
        return False
    return True


def _remove_leftovers(db: sqlite3.Connection, path: Path, now: float) -> None:
    """Remove the folders of sessions that no longer exist. Not if there is a damaged file, which may contain them."""
    if any(path.parent.glob(f"{path.name}.damaged-*")):
        return
    folders = [folder for name in KEPT for folder in _folders(path.parent / name)]
    folders = [f for f in folders if f.stat().st_mtime < now - FRESH_S]
    sessions = {row[0] for row in db.execute("SELECT id FROM sessions")}
    for folder in folders:
        if folder.name not in sessions:
            shutil.rmtree(folder, ignore_errors=True)


def _pragma(db: sqlite3.Connection, name: str) -> int:
    return int(db.execute(f"PRAGMA {name}").fetchone()[0])


def _folders(root: Path) -> list[Path]:
    return [f for f in root.iterdir() if f.is_dir() and not f.is_symlink()] if root.is_dir() else []


def _shrink(db: sqlite3.Connection) -> None:
    """Return free pages to the file system (if the file was created with auto_vacuum)."""
    before = -1
    while (free := _pragma(db, "freelist_count")) not in (0, before):
        before = free
        retry_while_busy(lambda: db.execute(f"PRAGMA incremental_vacuum({_PAGES})").fetchall())
