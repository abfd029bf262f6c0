"""The list of sessions, for commands that only print it. Light to import: nothing that only a run needs."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from friday_cli.core.protocol.tool_info import MAP_CALLER, OF_ITEM

from .records import SessionRow
from .schema import connect, explain, retry_while_busy

T = TypeVar("T")

CLOCK_S = 60.0
"""Seconds by which clocks that share a file may differ."""
TOKENS = "a.input + a.cache_write + a.output"
COST = "CASE WHEN count(a.cost) = count(*) THEN sum(a.cost) END"


def run_query(path: Path, work: Callable[[sqlite3.Connection], T]) -> T:
    """The result of `work` on the session file at `path`. Blocks, so it is for callers without an event loop.
    Raises StoreError."""
    db = connect(path)
    try:
        return retry_while_busy(lambda: work(db))
    except sqlite3.Error as error:
        raise explain(error, path) from None
    finally:
        db.close()


def short_ids(ids: Sequence[str]) -> dict[str, str]:
    """The shortest prefix of each id that is unique among `ids`, at least 8 characters."""
    size = 8
    while size < 36 and len({name[:size] for name in ids}) < len(ids):
        size += 4
    return {name: name[:size] for name in ids}


def unfinished_sessions(db: sqlite3.Connection) -> list[str]:
    """The ids of sessions with agents that have not ended."""
    rows = db.execute(
        "SELECT id FROM sessions WHERE key IN (SELECT session FROM agents INDEXED BY agents_at_work"
        " WHERE finished IS NULL) ORDER BY key"
    )
    return [row[0] for row in rows]


def last_conversation(db: sqlite3.Connection, cwd: str, now: float) -> str | None:
    """The id of the last session of a folder in which an agent ran, and not for a batch (`friday map`). `now`: Unix seconds."""
    found = db.execute(
        "SELECT s.id FROM sessions s WHERE s.cwd = ? AND EXISTS (SELECT 1 FROM agents a WHERE a.session = s.key)"
        " AND NOT EXISTS (SELECT 1 FROM agents a WHERE a.session = s.key AND a.depth = 1 AND a.call_id LIKE ?)"
        " ORDER BY s.updated > ?, s.updated DESC, s.key DESC LIMIT 1",
        (cwd, f"{MAP_CALLER}{OF_ITEM}%", now + CLOCK_S),
    ).fetchone()
    return None if found is None else str(found[0])


def last_event(db: sqlite3.Connection, session: str) -> int:
    """The number of the newest event of a session, 0 if there is none."""
    query = "SELECT max(e.seq) FROM sessions s JOIN events e ON e.session = s.key WHERE s.id = ?"
    return int(db.execute(query, (session,)).fetchone()[0] or 0)


def newest_bodies(
    db: sqlite3.Connection, session: str, agents: Sequence[str], kinds: Sequence[str], most: int
) -> list[tuple[str, dict[str, Any]]]:
    """The newest events of some agents and kinds in a session as (agent, fields), at most `most`, in order. `kind` is among the
    fields. Damaged ones are left out."""
    marks = [", ".join("?" * len(values)) for values in (agents, kinds)]
    rows = db.execute(
        "SELECT e.agent, CAST(e.body AS BLOB) FROM events e JOIN sessions s ON s.key = e.session WHERE s.id = ?"
        f" AND e.agent IN ({marks[0]}) AND e.kind IN ({marks[1]}) ORDER BY e.seq DESC LIMIT ?",
        (session, *agents, *kinds, most),
    )
    found: list[tuple[str, dict[str, Any]]] = []
    for agent, body in rows:
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            found.append((agent, msgspec.json.decode(body, type=dict[str, Any])))
    return found[::-1]


def list_sessions(
    db: sqlite3.Connection, cwd: str | None, limit: int | None, *, since: float = 0.0, owned: Collection[str] = ()
) -> list[SessionRow]:
    """Sessions in which an agent ran, the newest first: those used after `since` (Unix seconds), and the `owned` ones."""
    of_folder = "" if cwd is None else "s.cwd = :cwd AND "
    if since:
        of_folder += "(s.updated >= :since OR s.id IN (SELECT value FROM json_each(:owned))) AND "
    rows = db.execute(  # chosen first, so that nothing is added up for the others
        "WITH chosen AS MATERIALIZED (SELECT s.key FROM sessions s WHERE"
        f" {of_folder} EXISTS (SELECT 1 FROM agents a WHERE a.session = s.key)"
        " ORDER BY s.updated DESC, s.key DESC LIMIT :most)"
        " SELECT s.id, s.cwd, s.title, s.model, s.created, s.updated,"
        " max(iif(a.depth = 0, a.status, '')), max(iif(a.depth = 0, a.stop_reason, '')), sum(a.depth > 0),"
        f" sum({TOKENS}), {COST} FROM chosen JOIN sessions s USING (key) JOIN agents a ON a.session = s.key"
        " GROUP BY s.key ORDER BY s.updated DESC, s.key DESC",
        {
            "cwd": cwd,
            "most": -1 if limit is None else limit,
            "since": since,
            "owned": msgspec.json.encode(list(owned)).decode(),
        },
    )
    return [SessionRow(*row) for row in rows]
