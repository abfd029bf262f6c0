"""Repairs a damaged session file: the readable rows are saved, and those of lost sessions and agents derived from their events."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from friday_cli.core.protocol.agent_path import parent_of
from friday_cli.core.protocol.decode import decode_event
from friday_cli.core.protocol.events import AgentStarted, Envelope, SessionStarted

from .journal import append_events, project
from .prefixes import whole_body
from .salvage import Layout, salvage
from .schema import connect, connect_earlier


class Repaired(msgspec.Struct, frozen=True):
    """The result of a repair. `kept` is the path of the damaged file, None if the file is not damaged. `missing` is the
    number of lost events, counted by the gaps in the event numbers, `left_out` that of rows whose values fit no column."""

    kept: Path | None = None
    sessions: int = 0
    events: int = 0
    missing: int = 0
    notes: int = 0
    left_out: int = 0


def repair(path: Path, report: Callable[[str], object] = lambda text: None) -> Repaired:
    """Replace a damaged session file with a new one that has all readable rows. `report` gets the progress with a large file, in
    words. Raises as `salvage`. Blocks."""
    found = salvage(path, SESSIONS, report)
    if found.kept is None:
        return Repaired()
    sessions, events, notes = (found.rows[table] for table in ("sessions", "events", "memories"))
    return Repaired(found.kept, sessions, events, found.missing, notes, found.left_out)


def _derive(db: sqlite3.Connection) -> int:
    """Make the rows of sessions and agents. Returns the number of lost events, by the gaps in their numbers."""
    each = "SELECT count(*) AS found, max(seq) AS top FROM events GROUP BY session"
    (missing,) = db.execute(f"SELECT total(top - found) FROM ({each})").fetchone()
    for (key,) in db.execute("SELECT DISTINCT session FROM events").fetchall():
        _rebuild_rows(db, key)
    return int(missing)


def _rebuild_rows(db: sqlite3.Connection, key: int) -> None:
    """Derive the rows of a session and its agents from its events."""
    envelopes, used = [], set[int | None]()
    for seq, at, agent, body in db.execute(
        "SELECT seq, at, agent, CAST(body AS BLOB) FROM events WHERE session = ? ORDER BY seq", (key,)
    ):
        used.add(seq)
        try:
            envelopes.append(Envelope(seq, at, agent, decode_event(whole_body(db, key, body))))
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue  # `read_events` reports it
    started = next((e.event for e in envelopes if isinstance(e.event, SessionStarted)), None)
    name, cwd = (started.session, started.cwd) if started else (str(uuid.uuid4()), "")
    times = db.execute("SELECT min(at), max(at) FROM events WHERE session = ?", (key,)).fetchone()
    unused = "NOT EXISTS (SELECT 1 FROM events WHERE session = sessions.key)"
    db.execute(
        f"UPDATE OR IGNORE sessions SET key = ? WHERE id = ? AND {unused}", (key, name)
    )  # its number was damaged
    for free in (name, str(uuid.uuid4())):  # the row of another session may have its name
        db.execute(
            "INSERT OR IGNORE INTO sessions(key, id, cwd, title, model, created, updated) VALUES (?, ?, ?, '', '', ?, ?)",
            (key, free, cwd, *times),
        )
    model = db.execute("SELECT model FROM sessions WHERE key = ?", (key,)).fetchone()[0]
    made = _replacement_starts(envelopes, used, model)
    append_events(db, key, made)
    project(db, key, envelopes)
    db.execute("UPDATE sessions SET updated = ? WHERE key = ?", (times[1], key))


def _replacement_starts(envelopes: list[Envelope], used: set[int | None], model: str) -> list[Envelope]:
    """AgentStarted events for agents whose own was lost, at free numbers (not in `used`) before their other events.
    Without one an agent can neither be shown nor resumed."""
    started = {e.agent for e in envelopes if isinstance(e.event, AgentStarted)}
    made = []
    for envelope in envelopes:
        if envelope.agent in started or isinstance(envelope.event, SessionStarted):
            continue
        started.add(envelope.agent)
        free = next((n for n in range((envelope.seq or 1) - 1, 0, -1) if n not in used), None)
        if free is not None:
            used.add(free)
            profile = "friday" if envelope.agent == "a" else "general"
            start = AgentStarted(1, profile, "(task lost)", model, parent_of(envelope.agent))
            made.append(Envelope(free, envelope.at, envelope.agent, start))
    return made


SESSIONS = Layout(
    connect,
    ("sessions", "events", "memories", "spending", "caps", "batch_holds"),
    "events",
    "locks",
    _derive,
    earlier=(partial(connect_earlier, version=5),),  # the last whose list of tables fits into one page
)
"""The session file. The rows of agents are derived from the events."""
