"""Recovers the readable rows of a damaged session file into a new file. The damaged file is kept under another name."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from friday_cli.core.protocol.agent_path import parent_of
from friday_cli.core.protocol.decode import decode_event
from friday_cli.core.protocol.errors import StoreError, UsageError
from friday_cli.core.protocol.events import AgentStarted, Envelope, SessionStarted

from . import locks
from .journal import append_events, project
from .schema import DatabaseDamaged, connect, explain, has_known_version

TABLES = ("sessions", "events", "memories")
"""Tables that are copied row by row; the rows of agents are derived from the events."""
VALUES: dict[str, tuple[type, ...]] = {"INTEGER": (int,), "REAL": (int, float), "TEXT": (str,)}
"""What a value of a column is. Others come from a damaged page."""
HEADER = 100
"""Bytes of the header of an SQLite file."""
MOST_PAGES = 2**24
"""The most pages that a file is believed to have had: 64 GB."""
TABLE_LEAF, PART_OF_TABLE = 13, 5
"""The first byte of a page with rows of a table, and the kind of a page in the pointer map that is not free."""
LARGE = 50_000_000
"""Bytes of a file from which the progress of a repair is reported."""
LAST = 2**62
"""Upper limit of row numbers."""


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
    """Replace a damaged file with a new one that has all readable rows. The damaged file is renamed. Lost rows of
    sessions and agents are derived from their events. `report` gets the progress with a large file, in words. Raises
    UsageError if a process has a session open, StoreError if the file belongs to another program or a newer Friday,
    OSError if nothing can be written."""
    _check_unowned(path)
    size = path.stat().st_size
    if size < LARGE:
        report = lambda text: None  # noqa: E731
    report(f"checking {size / 1_000_000:.0f} MB")
    with tempfile.TemporaryDirectory(prefix="repair-", dir=path.parent) as folder:
        work, new = Path(folder, "damaged.db"), Path(folder, "new.db")
        for end in ("", "-wal"):  # opening a file changes it (checkpoint of the log), so a copy is opened
            if Path(f"{path}{end}").exists():
                shutil.copyfile(f"{path}{end}", f"{work}{end}")
        if _is_whole(work, path):
            return Repaired()
        found = _copy_readable(work, new, report)
        _check_unowned(path)
        kept = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:4]}")
        for end in ("", "-wal"):
            if Path(f"{path}{end}").exists() and (not end or Path(f"{path}{end}").stat().st_size):
                _link_or_copy(Path(f"{path}{end}"), Path(f"{kept}{end}"))
        for end in ("-wal", "-shm"):
            Path(f"{path}{end}").unlink(missing_ok=True)  # SQLite would use it as the log of the new file
        os.replace(new, path)
    return msgspec.structs.replace(found, kept=kept)


def _check_unowned(path: Path) -> None:
    """Raise UsageError if a process has a session open."""
    for lock in (path.parent / "locks").glob("*.lock"):
        if locks.is_owned(lock.parent, lock.stem):
            raise UsageError(f"Session {lock.stem[:8]} is open in another friday process.", hint="Close it first.")


def _link_or_copy(file: Path, name: Path) -> None:
    try:
        os.link(file, name)
    except OSError:  # a file system without links
        shutil.copyfile(file, name)
        name.chmod(0o600)


def _is_whole(work: Path, path: Path) -> bool:
    """Whether `work`, a copy of the file at `path`, is undamaged. Raises StoreError if it is not Friday's file."""
    if not has_known_version(work):
        return False
    try:
        with closing(connect(work)) as db:
            for query in ("SELECT agent, kind FROM events", "SELECT * FROM sessions", "SELECT * FROM memories"):
                for _ in db.execute(query):  # a text that is no UTF-8 is no damage for SQLite
                    pass
            return bool(db.execute("PRAGMA integrity_check(1)").fetchall() == [("ok",)])
    except DatabaseDamaged:
        return False
    except sqlite3.Error as error:
        if isinstance(explain(error, path), DatabaseDamaged) or "UTF-8" in str(error):
            return False
        raise explain(error, path) from None
    except StoreError as error:
        raise type(error)(error.message.replace(str(work), str(path)), hint=error.hint) from None


