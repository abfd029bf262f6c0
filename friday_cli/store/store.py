"""Sessions on disk: one SQLite file that many friday processes share."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.events import Envelope
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.paths import text_of

from . import locks, memory, sessions
from .crash_recovery import closing
from .journal import SessionJournal, append_events, key_of, read_events, remove
from .listing import at_work, list_sessions
from .locks import Ownership
from .memory import StoredMemory
from .records import AgentRow, MemoryItem, SessionRow, StatRow
from .retention import prune
from .writer import StoreReader, StoreWriter

LOOK_S = 0.2
"""How often a session of another process is looked at for news."""


def new_id() -> str:
    """An id that no session has."""
    from uuid import uuid4

    return str(uuid4())


class Store:
    """The session file at `path`. Nothing is opened or made before the first call; every call may raise StoreError.
    `async with` closes it.

    Locks lie in the folder `locks` beside the file. The events are the truth; the rows of sessions and agents are
    folded from them in the same transaction. A store `in_memory` makes no file and is gone with its process.
    """

    def __init__(self, path: Path, *, in_memory: bool = False) -> None:
        self.path, self.in_memory = path, in_memory
        self._locks = path.parent / "locks"
        self._writer = StoreWriter(path, in_memory=in_memory)
        self._reader = StoreReader(self._writer)

    async def __aenter__(self) -> Store:
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Make sure the file can be written, so that a failure shows before anything depends on it. Raises Unwritable
        where its place takes no writing."""
        await self._writer.submit(_touch)

    async def close(self) -> None:
        """Finish every write and let go of the file. The store takes nothing afterwards."""
        await self._reader.close()
        await self._writer.close()

    async def sync(self) -> None:
        """Returns when everything written so far survives a power cut."""
        await self._writer.submit(_touch, durable=True)

    # ---- one session --------------------------------------------------------------------------------------------

    async def create_session(self, cwd: str | Path, *, model: str = "", title: str = "", name: str = "") -> str:
        """A new session of the folder `cwd`, with the id `name` or one of its own; gives the id. `own` it before
        anything is appended."""
        name, now = name or new_id(), time.time()
        values = (name, text_of(cwd), sanitize_line(title), model, now, now)
        await self._writer.submit(
            lambda db: db.execute(
                "INSERT INTO sessions(id, cwd, title, model, created, updated) VALUES (?, ?, ?, ?, ?, ?)", values
            )
        )
        return name

    def journal(self, session: str) -> SessionJournal:
        """Where the events of a session are kept; `session` is a whole id."""
        return SessionJournal(session, writer=self._writer, reader=self._reader)

    async def events(self, session: str, *, after: int = 0, agent: str | None = None) -> list[Envelope]:
        """The events of a session above number `after`, of one agent or of all."""
        return await self._reader.read(lambda db: read_events(db, session, after=after, agent=agent))

    async def follow(self, session: str, *, after: int = 0) -> AsyncIterator[list[Envelope]]:
        """The events of a session above number `after`, then those that another process adds, as they come; over when
        no process owns the session any more. What its process left open when it died is ended, as interrupted."""
        newest, version, owned = after, 0, True
        while owned:
            owned = await asyncio.to_thread(locks.is_owned, self._locks, session)
            if not owned and session in await self._reader.read(at_work):
                try:
                    await self._bury(session)
                except UsageError:
                    owned = True  # somebody has just gone on with it
            last, version = version, await self._reader.read(_version)
            if version != last or not owned:
                found = await self.events(session, after=newest)
                if found:
                    newest = found[-1].seq or newest
                    yield found
            if owned:
                await asyncio.sleep(LOOK_S)

    async def agents(self, session: str) -> list[AgentRow]:
        """The agents of a session, parents before children."""
        return await self._reader.read(lambda db: sessions.agents(db, session))

    async def own(self, session: str) -> Ownership:
        """The right to write to a session, until it is released or the process ends. Raises UsageError when another
        process has it."""
        if self.in_memory:
            return Ownership(session)
        taking = asyncio.ensure_future(asyncio.to_thread(locks.own, self._locks, session))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            await asyncio.wait([taking])  # it never blocks; a lock that nobody got would be held for ever
            if taking.exception() is None:
                taking.result().release()
            raise

    async def driver(self, session: str) -> int | None:
        """The number of the process that owns a session, None where none does. Raises StoreError."""
        return await asyncio.to_thread(locks.owner, self._locks, session)

    async def title(self, session: str) -> str:
        """What a session is called, "" for nothing."""
        return await self._reader.read(
            lambda db: str(db.execute("SELECT title FROM sessions WHERE key = ?", (key_of(db, session),)).fetchone()[0])
        )

    async def rename(self, session: str, title: str) -> None:
        """Give a session a title, clipped to one line."""
        await self._writer.submit(
            lambda db: db.execute(
                "UPDATE sessions SET title = ? WHERE key = ?", (sanitize_line(title), key_of(db, session))
            )
        )

    async def delete(self, session: str) -> None:
        """Remove a session with its agents and events. Raises UsageError while a process owns it."""
        with await self.own(session):
            await asyncio.shield(self._writer.submit(lambda db: remove(db, session)))

    # ---- many sessions ------------------------------------------------------------------------------------------

    async def find(self, prefix: str) -> str:
        """The id that begins with `prefix`. Raises UsageError, naming the candidates, when there is not exactly one."""
        return await self._reader.read(lambda db: sessions.find(db, prefix))

    async def choose(self, prefix: str, cwd: Path) -> str:
        """The session to go on with: the one that `prefix` names, with "" the one of the folder `cwd` that was used last.
        Raises UsageError."""
        if prefix:
            return await self.find(prefix)
        last = await self.last_session(cwd)
        if last is None:
            raise UsageError(f"There is no session of {cwd} to go on with.", hint="Leave out --continue.")
        return last

    async def list_sessions(self, cwd: str | Path | None = None, *, limit: int | None = None) -> list[SessionRow]:
        """The sessions of the folder `cwd`, or all, the newest first; those in which nothing ran are left out."""
        return await self._reader.read(lambda db: list_sessions(db, None if cwd is None else text_of(cwd), limit))

    async def last_session(self, cwd: str | Path) -> str | None:
        """The session of exactly this folder that was used last."""
        rows = await self.list_sessions(cwd, limit=1)
        return rows[0].id if rows else None

    async def stats(self) -> list[StatRow]:
        """How every profile did with every model."""
        return await self._reader.read(sessions.stats)

    async def prune(self, *, days: float, gigabytes: float) -> list[str]:
        """Remove sessions not used for `days`, and the oldest while all take more than `gigabytes` (0: no such limit),
        with their spilled output. What a process owns stays. Gives the ids of those removed."""
        return await asyncio.to_thread(prune, self.path, days=days, gigabytes=gigabytes, now=time.time())

    # ---- notes --------------------------------------------------------------------------------------------------

    def memory(self, project: str, session: str, *, shared: bool = False) -> StoredMemory:
        """The notes that agents of `session` may see in `project` (a folder). With `shared` those of sub-agents count
        at once, without a person's word."""
        return StoredMemory(project, session, writer=self._writer, reader=self._reader, shared=shared)

    async def notes(self, project: str | None) -> list[MemoryItem]:
        """All notes of a project and of the person, or with None of every project, the newest first."""
        return await self._reader.read(lambda db: memory.every(db, project))

    async def note(self, number: str) -> MemoryItem:
        """The note with an id. Raises UsageError."""
        return await self._reader.read(lambda db: memory.one(db, number))

    async def promote(self, numbers: Sequence[str]) -> list[MemoryItem]:
        """Let notes of sub-agents count for everybody; gives those that did not before. Raises UsageError for an id
        that does not exist; then nothing was changed."""
        return await self._writer.submit(lambda db: memory.promote(db, numbers))

    async def forget(self, numbers: Sequence[str]) -> list[MemoryItem]:
        """Remove notes for good; gives what they were. Raises UsageError for an id that does not exist; then nothing
        was changed."""
        return await self._writer.submit(lambda db: memory.forget(db, numbers))

    # ---- what dead processes left -------------------------------------------------------------------------------

    async def reconcile(self) -> list[str]:
        """End, as interrupted, what dead processes left open; gives the ids of the sessions that were mended.

        Sessions that a living process owns are left alone. Several processes may do this at once.
        """
        mended = []
        for session in await self._reader.read(at_work):
            try:
                if await self._bury(session):
                    mended.append(session)
            except UsageError:
                continue  # its process lives
        return mended

    async def _bury(self, session: str) -> bool:
        """End what a dead process left open; False when there was nothing, or somebody else has done it meanwhile.
        Raises UsageError when the process lives."""
        with await self.own(session):
            found = await self.events(session)
            made = closing(found, now=time.time())
            return bool(made) and await self._writer.submit(lambda db: append_after(db, session, found, made))


def _version(db: sqlite3.Connection) -> int:
    """Another number whenever somebody else has written."""
    return int(db.execute("PRAGMA data_version").fetchone()[0])


def append_after(db: sqlite3.Connection, session: str, known: list[Envelope], made: list[Envelope]) -> bool:
    """Append `made` if `known` still is all there is of a session."""
    key = key_of(db, session)
    newest = db.execute("SELECT max(seq) FROM events WHERE session = ?", (key,)).fetchone()[0]
    if newest != known[-1].seq:
        return False
    append_events(db, key, made)
    return True


def _touch(db: sqlite3.Connection) -> None:
    """Write something that changes nothing."""
    db.execute(f"PRAGMA user_version = {db.execute('PRAGMA user_version').fetchone()[0]}")
