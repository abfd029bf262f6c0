"""What is known of batches and their items, in one SQLite file. Each change is stored before anything follows from it.

An item's work is a row of `items`, named by what decides its result, in the folder that it works in. Batches share these rows:
what one has paid is done for the others. `places` are the items of a batch in their order.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from friday_cli.core.protocol.errors import UsageError
from friday_cli.store import locks
from friday_cli.store.schema import DatabaseDamaged, connect_tables
from friday_cli.store.writer import StoreWriter
from friday_cli.system.paths import data_dir

from . import charges
from .caps import Cap
from .charges import ItemRow
from .job import MapJob, as_row
from .sources import BatchItem

DAY_S = 86_400.0
LEAP_S = 30 * DAY_S
Claim = Literal["claimed", "taken", "cancelled"]
NEW_ITEM = "INSERT OR IGNORE INTO items VALUES (?, ?, 'new', '', '', '', 0, 0, 0, 0, 0, '', '', '', '', ?, 0)"
COLUMNS = (
    "i.key, i.state, i.batch, i.session, i.agent, i.attempts, i.reserved, i.cost, i.tokens, i.active_s, i.result, i.error,"
    " i.receipt, i.branch, coalesce((SELECT e.cost FROM estimates e WHERE e.folder = i.folder AND e.name = i.key), 0),"
    " i.reserved_tokens"
)
"""Those of an `ItemRow`, of the table `items` as `i`."""


class Place(msgspec.Struct, frozen=True):
    """An item of a batch at its place: its fields as JSON, and its work; `row` is None if it cannot be used (`problem`)."""

    number: int
    where: str
    fields: str
    content: str
    problem: str
    row: ItemRow | None


class Counts(msgspec.Struct, frozen=True):
    """The items of a batch by state. `waiting` counts those that are not done for no fault of theirs."""

    done: int = 0
    failed: int = 0
    waiting: int = 0
    skipped: int = 0
    running: int = 0

    @property
    def total(self) -> int:
        return self.done + self.failed + self.waiting + self.skipped + self.running


class BatchRow(msgspec.Struct, frozen=True):
    """A batch. `approved` and `approved_tokens`: the highest cap that the person agreed to. `spent`: US dollars since it was begun, also for
    what a dead process did not finish; `estimated` is the part of it that no service counted; `tokens` were spent. `reason`: why its last process stopped
    before the end. `reduced`: its reduced result."""

    id: str
    folder: str
    job: MapJob
    state: str
    approved: float
    spent: float
    reason: str
    reduced: str
    created: float
    updated: float
    tokens: int
    approved_tokens: int
    estimated: float

    @property
    def agreed(self) -> Cap:
        """The highest cap that the person agreed to."""
        return Cap(self.approved, self.approved_tokens)


TABLES = ("batches", "items", "places", "estimates")


def _create(db: sqlite3.Connection) -> None:
    for statement in (
        "CREATE TABLE IF NOT EXISTS batches(id TEXT PRIMARY KEY, folder TEXT NOT NULL, job TEXT NOT NULL, state TEXT NOT NULL,"
        " approved REAL NOT NULL, spent REAL NOT NULL, reason TEXT NOT NULL, reduced TEXT NOT NULL, created REAL NOT NULL,"
        " updated REAL NOT NULL)",
        "CREATE TABLE IF NOT EXISTS items(folder TEXT NOT NULL, key TEXT NOT NULL, state TEXT NOT NULL, batch TEXT NOT NULL,"
        " session TEXT NOT NULL, agent TEXT NOT NULL, attempts INTEGER NOT NULL, reserved REAL NOT NULL, cost REAL NOT NULL,"
        " tokens INTEGER NOT NULL, active_s REAL NOT NULL, result TEXT NOT NULL, error TEXT NOT NULL, receipt TEXT NOT NULL,"
        " branch TEXT NOT NULL, updated REAL NOT NULL, PRIMARY KEY(folder, key))",
        "CREATE INDEX IF NOT EXISTS items_running ON items(folder, batch) WHERE state = 'running'",
        "CREATE TABLE IF NOT EXISTS places(batch TEXT NOT NULL, number INTEGER NOT NULL, key TEXT NOT NULL, place TEXT NOT NULL,"
        " fields TEXT NOT NULL, content TEXT NOT NULL, problem TEXT NOT NULL, PRIMARY KEY(batch, number)) WITHOUT ROWID",
        "CREATE TABLE IF NOT EXISTS estimates(folder TEXT NOT NULL, name TEXT NOT NULL, cost REAL NOT NULL,"
        " PRIMARY KEY(folder, name)) WITHOUT ROWID",  # name: the key of an item, or the id of a batch
        "CREATE TABLE IF NOT EXISTS requests(folder TEXT NOT NULL, name TEXT NOT NULL, batch TEXT NOT NULL,"
        " custom_id TEXT NOT NULL, state TEXT NOT NULL, sent TEXT NOT NULL, tries INTEGER NOT NULL, held REAL NOT NULL,"
        " held_tokens INTEGER NOT NULL, reply TEXT NOT NULL, error TEXT NOT NULL, cost REAL NOT NULL, updated REAL NOT NULL,"
        " usage TEXT NOT NULL DEFAULT '', PRIMARY KEY(folder, name))",
        "CREATE INDEX IF NOT EXISTS requests_sent ON requests(sent, custom_id) WHERE state = 'sent'",
        "CREATE TABLE IF NOT EXISTS sent(local TEXT PRIMARY KEY, folder TEXT NOT NULL, batch TEXT NOT NULL,"
        " provider TEXT NOT NULL, remote TEXT NOT NULL, files TEXT NOT NULL, created REAL NOT NULL, expires REAL NOT NULL,"
        " count INTEGER NOT NULL, open INTEGER NOT NULL)",
    ):
        db.execute(statement)
    number, text = "INTEGER NOT NULL DEFAULT 0", "TEXT NOT NULL DEFAULT ''"
    later = ("batches", "tokens", number), ("batches", "approved_tokens", number), ("items", "reserved_tokens", number)
    for table, column, kind in (*later, ("requests", "usage", text)):
        if column not in {row[1] for row in db.execute(f"PRAGMA table_info({table})")}:
            db.execute(f"ALTER TABLE {table} ADD COLUMN {column} {kind}")


def connect(path: Path) -> sqlite3.Connection:
    """Open the file of batches. Raises StoreError. Blocks."""
    return connect_tables(path, _create, TABLES)


class MapStore:
    """The store of a folder's batches. All methods raise StoreError."""

    def __init__(self, folder: str, env: Mapping[str, str]) -> None:
        self.folder = folder
        self._path: Path = data_dir(env) / "map.db"
        self.db = StoreWriter(self._path, opener=connect)
        """Runs queries in its thread, each in a transaction of its own."""

    async def close(self) -> None:
        await self.db.close()

    def own(self, batch: str) -> locks.Ownership:
        """The right to run a batch. Raises UsageError if another process runs it."""
        try:
            return locks.own(self._locks, batch)
        except UsageError:
            raise UsageError(
                f"Batch {batch} is running in another friday process.", hint=f"See `friday map status {batch}`."
            ) from None

    def runs(self, batch: str) -> bool:
        """Whether a process runs a batch."""
        return locks.is_owned(self._locks, batch)

    @property
    def _locks(self) -> Path:
        return self._path.parent / "map"

    # ---- batches ----------------------------------------------------------------

    async def begin(self, job: MapJob) -> BatchRow:
        """The batch of a job, made if there is none. An ended one stays so until `reopen`."""
        now = time.time()
        await self.db.change(
            "INSERT INTO batches VALUES (?, ?, ?, 'open', 0, 0, '', '', ?, ?, 0, 0) ON CONFLICT(id) DO UPDATE SET job = excluded.job,"
            " state = CASE state WHEN 'ended' THEN state ELSE 'open' END, reason = '', reduced = '', updated = ?",
            *(job.id, self.folder, msgspec.json.encode(job).decode(), now, now, now),
        )
        return await self.batch(job.id)

    async def reopen(self, batch: str) -> None:
        """Items of the batch are to be run. What it spent before it ended does not count for them."""
        await self.db.submit(lambda db: charges.reopen(db, self.folder, batch))

    async def batch(self, prefix: str) -> BatchRow:
        """The batch of this folder with this id, or the beginning of it. Raises UsageError if there is not exactly one."""
        if not prefix:
            raise UsageError("The id of the batch is missing.", hint="`friday map status` lists them.")
        found = [row for row in await self.batches() if row.id.startswith(prefix.lower())]
        if len(found) != 1:
            problem = f"matches {len(found)} batches" if found else "is not a batch of this folder"
            raise UsageError(f"{prefix!r} {problem}.", hint="`friday map status` lists them.")
        return found[0]

    async def batches(self) -> list[BatchRow]:
        """The batches of the folder, the newest first."""
        rows = await self.db.rows(
            "SELECT b.*, coalesce((SELECT e.cost FROM estimates e WHERE e.folder = b.folder AND e.name = b.id), 0)"
            " FROM batches b WHERE folder = ? ORDER BY updated DESC",
            self.folder,
        )
        return [BatchRow(row[0], row[1], msgspec.json.decode(row[2], type=MapJob), *row[3:]) for row in rows]

    async def check(self) -> None:
        """Read all of the file. Raises DatabaseDamaged: a damaged one may look as if it had no batches."""
        if await self.db.rows("PRAGMA quick_check(1)") != [("ok",)]:
            raise DatabaseDamaged(self._path)

    async def end(self, batch: str, *, whole: bool, reason: str) -> None:
        """Record how a process left a batch: a `whole` one has nothing left to run. A cancelled one stays so."""
        await self.update(batch, reason=reason)
        state = "ended" if whole else "open"
        await self.db.change("UPDATE batches SET state = ? WHERE id = ? AND state = 'open'", state, batch)

    async def update(self, batch: str, **columns: Any) -> None:
        """Set columns of a batch."""
        names = ", ".join(f"{name} = ?" for name in columns)
        statement = f"UPDATE batches SET {names}, updated = ? WHERE id = ?"
        await self.db.change(statement, *columns.values(), time.time(), batch)

    async def prune(self, days: float) -> None:
        """Remove the batches of all folders that were not used for `days`, and the work that no batch names. 0: keep all. Nothing is
        removed on a day before which none was used for `LEAP_S`: the clock may have jumped ahead."""
        now = time.time()
        before = now - days * DAY_S

        def work(db: sqlite3.Connection) -> None:
            (used,) = db.execute("SELECT max(updated) FROM batches WHERE updated < ?", (now - DAY_S,)).fetchone()
            if used is None or used < now - LEAP_S:
                return
            found = db.execute("SELECT id FROM batches WHERE updated < ?", (before,)).fetchall()
            old = [row for row in found if not self.runs(row[0])]
            db.executemany("DELETE FROM places WHERE batch = ?", old)
            db.executemany("DELETE FROM batches WHERE id = ?", old)
            if old:
                unnamed = "state != 'running' AND key NOT IN (SELECT key FROM places)"
                db.execute(f"DELETE FROM items WHERE updated < ? AND {unnamed}", (before,))
                named = "name NOT IN (SELECT key FROM items) AND name NOT IN (SELECT id FROM batches)"
                db.execute(f"DELETE FROM estimates WHERE {named}")
                for table in ("requests", "sent"):
                    db.execute(f"DELETE FROM {table} WHERE batch NOT IN (SELECT id FROM batches)")

        if days > 0:
            await self.db.submit(work)

    # ---- the items of a batch -----------------------------------------------------

    async def cut_places(self, batch: str, count: int) -> None:
        """Forget the items of a batch after the first `count`; their work is kept."""
        await self.db.change("DELETE FROM places WHERE batch = ? AND number >= ?", batch, count)

    async def put_places(self, batch: str, first: int, items: Iterable[tuple[str, BatchItem]]) -> None:
        """Put items with the keys of their work, "" for one that cannot be used, in the place of those that the batch had from number
        `first` on."""
        rows = list(items)

        def work(db: sqlite3.Connection) -> None:
            db.executemany(
                "INSERT OR REPLACE INTO places VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    (batch, number, key, item.where, as_row(item.stored), item.content, item.problem)
                    for number, (key, item) in enumerate(rows, first)
                ),
            )

        await self.db.submit(work)

    async def places(self, batch: str, after: int = -1, most: int = 200) -> list[Place]:
        """The next items of a batch with their work."""
        rows = await self.db.rows(
            f"SELECT p.number, p.place, p.fields, p.content, p.problem, p.key, {COLUMNS} FROM places p LEFT JOIN items i"
            " ON i.folder = ? AND i.key = p.key WHERE p.batch = ? AND p.number > ? ORDER BY p.number LIMIT ?",
            *(self.folder, batch, after, most),
        )
        return [_place(row) for row in rows]

    async def counts(self, batch: str) -> Counts:
        """The items of a batch by state."""
        rows = await self.db.rows(
            "SELECT CASE WHEN p.key = '' THEN 'skipped' WHEN coalesce(i.state, 'new') = 'new' THEN 'waiting' ELSE i.state END, count(*)"
            " FROM places p LEFT JOIN items i ON i.folder = ? AND i.key = p.key WHERE p.batch = ? GROUP BY 1",
            *(self.folder, batch),
        )
        return Counts(**dict(rows))

    async def left(self, batch: str) -> int:
        """How many different items of a batch are to be run."""
        found = await self.db.rows(
            "SELECT count(DISTINCT p.key) FROM places p LEFT JOIN items i ON i.folder = ? AND i.key = p.key"
            " WHERE p.batch = ? AND p.key != '' AND coalesce(i.state, 'new') IN ('new', 'waiting')",
            *(self.folder, batch),
        )
        return int(found[0][0])

    # ---- the work of an item --------------------------------------------------------

    async def item(self, key: str) -> ItemRow | None:
        """The work with a key."""
        found = await self.db.rows(f"SELECT {COLUMNS} FROM items i WHERE folder = ? AND key = ?", self.folder, key)
        return ItemRow(*found[0]) if found else None

    async def claim(self, key: str, *, batch: str, session: str, reserved: Cap) -> Claim:
        """Record that a try of an item begins, and what it may cost; "taken" if it is done or runs elsewhere. An item that was never
        begun has no row before."""
        now, held = time.time(), reserved.amounts

        def work(db: sqlite3.Connection) -> Claim:
            if db.execute("SELECT 1 FROM batches WHERE id = ? AND state = 'cancelled'", (batch,)).fetchone():
                return "cancelled"
            db.execute(NEW_ITEM, (self.folder, key, now))
            changed = db.execute(
                "UPDATE items SET state = 'running', batch = ?, session = ?, agent = '', reserved = ?, reserved_tokens = ?,"
                " attempts = attempts + 1, error = '', updated = ? WHERE folder = ? AND key = ? AND state IN ('new', 'waiting')",
                (batch, session, held.cost, int(held.tokens), now, self.folder, key),
            )
            return "claimed" if changed.rowcount else "taken"

        return await self.db.submit(work)

    async def finish(self, row: ItemRow, batch: str) -> None:
        """Record how a try of an item ended, and charge it to the batch, once. `row.cost`, `row.estimated` and `row.tokens` are those
        of this try, which `row.session` made."""
        await self.db.submit(lambda db: charges.finish(db, self.folder, row, batch))

    async def running(self) -> list[ItemRow]:
        """The items of the folder whose try has no end in the store."""
        rows = await self.db.rows(f"SELECT {COLUMNS} FROM items i WHERE folder = ? AND state = 'running'", self.folder)
        return [ItemRow(*row) for row in rows]

    async def usual(self, batch: str) -> tuple[list[str], tuple[int, float] | None]:
        """The newest sessions with items of a batch, and the mean tokens and US dollars of its done items; None without any."""
        return await self.db.submit(lambda db: charges.usual(db, self.folder, batch))

    async def renew(self, batch: str) -> int:
        """Let the failed items of a batch be tried again; what it spent counts on. Returns their number."""
        count = await self.db.change(
            "UPDATE items SET state = 'waiting' WHERE folder = ? AND state = 'failed'"
            " AND key IN (SELECT key FROM places WHERE batch = ?)",
            *(self.folder, batch),
        )
        if count:
            await self.db.change("UPDATE batches SET state = 'open' WHERE id = ? AND state = 'ended'", batch)
        return count


def _place(row: tuple[Any, ...]) -> Place:
    number, where, fields, content, problem, key, *work = row
    new = ItemRow(key, "new") if key else None
    return Place(number, where, fields, content, problem, new if work[0] is None else ItemRow(*work))