def _copy_readable(damaged: Path, new: Path, report: Callable[[str], object]) -> Repaired:
    """Create the file `new` with every readable row of `damaged`, and the rows that are derived from them."""
    with closing(connect(new)) as db:
        page_size = int(db.execute("PRAGMA page_size").fetchone()[0])
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    report("the file is damaged; reading what is left of it")
    _replace_header(damaged, new.read_bytes()[:page_size], page_size)
    with closing(connect(new)) as db, closing(sqlite3.connect(damaged)) as old:
        old.text_factory = _text
        db.execute("PRAGMA synchronous = FULL")
        db.execute("BEGIN IMMEDIATE")
        left_out = sum(_rows(old, db, table) for table in TABLES)
        roots = _roots(old)
        old.close()
        for root in roots:
            _add_unreachable(damaged, db, root, page_size, report)
        each = "SELECT count(*) AS found, max(seq) AS top FROM events GROUP BY session"
        events, missing = db.execute(f"SELECT total(found), total(top - found) FROM ({each})").fetchone()
        for (key,) in db.execute("SELECT DISTINCT session FROM events").fetchall():
            _rebuild_rows(db, key)
        db.execute("COMMIT")
        sessions, notes = (
            db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("sessions", "memories")
        )
        return Repaired(None, sessions, int(events), int(missing), notes, left_out)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _replace_header(damaged: Path, new: bytes, page_size: int) -> None:
    """Give the file the header of the `new` one, and its full length: SQLite reads nothing of a file whose header is
    damaged or names more pages than there are. The whole first page, with the list of tables, is replaced if that cannot
    be read: every file of this schema has its tables in the same pages."""
    size = damaged.stat().st_size
    with damaged.open("r+b") as file:
        found = file.read(HEADER)
        named = int.from_bytes(found[28:32], "big") if found[:20] == new[:20] else 0
        pages = max(size // page_size, min(named, MOST_PAGES), 1)
        header = new[:28] + pages.to_bytes(4, "big") + bytes(8) + new[40:HEADER]  # 8: no list of free pages
        file.truncate(size // page_size * page_size)  # a part of a page would give rows that are not complete
        file.truncate(pages * page_size)
        file.seek(0)
        file.write(header)
    if not _has_tables(damaged):
        with damaged.open("r+b") as file:
            file.write(header + new[HEADER:page_size])


def _roots(old: sqlite3.Connection) -> list[int]:
    """The number of the first page of the events, in a list that is empty if it cannot be read."""
    try:
        return [row[0] for row in old.execute("SELECT rootpage FROM sqlite_master WHERE name = 'events'")]
    except sqlite3.Error:
        return []


def _add_unreachable(
    damaged: Path, db: sqlite3.Connection, root: int, page_size: int, report: Callable[[str], object]
) -> None:
    """Add the events in pages to which no readable page leads: each takes the place of the first page of the table, so
    that SQLite reads it. Rows of other tables do not fit into the columns and are left out."""
    pages = list(_leaves(damaged, page_size))
    with damaged.open("r+b", buffering=0) as file, closing(sqlite3.connect(damaged)) as old:
        old.text_factory = _text
        file.seek(18)
        file.write(b"\1\1")  # without a write-ahead log
        for count, number in enumerate(pages, 1):
            if 10 * count // len(pages) > 10 * (count - 1) // len(pages):
                report(f"searching its pages for more events: {100 * count // len(pages)} %")
            file.seek((number - 1) * page_size)
            page = file.read(page_size)
            file.seek((root - 1) * page_size)
            file.write(page)
            file.seek(24)
            file.write(count.to_bytes(4, "big"))  # the change counter: SQLite drops the pages that it read before
            _rows(old, db, "events")


def _leaves(damaged: Path, page_size: int) -> Iterator[int]:
    """The numbers of the pages with rows of tables. Free pages, which may have rows of deleted sessions, are left out by
    the pointer map, the first page of each group."""
    group = page_size // 5 + 1
    with damaged.open("rb") as file:
        file.seek(page_size)
        number, kinds = 2, b""
        while len(page := file.read(page_size)) == page_size:
            at = (number - 2) % group
            if at == 0:
                kinds = page
            elif page[0] == TABLE_LEAF and kinds[(at - 1) * 5] == PART_OF_TABLE:
                yield number
            number += 1


def _has_tables(path: Path) -> bool:
    try:
        with closing(sqlite3.connect(path)) as db:
            return any(row[0] in TABLES for row in db.execute("SELECT name FROM sqlite_master"))
    except sqlite3.Error:
        return False


def _rows(old: sqlite3.Connection, db: sqlite3.Connection, table: str) -> int:
    """Copy the rows of a table. Returns how many were left out, because a value does not fit its column."""
    known = {row[1]: row[2] for row in db.execute(f"PRAGMA table_info({table})")}
    try:
        columns = [row[1] for row in old.execute(f"PRAGMA table_info({table})") if row[1] in known]
    except sqlite3.Error:
        return 0  # the list of tables cannot be read
    if not columns:
        return 0
    kinds, left_out = [VALUES[known[name]] for name in columns], 0
    names, marks = ", ".join(columns), ", ".join("?" * len(columns))
    if table == "memories" and "promoted" not in columns:  # the first schema: all are visible to everyone
        names, marks = f"{names}, promoted", f"{marks}, 1"
    for row in _readable(old, f"SELECT rowid, {', '.join(columns)} FROM {table} WHERE rowid > ? ORDER BY rowid"):
        try:
            if not all(isinstance(value, kind) for value, kind in zip(row, kinds, strict=True)):
                raise ValueError
            db.execute(f"INSERT OR IGNORE INTO {table}({names}) VALUES ({marks})", row)
        except (sqlite3.Error, ValueError):
            left_out += 1
    return left_out


def _readable(old: sqlite3.Connection, query: str) -> Iterator[Sequence[object]]:
    """The rows of a table in the order of their numbers, without those that cannot be read. A page that is damaged in
    its middle gives rows with wrong numbers, which never end if they are believed."""
    after: int | None = -1
    while after is not None:
        try:
            for number, *row in old.execute(query, (after,)):
                if number <= after:
                    break
                yield row
                after = number
            else:
                return
        except sqlite3.Error:
            pass
        after = _next_readable(old, query, after)


def _next_readable(old: sqlite3.Connection, query: str, after: int) -> int | None:
    """The lowest row number above `after` from which rows can be read again, None if there is none. Found by
    exponential and then binary search."""

    def reads(number: int) -> bool:
        try:
            row = old.execute(f"{query} LIMIT 1", (number,)).fetchone()
        except sqlite3.Error:
            return False
        return row is None or row[0] > number

    step = 1
    while not reads(after + step):
        step *= 2
        if after + step > LAST:
            return None
    low, high = after + step // 2, after + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reads(middle) else (middle, high)
    return high


def _rebuild_rows(db: sqlite3.Connection, key: int) -> None:
    """Derive the rows of a session and its agents from its events."""
    envelopes, used = [], set[int | None]()
    for seq, at, agent, body in db.execute(
        "SELECT seq, at, agent, CAST(body AS BLOB) FROM events WHERE session = ? ORDER BY seq", (key,)
    ):
        used.add(seq)
        try:
            envelopes.append(Envelope(seq, at, agent, decode_event(body)))
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue  # `read_events` reports it
    started = next((e.event for e in envelopes if isinstance(e.event, SessionStarted)), None)
    name, cwd = (started.session, started.cwd) if started else (str(uuid.uuid4()), "")
    times = db.execute("SELECT min(at), max(at) FROM events WHERE session = ?", (key,)).fetchone()
    db.execute(
        "INSERT OR IGNORE INTO sessions(key, id, cwd, title, model, created, updated) VALUES (?, ?, ?, '', '', ?, ?)",
        (key, name, cwd, *times),
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
