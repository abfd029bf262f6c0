"""The ledger of one session: adds what its agents use, and holds what their requests may use under the person's caps."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Literal

from friday_cli.core.limits.budget import Amounts
from friday_cli.core.limits.ledger import Held, Need, OnCap
from friday_cli.core.protocol.events import Envelope
from friday_cli.core.protocol.waiting import CapReached

from . import locks, spending
from .spending import BatchHold, SpendingCap
from .writer import StoreWriter


class SessionLedger:
    """Implements `core.limits.ledger.Ledger`. `caps` are those of the last time that the file was written or opened, so that a
    session without a cap reads nothing for its requests. `now`: the time in Unix seconds."""

    def __init__(
        self,
        session: str,
        writer: StoreWriter,
        lock_folder: Path,
        *,
        caps: tuple[SpendingCap, ...],
        on_cap: OnCap,
        now: Callable[[], float],
    ) -> None:
        self.session, self.on_cap = session, on_cap
        self.turn = asyncio.Lock()
        self._writer, self._locks = writer, lock_folder
        self._caps, self._now = caps, now
        self._payers: dict[str, tuple[str, str]] = {}
        self._ended: dict[str, list[int]] = {}
        """Numbers of the holds of requests that ended, by agent, until an event has their usage."""

    def caps_of(self, service: str, key: str) -> frozenset[Literal["tokens", "cost"]]:
        return frozenset(cap.what for cap in self._caps if cap.covers(service, key))

    def paid_by(self, agent: str, service: str, key: str) -> None:
        self._payers[agent] = service, key

    async def hold(self, need: Need) -> Held | CapReached:
        now, keep = self._now(), self.on_cap == "wrap_up"
        return await self._writer.submit(
            lambda db: spending.hold(db, self.session, need, now, keep=keep, is_owned=self._is_owned)
        )

    async def begin(self, held: Held) -> None:
        await self._writer.change("UPDATE holds SET begun = 1 WHERE number = ?", held.number)

    def end(self, held: Held, agent: str) -> None:
        self._ended.setdefault(agent, []).append(held.number)

    async def close(self) -> None:
        """The session ends: it holds nothing any more."""
        if self._ended:
            await self._writer.change("DELETE FROM holds WHERE session = ?", self.session)

    # ---- batches at services: they hold what they may cost, whatever becomes of this process ----------------------

    async def hold_batch(self, batch: BatchHold, requests: Sequence[Amounts]) -> tuple[int, CapReached | None]:
        """Hold what the first of `requests` may cost that are about to be sent, as many as the caps leave room for: how many, and the cap
        that has none for the next."""
        now = self._now()
        return await self._writer.submit(lambda db: spending.hold_batch(db, batch, requests, now, self._is_owned))

    async def end_batch(self, batch: str) -> None:
        """A batch was collected, or never was at its service."""
        await self._writer.submit(lambda db: db.execute("DELETE FROM batch_holds WHERE batch = ?", (batch,)))

    async def keep_batches(self, job: str, known: Collection[str]) -> None:
        """Let go what was held for batches of a `job` that are not `known`: they were not sent."""

        def work(db: sqlite3.Connection) -> None:
            named = [row[0] for row in db.execute("SELECT batch FROM batch_holds WHERE job = ?", (job,))]
            gone = [(name,) for name in named if name not in known]
            db.executemany("DELETE FROM batch_holds WHERE batch = ?", gone)

        await self._writer.submit(work)

    # ---- for the journal ----------------------------------------------------------------------------------------

    def take_ended(self, envelopes: Sequence[Envelope]) -> list[int]:
        """The holds that end with these events."""
        agents = {e.agent for e in envelopes if spending.ends_request(e)} if self._ended else ()
        return [number for agent in agents for number in self._ended.pop(agent, ())]

    def add(self, db: sqlite3.Connection, key: int, envelope: Envelope) -> None:
        """Add what an event says that its agent used. `key` is that of the session's row."""
        agent = envelope.agent
        spending.add_event(
            db, self.session, key, envelope, lambda: self._payers.get(agent) or spending.payer_of_agent(db, key, agent)
        )

    def stored(self, db: sqlite3.Connection, ended: Sequence[int]) -> None:
        """Events were stored in this transaction, with the usage of the requests that `ended`."""
        if ended:
            db.execute(f"DELETE FROM holds WHERE number IN ({', '.join('?' * len(ended))})", ended)
        self._caps = spending.read_caps(db)

    def _is_owned(self, session: str) -> bool:
        return session == self.session or locks.is_owned(self._locks, session)
