"""Saving what can be read of a damaged session file. The damaged one stays, and nothing is begun anew in silence."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from friday_cli.core.protocol.agent_path import parent_of
from friday_cli.core.protocol.decode import decode_event
from friday_cli.core.protocol.errors import StoreError, UsageError
from friday_cli.core.protocol.events import AgentStarted, Envelope, SessionStarted

from . import locks
from .journal import append_events, project
from .schema import Damaged, connect, explain

TABLES = ("sessions", "events", "memories")
"""What is taken over row by row; all other rows are made from these."""
LAST = 2**62
"""No row has a higher number."""


class Repaired(msgspec.Struct, frozen=True):
    """What came of a repair: `kept` is the damaged file, None where the file was whole and stays as it is. `missing` are
    the events of which only a gap in the numbers tells."""

    kept: Path | None = None
    sessions: int = 0
    events: int = 0
    missing: int = 0
    notes: int = 0


def repair(path: Path) -> Repaired:
    """Put a new file with all that can be read in the place of a damaged one, which stays beside it under another name.

    Sessions and agents whose rows are gone come back from their events. Raises UsageError where a process has a session
    open, StoreError where the file is another program's or a newer Friday's, OSError where nothing can be written.
    """
    _alone(path)
    with tempfile.TemporaryDirectory(prefix="repair-", dir=path.parent) as folder:
        work, new = Path(folder, "damaged.db"), Path(folder, "new.db")
        for end in ("", "-wal"):  # looking at a file moves its log into it: that is for a copy
            if Path(f"{path}{end}").exists():
                shutil.copyfile(f"{path}{end}", f"{work}{end}")
        if _is_whole(work, path):
            return Repaired()
        found = _take_over(work, new)
        _alone(path)
        kept = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:4]}")
        for end in ("", "-wal"):
            if Path(f"{path}{end}").exists() and (not end or Path(f"{path}{end}").stat().st_size):
                _second_name(Path(f"{path}{end}"), Path(f"{kept}{end}"))
        for end in ("-wal", "-shm"):
            Path(f"{path}{end}").unlink(missing_ok=True)  # else it would be taken for the log of the new file
        os.replace(new, path)
    return msgspec.structs.replace(found, kept=kept)


def _alone(path: Path) -> None:
    """Raises UsageError while a process has a session open."""
    for lock in (path.parent / "locks").glob("*.lock"):
        if locks.is_owned(lock.parent, lock.stem):
            raise UsageError(f"Session {lock.stem[:8]} is open in another friday process.", hint="Close it first.")


def _second_name(file: Path, name: Path) -> None:
    try:
        os.link(file, name)
    except OSError:  # a file system without links
        shutil.copyfile(file, name)
        name.chmod(0o600)


def _is_whole(work: Path, path: Path) -> bool:
    """Whether a copy of the file at `path` has no fault. Raises StoreError where it is not ours to change."""
    try:
        with closing(connect(work)) as db:
            return bool(db.execute("PRAGMA integrity_check(1)").fetchall() == [("ok",)])
    except Damaged:
        return False
    except sqlite3.Error as error:
        if isinstance(explain(error, path), Damaged):
            return False
        raise explain(error, path) from None
    except StoreError as error:
        raise type(error)(error.message.replace(str(work), str(path)), hint=error.hint) from None


def _take_over(damaged: Path, new: Path) -> Repaired:
    """Make the file `new` with every row of `damaged` that can be read, and what follows from them."""
    with closing(connect(new)) as db, closing(sqlite3.connect(damaged)) as old:
        old.text_factory = lambda raw: raw.decode("utf-8", "replace")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("BEGIN IMMEDIATE")
        for table in TABLES:
            _rows(old, db, table)
        each = "SELECT count(*) AS found, max(seq) AS top FROM events GROUP BY session"
        events, missing = db.execute(f"SELECT total(found), total(top - found) FROM ({each})").fetchone()
        for (key,) in db.execute("SELECT DISTINCT session FROM events").fetchall():
            _fold(db, key)
        db.execute("COMMIT")
        sessions, notes = (
            db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("sessions", "memories")
        )
        return Repaired(None, sessions, int(events), int(missing), notes)


def _rows(old: sqlite3.Connection, db: sqlite3.Connection, table: str) -> None:
    known = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
    try:
        columns = [row[1] for row in old.execute(f"PRAGMA table_info({table})") if row[1] in known]
    except sqlite3.Error:
        return  # not even which tables there are can be read
    if not columns:
        return
    names, marks = ", ".join(columns), ", ".join("?" * len(columns))
    if table == "memories" and "promoted" not in columns:  # the first form: all count for everybody
        names, marks = f"{names}, promoted", f"{marks}, 1"
    for row in _readable(old, f"SELECT rowid, {', '.join(columns)} FROM {table} WHERE rowid > ? ORDER BY rowid"):
        db.execute(f"INSERT OR IGNORE INTO {table}({names}) VALUES ({marks})", row)


def _readable(old: sqlite3.Connection, query: str) -> Iterator[Sequence[object]]:
    """The rows of a table by their numbers; those that cannot be read are passed over."""
    after: int | None = -1
    while after is not None:
        try:
            for number, *row in old.execute(query, (after,)):
                yield row
                after = number
            return
        except sqlite3.Error:
            after = _beyond(old, query, after)


def _beyond(old: sqlite3.Connection, query: str, after: int) -> int | None:
    """The nearest number above `after` behind which rows can be read again, None for none."""

    def reads(number: int) -> bool:
        try:
            old.execute(f"{query} LIMIT 1", (number,)).fetchone()
        except sqlite3.Error:
            return False
        return True

    leap = 1
    while not reads(after + leap):
        leap *= 2
        if after + leap > LAST:
            return None
    low, high = after + leap // 2, after + leap
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reads(middle) else (middle, high)
    return high


def _fold(db: sqlite3.Connection, key: int) -> None:
    """Make the rows of a session and its agents from its events."""
    envelopes = []
    for seq, at, agent, body in db.execute(
        "SELECT seq, at, agent, CAST(body AS BLOB) FROM events WHERE session = ? ORDER BY seq", (key,)
    ):
        try:
            envelopes.append(Envelope(seq, at, agent, decode_event(body)))
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue  # a reader says so in its place
    begun = next((e.event for e in envelopes if isinstance(e.event, SessionStarted)), None)
    name, cwd = (begun.session, begun.cwd) if begun else (str(uuid.uuid4()), "")
    times = db.execute("SELECT min(at), max(at) FROM events WHERE session = ?", (key,)).fetchone()
    db.execute(
        "INSERT OR IGNORE INTO sessions(key, id, cwd, title, model, created, updated) VALUES (?, ?, ?, '', '', ?, ?)",
        (key, name, cwd, *times),
    )
    model = db.execute("SELECT model FROM sessions WHERE key = ?", (key,)).fetchone()[0]
    made = _beginnings(envelopes, model)
    append_events(db, key, made)
    project(db, key, envelopes)
    db.execute("UPDATE sessions SET updated = ? WHERE key = ?", (times[1], key))


def _beginnings(envelopes: list[Envelope], model: str) -> list[Envelope]:
    """In the place of lost starts of agents, each where a number is free before its other events: without one nothing
    of an agent can be shown or gone on with."""
    taken = {e.seq for e in envelopes}
    begun = {e.agent for e in envelopes if isinstance(e.event, AgentStarted)}
    made = []
    for envelope in envelopes:
        if envelope.agent in begun or isinstance(envelope.event, SessionStarted):
            continue
        begun.add(envelope.agent)
        free = next((n for n in range((envelope.seq or 1) - 1, 0, -1) if n not in taken), None)
        if free is not None:
            taken.add(free)
            profile = "friday" if envelope.agent == "a" else "general"
            start = AgentStarted(1, profile, "(how it began is lost)", model, parent_of(envelope.agent))
            made.append(Envelope(free, envelope.at, envelope.agent, start))
    return made
