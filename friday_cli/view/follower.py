"""Reads the events of a session for a frontend, one after the other, and tells how far it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from friday_cli.core.protocol.events import Envelope


class EventSource(Protocol):
    """A source of the events of a session."""

    @property
    def since(self) -> int:
        """The number of the last event before the session was opened here."""

    def events(self, after: int = 0, *, lull_s: float = 0.0, late: bool = False) -> AsyncIterator[Envelope]:
        """All durable events above number `after`, then new ones and live ones, until the source is closed."""


class SessionFollower:
    """Gives each event of `source` above number `after` to `on_event`, with whether it is from before the opening. It reads
    in a task of its own until the source is closed. `lull_s` and `late` are those of `Session.events`. `on_failure` is
    called when an error ended the reading: without it a frontend would just stop changing."""

    def __init__(
        self,
        source: EventSource,
        on_event: Callable[[Envelope, bool], object],
        *,
        after: int = 0,
        lull_s: float = 0.0,
        late: bool = False,
        on_failure: Callable[[], object] = lambda: None,
    ) -> None:
        self.caught_up = asyncio.Event()
        """Set when all events from before the opening were given, or the reading has ended."""
        self._since = source.since
        self._on_event, self._on_failure = on_event, on_failure
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}
        """Who waits, and for what."""
        if self._since <= after:
            self.caught_up.set()
        events = source.events(after, lull_s=lull_s, late=late)
        self._task = asyncio.create_task(self._read(events), name="follow a session")
        self._task.add_done_callback(self._ended)

    @property
    def ended(self) -> bool:
        """Whether the reading has ended."""
        return self._task.done()

    @property
    def failure(self) -> BaseException | None:
        """The error that ended the reading."""
        return self._task.exception() if self._task.done() and not self._task.cancelled() else None

    async def changed(self) -> None:
        """Return after the next event, or at the end."""
        await self._wait(lambda: True)

    async def until(self, reached: Callable[[], bool]) -> None:
        """Return when `reached` is true, which is asked after each event, or at the end."""
        if not reached():
            await self._wait(reached)

    async def finished(self) -> None:
        """Return when the source was closed and all its events were given. Raises the error that ended the reading."""
        await self._task

    async def cancel(self) -> None:
        """End the reading now, and wait for that."""
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _wait(self, reached: Callable[[], bool]) -> None:
        if self.ended:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[done] = reached
        try:
            await done
        finally:
            del self._waiting[done]

    async def _read(self, events: AsyncIterator[Envelope]) -> None:
        async for envelope in events:
            seq = envelope.seq or 0
            self._on_event(envelope, 0 < seq <= self._since)
            if seq >= self._since:
                self.caught_up.set()
            if self._waiting:
                self._wake(lambda reached: reached())

    def _wake(self, ready: Callable[[Callable[[], bool]], bool]) -> None:
        for done, reached in self._waiting.items():
            if not done.done() and ready(reached):
                done.set_result(None)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.caught_up.set()
        self._wake(lambda reached: True)
        if self.failure is not None:
            self._on_failure()
