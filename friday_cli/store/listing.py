"""The list of sessions, for a command that prints it and leaves: nothing is loaded here that only a run needs."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from .records import SessionRow
from .schema import connect, explain, patiently

T = TypeVar("T")

TOKENS = "a.input + a.cache_write + a.output"
COST = "CASE WHEN count(a.cost) = count(*) THEN sum(a.cost) END"


def glance(path: Path, work: Callable[[sqlite3.Connection], T]) -> T:
    """What `work` makes of the session file at `path`, here and now: for who has nothing else to do meanwhile.
    Raises StoreError."""
    db = connect(path)
    try:
        return patiently(lambda: work(db))
    except sqlite3.Error as error:
        raise explain(error, path) from None
    finally:
        db.close()


def short_ids(ids: Sequence[str]) -> dict[str, str]:
    """As much of each id as tells it from the others, 8 characters at least."""
    size = 8
    while size < 36 and len({name[:size] for name in ids}) < len(ids):
        size += 4
    return {name: name[:size] for name in ids}


def at_work(db: sqlite3.Connection) -> list[str]:
    """The ids of sessions with agents that have no end."""
    rows = db.execute(
        "SELECT id FROM sessions WHERE key IN (SELECT session FROM agents INDEXED BY agents_at_work"
        " WHERE finished IS NULL) ORDER BY key"
    )
    return [row[0] for row in rows]


def list_sessions(db: sqlite3.Connection, cwd: str | None, limit: int | None) -> list[SessionRow]:
    """Sessions in which something ran, the newest first."""
    rows = db.execute(
        "SELECT s.id, s.cwd, s.title, s.model, s.created, s.updated,"
        " max(iif(a.depth = 0, a.status, '')), max(iif(a.depth = 0, a.stop_reason, '')), sum(a.depth > 0),"
        f" sum({TOKENS}), {COST} FROM sessions s JOIN agents a ON a.session = s.key"
        " WHERE ?1 IS NULL OR s.cwd = ?1 GROUP BY s.key ORDER BY s.updated DESC, s.key DESC LIMIT ?2",
        (cwd, -1 if limit is None else limit),
    )
    return [SessionRow(*row) for row in rows]
