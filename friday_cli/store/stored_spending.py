"""What all sessions of the person used, and the caps over it, in the session file."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from friday_cli.core.limits.ledger import OnCap

from . import locks, spending
from .ledger import SessionLedger
from .spending import BatchHold, KeySpending, SpendingCap
from .writer import StoreReader, StoreWriter


class StoredSpending:
    """The spending of all sessions in one session file. `folder` has the locks of the sessions. Every call may raise StoreError."""

    def __init__(self, writer: StoreWriter, reader: StoreReader, folder: Path) -> None:
        self._writer, self._reader, self._folder = writer, reader, folder
        self._known: tuple[SpendingCap, ...] = ()

    async def open(self) -> None:
        """Read the caps that ledgers begin with."""
        self._known = tuple(await self._writer.submit(spending.read_caps))

    def ledger(self, session: str, on_cap: OnCap = "wait", now: Callable[[], float] = time.time) -> SessionLedger:
        """The ledger of a session whose lock this process has. The store must be open."""
        return SessionLedger(session, self._writer, self._folder, caps=self._known, on_cap=on_cap, now=now)

    async def caps(self) -> list[SpendingCap]:
        """The person's caps over all sessions."""
        return list(await self._reader.read(spending.read_caps))

    async def used(self, now: float) -> list[KeySpending]:
        """What each key paid in this week and today, the week first. `now` is in Unix seconds."""

        def is_owned(session: str) -> bool:
            return locks.is_owned(self._folder, session)

        return await self._reader.read(lambda db: spending.usage_now(db, now, is_owned))

    async def batches(self, now: float) -> list[BatchHold]:
        """The batches at services that are neither collected nor expired at `now` (Unix seconds)."""
        return await self._reader.read(lambda db: spending.batch_holds(db, now))

    async def set_caps(self, caps: Sequence[SpendingCap]) -> None:
        """Set caps; those for the same payer, period and quantity are replaced. Sessions that run obey them from their next
        request on."""

        def work(db: sqlite3.Connection) -> None:
            for cap in caps:
                spending.set_cap(db, cap)

        await self._writer.submit(work)

    async def clear_caps(self, payer: str | None) -> int:
        """Remove the caps of a service or key ("": those for all), or every cap with None; returns how many there were."""
        return await self._writer.submit(lambda db: spending.clear_caps(db, payer))
