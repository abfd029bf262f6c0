"""The migrations of the session file: the number of applied ones is the file's user_version."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable


def initial_schema(db: sqlite3.Connection) -> None:
    """Sessions, their agents, their events, and memories."""
    for statement in (
        "CREATE TABLE sessions(key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, cwd TEXT NOT NULL, title TEXT NOT NULL,"
        " model TEXT NOT NULL, created REAL NOT NULL, updated REAL NOT NULL)",
        "CREATE INDEX sessions_by_folder ON sessions(cwd)",
        "CREATE TABLE agents(session INTEGER NOT NULL, path TEXT NOT NULL, parent TEXT NOT NULL,"
        " depth INTEGER NOT NULL, profile TEXT NOT NULL, task TEXT NOT NULL, model TEXT NOT NULL, call_id TEXT NOT NULL,"
        " background INTEGER NOT NULL, run INTEGER NOT NULL, status TEXT NOT NULL, stop_reason TEXT NOT NULL,"
        " input INTEGER NOT NULL, cache_read INTEGER NOT NULL, cache_write INTEGER NOT NULL, output INTEGER NOT NULL,"
        " reasoning INTEGER NOT NULL, cost REAL, started REAL NOT NULL, finished REAL, active_s REAL NOT NULL,"
        " PRIMARY KEY(session, path)) WITHOUT ROWID",
        "CREATE INDEX agents_at_work ON agents(session) WHERE finished IS NULL",
        "CREATE TABLE events(session INTEGER NOT NULL, seq INTEGER NOT NULL, agent TEXT NOT NULL,"
        " at REAL NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY(session, seq))",
        "CREATE INDEX ends ON events(session, agent) WHERE kind = 'agent_finished'",
        "CREATE TABLE memories(id INTEGER PRIMARY KEY, scope TEXT NOT NULL, owner TEXT NOT NULL, text TEXT NOT NULL,"
        " tags TEXT NOT NULL, agent TEXT NOT NULL, at REAL NOT NULL)",
        "CREATE INDEX memories_by_owner ON memories(scope, owner)",
    ):
        db.execute(statement)
    if has_search(db):
        db.execute("CREATE VIRTUAL TABLE memory_words USING fts5(text, tags)")


def reviewed_memories(db: sqlite3.Connection) -> None:
    """Memories get a flag `promoted` (True for all existing ones) and ids that are never reused."""
    for statement in (
        "CREATE TABLE kept(id INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL, owner TEXT NOT NULL,"
        " text TEXT NOT NULL, tags TEXT NOT NULL, agent TEXT NOT NULL, at REAL NOT NULL, promoted INTEGER NOT NULL)",
        "INSERT INTO kept SELECT id, scope, owner, text, tags, agent, at, 1 FROM memories",
        "DROP TABLE memories",
        "ALTER TABLE kept RENAME TO memories",
        "CREATE INDEX memories_by_owner ON memories(scope, owner)",
    ):
        db.execute(statement)


def sessions_by_use(db: sqlite3.Connection) -> None:
    """The last session of a folder is found without reading the others."""
    db.execute("CREATE INDEX sessions_by_use ON sessions(cwd, updated)")
    db.execute("DROP INDEX sessions_by_folder")


def past_delegations(db: sqlite3.Connection) -> None:
    """One row for each delegation, also of those in the events of the file."""
    from .delegations import create

    create(db)


def spending_and_caps(db: sqlite3.Connection) -> None:
    """What all sessions used, hold and may use."""
    from .spending import create

    create(db)


def batches_at_services(db: sqlite3.Connection) -> None:
    """What batches at services may still cost."""
    from .spending import create_batch_holds

    create_batch_holds(db)


MIGRATIONS: list[Callable[[sqlite3.Connection], None]] = [
    initial_schema,
    reviewed_memories,
    sessions_by_use,
    past_delegations,
    spending_and_caps,
    batches_at_services,
]


def has_search(db: sqlite3.Connection) -> bool:
    """Whether this SQLite was built with full-text search."""
    return bool(db.execute("SELECT 1 FROM pragma_module_list WHERE name = 'fts5'").fetchone())
