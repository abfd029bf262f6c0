"""The store of sessions: one SQLite file that several friday processes share."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from friday_cli.core.limits.forecast import PastRun
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.events import Envelope
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.system.paths import text_of

from . import delegations, locks, sessions, spending
from .journal import SessionJournal, append_events, encodable, key_of, newest_events, read_events, remove
from .ledger import SessionLedger
from .listing import last_conversation, list_sessions, unfinished_sessions
from .locks import Ownership
from .memory import StoredNotes
from .records import SessionRow, StatRow, StoredAgent
from .stored_spending import StoredSpending
from .writer import StoreReader, StoreWriter, touch

POLL_S = 0.2
"""Seconds between two checks for new events of a session that another process owns."""


def new_id() -> str:
    """A new random session id."""
    from uuid import uuid4

    return str(uuid4())


class Store:
    """The session file at `path`. It is opened or created on first use. Every call may raise StoreError.
    `async with` closes it.

    Lock files are in the folder `locks` next to the file. The events are the source of truth; the rows of sessions and
    agents are derived from them in the same transaction. With `in_memory` there is no file, and the data ends with the
    process. `notes` are the notes of agents and of the user, `spending` is what all sessions used and may use.
    """

    def __init__(self, path: Path, *, in_memory: bool = False) -> None:
        self.path, self.in_memory = path, in_memory
        self._locks = path.parent / "locks"
        self._writer = StoreWriter(path, in_memory=in_memory)
        self._reader = StoreReader(self._writer)
        self.notes = StoredNotes(writer=self._writer, reader=self._reader)
        self.spending = StoredSpending(self._writer, self._reader, self._locks)

    async def __aenter__(self) -> Store:
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Check that the file can be written, so that a failure is reported early. Raises Unwritable if it cannot."""
        await asyncio.gather(self._writer.submit(touch), self.spending.open())

    async def close(self) -> None:
        """Finish all writes and close the file. The store cannot be used afterwards."""
        try:
            await self._reader.close()
        finally:
            await self._writer.close()

    async def sync(self) -> None:
        """Return when everything written so far survives a power failure."""
        await self._writer.sync()

    # ---- one session --------------------------------------------------------------------------------------------

    async def create_session(self, cwd: str | Path, *, title: str = "", name: str = "") -> str:
        """Create a session of the folder `cwd` and return its id: `name`, or a new id. The caller must `own` it before
        it appends events."""
        name, now = name or new_id(), time.time()
        values = (name, text_of(cwd), sanitize_line(title), now, now)
        await self._writer.submit(
            lambda db: db.execute(
                "INSERT INTO sessions(id, cwd, title, model, created, updated) VALUES (?, ?, ?, '', ?, ?)", values
            )
        )
        return name

    def journal(self, session: str, ledger: SessionLedger | None = None) -> SessionJournal:
        """The journal that appends and reads the events of a session; `session` is a full id. With a `ledger` what they say was
        used counts, once."""
        return SessionJournal(session, writer=self._writer, reader=self._reader, ledger=ledger)

    async def events(self, session: str, *, after: int = 0, agent: str | None = None) -> list[Envelope]:
        """The events of a session after number `after`, of one agent or of all."""
        return await self._reader.read(lambda db: read_events(db, session, after=after, agent=agent))

    async def newest(self, session: str, kinds: Sequence[str], most: int) -> list[Envelope]:
        """The newest events of some kinds in a session, at most `most`, in order."""
        return await self._reader.read(lambda db: newest_events(db, session, kinds, most))

    async def follow(self, session: str, *, after: int = 0) -> AsyncIterator[list[Envelope]]:
        """The events of a session after number `after`, then new events of the process that owns the session. Ends when
        no process owns the session. If its process crashed, open runs are ended as interrupted first."""
        newest, version, owned = after, 0, True
        while owned:
            owned = await asyncio.to_thread(locks.is_owned, self._locks, session)
            if not owned and session in await self._reader.read(unfinished_sessions):
                try:
                    await self._recover(session)
                except UsageError:
                    owned = True  # a process has just resumed it
            last, version = version, await self._reader.read(_version)
            if version != last or not owned:
                found = await self.events(session, after=newest)
                if found:
                    newest = found[-1].seq or newest
                    yield found
            if owned:
                await asyncio.sleep(POLL_S)

    async def agents(self, session: str) -> list[StoredAgent]:
        """The agents of a session, parents before children."""
        return await self._reader.read(lambda db: sessions.agents(db, session))

    async def own(self, session: str) -> Ownership:
        """The exclusive right to write to a session, until it is released or the process ends. Raises UsageError if
        another process has it."""
        if self.in_memory:
            return Ownership(session)
        taking = asyncio.ensure_future(asyncio.to_thread(locks.own, self._locks, session))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            await asyncio.wait([taking])  # it never blocks; otherwise the lock would never be released
            if taking.exception() is None:
                taking.result().release()
            raise

    async def owner_pid(self, session: str) -> int | None:
        """The pid of the process that owns a session, None if no process does. Raises StoreError."""
        return await asyncio.to_thread(locks.owner, self._locks, session)

    async def title(self, session: str) -> str:
        """The title of a session, "" if it has none."""
        return await self._reader.read(
            lambda db: str(db.execute("SELECT title FROM sessions WHERE key = ?", (key_of(db, session),)).fetchone()[0])
        )

    async def rename(self, session: str, title: str) -> None:
        """Set the title of a session, shortened to one line."""
        await self._writer.submit(
            lambda db: db.execute(
                "UPDATE sessions SET title = ? WHERE key = ?", (sanitize_line(title), key_of(db, session))
            )
        )

    async def delete(self, session: str) -> None:
        """Remove a session with its agents and events. Raises UsageError if a process owns it."""
        with await self.own(session):
            await asyncio.shield(self._writer.submit(lambda db: remove(db, session)))

    # ---- many sessions ------------------------------------------------------------------------------------------

    async def find(self, prefix: str) -> str:
        """The session id that starts with `prefix`. Raises UsageError with the candidates if there is not exactly one."""
        return await self._reader.read(lambda db: sessions.find(db, prefix))

    async def choose(self, prefix: str, cwd: Path) -> str:
        """The session to resume: the one with the prefix, or, for "", the last one used in the folder `cwd`.
        Raises UsageError."""
        if prefix:
            return await self.find(prefix)
        last = await self.last_session(cwd)
        if last is None:
            raise UsageError(f"There is no session of {cwd} to resume.", hint="Leave out --continue.")
        return last

    async def list_sessions(self, cwd: str | Path | None = None, *, limit: int | None = None) -> list[SessionRow]:
        """The sessions of the folder `cwd`, or all, the newest first, without those in which no agent ran."""
        return await self._reader.read(lambda db: list_sessions(db, None if cwd is None else text_of(cwd), limit))

    async def last_session(self, cwd: str | Path) -> str | None:
        """The last conversation used in exactly this folder. The sessions of batches are none; one that was used in the future,
        by a clock that was wrong, comes after all others."""
        return await self._reader.read(lambda db: last_conversation(db, text_of(cwd), time.time()))

    async def past_runs(self, profile: str, model: str) -> list[PastRun]:
        """The newest delegations on a model, which a forecast for the profile is made from."""
        return await self._reader.read(lambda db: delegations.past_runs(db, encodable(profile), model))

    async def stats(self) -> list[StatRow]:
        """Statistics for each profile and model."""
        return await self._reader.read(sessions.stats)

    # ---- crash recovery -----------------------------------------------------------------------------------------

    async def reconcile(self) -> list[str]:
        """End the runs that crashed processes left open as interrupted; returns the ids of the changed sessions.
        Sessions that a running process owns are not changed. Several processes can do this at the same time."""
        recovered = []
        for session in await self._reader.read(unfinished_sessions):
            try:
                if await self._recover(session):
                    recovered.append(session)
            except UsageError:
                continue  # its process is running
        return recovered

    async def _recover(self, session: str) -> bool:
        """End what a crashed process left open. False if there is nothing, or another process has already done it.
        Raises UsageError if the process is running."""
        from .crash_recovery import recovery_events  # most processes end by themselves

        with await self.own(session) as ownership:
            found = await self.events(session)
            made = recovery_events(found, now=time.time(), died_at=ownership.died_at)
            return bool(made) and await self._writer.submit(lambda db: append_after(db, session, found, made))


def _version(db: sqlite3.Connection) -> int:
    """A number that changes when another connection writes."""
    return int(db.execute("PRAGMA data_version").fetchone()[0])


def append_after(db: sqlite3.Connection, session: str, known: list[Envelope], made: list[Envelope]) -> bool:
    """Append `made` if `known` are still all events of the session. False if there are newer ones."""
    key = key_of(db, session)
    newest = db.execute("SELECT max(seq) FROM events WHERE session = ?", (key,)).fetchone()[0]
    if newest != known[-1].seq:
        return False
    settled = spending.settle_dead(db, session)

    def add_usage(db: sqlite3.Connection, key: int, envelope: Envelope) -> None:
        if envelope.agent not in settled:
            spending.add_event(db, session, key, envelope, lambda: spending.payer_of_agent(db, key, envelope.agent))

    append_events(db, key, made, add_usage=add_usage)
    return True
