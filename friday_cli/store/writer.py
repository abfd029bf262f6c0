"""The writer thread of the session file, and the connection for reads."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import msgspec

from friday_cli.core.protocol.errors import FridayError, StoreError, Unwritable

from .schema import DatabaseDamaged, connect, connect_memory, connect_reader, explain, retry_while_busy, transaction

T = TypeVar("T")


class _WriteJob(msgspec.Struct, eq=False):
    """One write. `work` may run twice, so it must not have effects outside the connection. `_end`: close."""

    work: Callable[[sqlite3.Connection], Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    durable: bool = False
    failed: Callable[[StoreError], None] | None = None
    result: Any = None
    error: Exception | None = None


_UNKNOWN = StoreError("What was to be saved may not be: there was not enough memory.")
"""Made when there is memory."""


def _end(db: sqlite3.Connection) -> None:
    """The work of the last job."""


def touch(db: sqlite3.Connection) -> None:
    """A write without effect."""
    db.execute(f"PRAGMA user_version = {db.execute('PRAGMA user_version').fetchone()[0]}")


class StoreWriter:
    """Runs submitted work in order, in one thread; work that is waiting shares one transaction. The thread and its
    connection start with the first job. SQLite errors become StoreError. With `in_memory` there is no file, and the
    data ends with the writer. `opener` opens another file than that of sessions."""

    def __init__(
        self,
        path: Path,
        *,
        in_memory: bool = False,
        opener: Callable[[Path], sqlite3.Connection] | None = None,
    ) -> None:
        self.path, self.in_memory, self._opener = path, in_memory, opener
        self._jobs: SimpleQueue[_WriteJob] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._db: sqlite3.Connection | None = None
        self._file: os.stat_result | None = None
        self._synced = False
        """Whether all that was written survives a power failure."""
        self._closed = False

    def submit(
        self,
        work: Callable[[sqlite3.Connection], T],
        *,
        durable: bool = False,
        failed: Callable[[StoreError], None] | None = None,
    ) -> asyncio.Future[T]:
        """Run `work` in a transaction. The future completes when the result survives a crash of the process; with
        `durable` it and all earlier writes also survive a power failure. `failed` is called with a StoreError, in the
        writer's thread."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        if self._closed:
            future.set_exception(StoreError(f"{self.path} is already closed."))
            return future
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="friday-store", daemon=True)
            thread.start()
            self._thread = thread  # `close` waits for one that has started only
        self._jobs.put(_WriteJob(work, loop, future, durable, failed))
        return future

    async def sync(self) -> None:
        """Return when all that was written survives a power failure. Raises StoreError."""
        await self.submit(touch, durable=True)

    async def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows that a query finds. Raises StoreError."""
        return await self.submit(lambda db: db.execute(query, values).fetchall())

    async def change(self, statement: str, *values: object) -> int:
        """Execute a statement. Returns how many rows it changed. Raises StoreError."""
        return await self.submit(lambda db: db.execute(statement, values).rowcount)

    async def close(self) -> None:
        """Finish all submitted work, sync it to disk and close the file."""
        if not self._closed and self._thread is not None:
            last = self.submit(_end)
            self._closed = True
            await asyncio.shield(last)
            self._thread.join()
        self._closed = True

    # ---- in the thread ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            group = [self._jobs.get()]
            with suppress(Empty):
                while True:
                    group.append(self._jobs.get_nowait())
            ends = any(job.work is _end for job in group)
            try:
                self._do([job for job in group if job.work is not _end])
                if ends and self._db is not None:
                    self._db.close()  # the last process that closes the file checkpoints the write-ahead log
            except Exception:  # without memory even what reports a failure fails: nobody may wait for it
                for job in group:
                    job.error = job.error or (_UNKNOWN if job.result is None else None)
                    if job.error is _UNKNOWN and job.failed is not None:
                        job.failed(_UNKNOWN)
            _deliver(group)
            if ends:
                return

    def _do(self, jobs: list[_WriteJob]) -> None:
        if not jobs:
            return
        try:
            if self._db is None:
                self._db = connect_memory() if self.in_memory else (self._opener or connect)(self.path)
                self._file = None if self.in_memory else os.stat(self.path)
            self._check_file_in_place()
            if self._synced and all(job.durable and job.work is touch for job in jobs):
                return  # beside a write that was submitted before it, it syncs that
        except Exception as error:
            for job in jobs:
                self._fail(job, error)
            return
        try:
            self._transact(self._db, jobs)
        except Exception as error:
            if len(jobs) == 1:
                self._fail(jobs[0], error)
                return
            for job in jobs:  # one of them failed: run each in its own transaction, so that the others succeed
                self._do([job])

    def _check_file_in_place(self) -> None:
        """Raises Unwritable if the open file was moved or removed: SQLite would continue to write to the lost file."""
        try:
            if self._file is None or os.path.samestat(self._file, os.stat(self.path)):
                return
        except FileNotFoundError:
            pass
        except OSError:
            return  # the next SQLite statement reports it
        raise Unwritable(
            f"{self.path} is gone: it was moved or removed while Friday had it open.", hint="Put it back, then resume."
        )

    def _transact(self, db: sqlite3.Connection, jobs: list[_WriteJob]) -> None:
        durable = any(job.durable for job in jobs)
        self._synced = False
        if durable:
            db.execute("PRAGMA synchronous = FULL")
        try:
            with transaction(db):
                for job in jobs:
                    job.result = job.work(db)
            self._synced = durable
        finally:
            if durable:
                db.execute("PRAGMA synchronous = NORMAL")

    def _fail(self, job: _WriteJob, error: Exception) -> None:
        if isinstance(error, sqlite3.Error):
            error = explain(error, self.path)
        elif isinstance(error, UnicodeDecodeError | msgspec.MsgspecError):
            error = DatabaseDamaged(self.path)
        elif not isinstance(error, FridayError):
            cause, error = error, StoreError(f"{self.path} could not be written: {type(error).__name__}: {error}.")
            error.__cause__ = cause
        job.error = error
        if job.failed is not None and isinstance(error, StoreError):
            job.failed(error)


def _deliver(group: list[_WriteJob]) -> None:
    """Complete the futures in order, with one callback per event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_WriteJob]] = defaultdict(list)
    for job in group:
        by_loop[job.loop].append(job)
    for loop, jobs in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(_settle, jobs)


def _settle(jobs: list[_WriteJob]) -> None:
    for job in jobs:
        if job.future.done():
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)


class StoreReader:
    """Reads with a second connection, so that reads and writes do not block each other."""

    def __init__(self, writer: StoreWriter) -> None:
        self._writer = writer
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._closed = False

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """The result of `work`, run in a thread. Raises StoreError."""
        if self._writer.in_memory:  # only the writer's connection sees the data
            return await self._writer.submit(work)
        if self._db is None:
            await self._writer.submit(lambda db: None)  # creates and migrates the file
        return await asyncio.to_thread(self._locked, work)

    async def close(self) -> None:
        """Close the file after the current read."""
        self._closed = True  # a read that waits for the lock must not open the file again
        if self._db is None and not self._lock.locked():
            return

        def close() -> None:
            with self._lock:
                if self._db is not None:
                    self._db.close()

        await asyncio.to_thread(close)

    def _locked(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            if self._closed:
                raise StoreError(f"{self._writer.path} is already closed.")
            try:
                if self._db is None:
                    self._db = retry_while_busy(lambda: connect_reader(self._writer.path))
                db = self._db
                return retry_while_busy(lambda: work(db))
            except sqlite3.Error as error:
                raise explain(error, self._writer.path) from None
