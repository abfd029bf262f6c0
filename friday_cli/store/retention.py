"""What is kept no longer: the sessions that nobody used for long, and the oldest where all together take too much."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from friday_cli.core.protocol.errors import UsageError

from . import locks
from .journal import remove
from .schema import connect, patiently, roll_back

DAY_S = 86_400.0
FRESH_S = 3_600.0
"""What was used so short ago is not removed to make room: it may be about to be opened again."""
GIGABYTE = 1_000_000_000
KEPT = ("spill", "checkpoints")
"""Folders beside the file in which each session may have one of its name: long output, and earlier contents of files."""
_PAGES = 1_000
"""Pages given back to the file system at a time, so that nobody waits for long."""


def prune(path: Path, *, days: float, gigabytes: float, now: float) -> list[str]:
    """Remove the sessions of the file at `path` that were not used for `days`, then the oldest while what sessions and
    their spilled output take is more than `gigabytes`; 0 means no such limit. Gives their ids.

    A session that a process owns stays, and one whose folder below `worktrees` is not empty. It may be stopped at any
    moment: each session is removed whole or not at all. Raises StoreError or OSError.
    """
    if not path.exists():
        return []
    gone = []
    with closing(connect(path)) as db:
        spilled = _spilled(path.parent / "spill") if gigabytes > 0 else {}
        for session, updated in db.execute("SELECT id, updated FROM sessions ORDER BY updated, key").fetchall():
            old = days > 0 and updated < now - days * DAY_S
            if not old:
                taken = _used(db) + sum(spilled.values())
                if gigabytes == 0 or updated >= now - FRESH_S or taken <= gigabytes * GIGABYTE:
                    break
            if _remove(db, path, session, updated):
                gone.append(session)
                spilled.pop(session, 0)
        _sweep(db, path, now)
        _give_back(db)
    return gone


def _remove(db: sqlite3.Connection, path: Path, session: str, updated: float) -> bool:
    """Remove a session, if it still is as it was and nobody has it."""
    try:
        ownership = locks.own(path.parent / "locks", session)
    except UsageError:
        return False  # it is open somewhere
    with ownership:
        if not _is_empty(path.parent / "worktrees" / session):
            return False
        with _transaction(db):
            if db.execute("SELECT updated FROM sessions WHERE id = ?", (session,)).fetchone() != (updated,):
                return False  # used, or removed, meanwhile
            remove(db, session)
        for kept in KEPT:
            shutil.rmtree(path.parent / kept / session, ignore_errors=True)
    return True


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    patiently(lambda: db.execute("BEGIN IMMEDIATE"))
    try:
        yield
        patiently(lambda: db.execute("COMMIT"))
    except BaseException:
        roll_back(db)
        raise


def _is_empty(folder: Path) -> bool:
    """Whether a folder holds nothing; removes it then."""
    try:
        folder.rmdir()
    except FileNotFoundError:
        pass
    except OSError:
        return False
    return True


def _sweep(db: sqlite3.Connection, path: Path, now: float) -> None:
    """Remove what was kept for sessions that are gone: not while a damaged file is kept, in which they may still be."""
    if any(path.parent.glob(f"{path.name}.damaged-*")):
        return
    places = [folder for kept in KEPT for folder in _folders(path.parent / kept)]
    folders = [f for f in places if f.stat().st_mtime < now - FRESH_S]
    kept = {row[0] for row in db.execute("SELECT id FROM sessions")}
    for folder in folders:
        if folder.name not in kept:
            shutil.rmtree(folder, ignore_errors=True)


def _used(db: sqlite3.Connection) -> int:
    """Bytes in use in the file."""
    pages, free, size = (
        int(db.execute(f"PRAGMA {n}").fetchone()[0]) for n in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size


def _spilled(place: Path) -> dict[str, int]:
    """Bytes of spilled output by session."""
    return {f.name: sum(file.lstat().st_size for file in f.rglob("*") if file.is_file()) for f in _folders(place)}


def _folders(place: Path) -> list[Path]:
    return [f for f in place.iterdir() if f.is_dir() and not f.is_symlink()] if place.is_dir() else []


def _give_back(db: sqlite3.Connection) -> None:
    """Let the file shrink by what is free in it (where it was made so that it can)."""
    before = -1
    while (free := int(db.execute("PRAGMA freelist_count").fetchone()[0])) not in (0, before):
        before = free
        patiently(lambda: db.execute(f"PRAGMA incremental_vacuum({_PAGES})").fetchall())
