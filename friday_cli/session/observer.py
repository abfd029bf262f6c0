"""Read-only access to a session that another process has open, until that process ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress

from friday_cli.core.eventlog.log import AT_ONCE
from friday_cli.core.protocol.errors import StoreError, UsageError
from friday_cli.core.protocol.events import Envelope
from friday_cli.store.store import Store
from friday_cli.system.paths import store_path

from .open_context import Options
from .rewind import RecordedRewinder
from .session import Session

PAUSE_S = 0.5
"""Seconds between two looks for a process that takes over a session whose process ended."""


class SessionObserver:
    """Shows the events of a session as `Session.events` does, and cannot change it. Make one with
    `SessionObserver.open`. `owner_pid`: the process that has the session open, None if no process has: then `take_over`
    opens the session here. `released` is set while that is so."""

    def __init__(self, session: str, options: Options, store: Store, since: int, env: Mapping[str, str] | None) -> None:
        self.id = session
        self.since = since
        self.released = asyncio.Event()
        self.owner_pid: int | None = None
        self.rewind = RecordedRewinder(session, store, env)
        self._options = options
        self._store = store
        self._env = env
        self._closed = asyncio.Event()

    @classmethod
    async def open(cls, options: Options, *, env: Mapping[str, str] | None = None) -> SessionObserver:
        """Observe the session `options.resume` (a whole id), whether or not a process has it open. The other options are
        used when it is taken over. Raises UsageError, StoreError."""
        if not options.resume:
            raise UsageError("Only an existing session can be observed.")
        store = Store(store_path(env))
        try:
            known = await store.events(options.resume)
            window = cls(options.resume, options, store, max((e.seq or 0 for e in known), default=0), env)
            await window._update_owner()
            return window
        except BaseException:
            await store.close()
            raise

    async def events(self, after: int = 0, *, lull_s: float = 0.0, late: bool = False) -> AsyncIterator[Envelope]:
        """All durable events above number `after`, then the events that the other process adds, at most half a second later,
        until the observer is closed. Live events are not shared between processes, so `lull_s` and `late` have no effect."""
        newest = after
        while not self._closed.is_set():
            try:
                async for batch in self._store.follow(self.id, after=newest):
                    await self._update_owner()
                    for count, envelope in enumerate(batch, 1):
                        newest = envelope.seq or newest
                        if count % AT_ONCE == 0:
                            await asyncio.sleep(0)
                        yield envelope
                    if self._closed.is_set():
                        return
                await self._update_owner()
            except StoreError:
                if not self._closed.is_set():
                    raise
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closed.wait(), PAUSE_S)

    @property
    def refusal(self) -> UsageError:
        """What a frontend shows to a person who wants to change the session."""
        name = f"Session {self.id[:8]}"
        if self.owner_pid is None:
            return UsageError(f"{name} is no longer open in another process.", hint="Take it over to continue it here.")
        return UsageError(
            f"{name} is open in another friday process (pid {self.owner_pid}); this window is read-only.",
            hint="/detach or quit it there to continue it here.",
        )

    async def history(self) -> list[Envelope]:
        """All durable events so far."""
        return await self._store.events(self.id)

    async def take_over(self) -> Session:
        """Open the session itself and close the observer. Raises UsageError while another process has the session open, and
        any error of `Session.open`; then the observer stays open."""
        session = await Session.open(self._options, env=self._env)
        await self.close()
        return session

    async def close(self) -> None:
        """Stop observing. May be called twice."""
        if not self._closed.is_set():
            self._closed.set()
            await self._store.close()

    async def _update_owner(self) -> None:
        self.owner_pid = await self._store.owner_pid(self.id)
        (self.released.set if self.owner_pid is None else self.released.clear)()
