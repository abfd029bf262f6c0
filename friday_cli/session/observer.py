"""A second window: a session that another process drives, shown live and left alone, until that process ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress

from friday_cli.core.protocol.errors import StoreError, UsageError
from friday_cli.core.protocol.events import Envelope
from friday_cli.paths import store_path
from friday_cli.store import Store

from .open import Options
from .rewind import RecordedRewinder
from .session import Session

PAUSE_S = 0.5
"""How often a session whose process ended is looked at again, for another that takes it over."""


class SessionObserver:
    """What a face needs of a session that it may only watch: `events()` as of a `Session`, of which nothing can be asked.

    Make one with `Window.open`. `driver` is the number of the process that drives the session, None when nobody does:
    then `take_over` gives the session itself. `free` is set as long as that is so.
    """

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
        """Watch the session `options.resume` (a whole id), whether a process drives it or not. The other options are those
        of the session once it is taken over. Raises UsageError, StoreError."""
        if not options.resume:
            raise UsageError("Only a session that there is can be watched.")
        store = Store(store_path(env))
        try:
            known = await store.events(options.resume)
            window = cls(options.resume, options, store, max((e.seq or 0 for e in known), default=0), env)
            await window._look()
            return window
        except BaseException:
            await store.close()
            raise

    async def events(self, after: int = 0, *, lull_s: float = 0.0) -> AsyncIterator[Envelope]:
        """Everything durable above number `after`, then what the other process adds, half a second later at most, until
        the window is closed. Live events, whose pace `lull_s` sets, are not shared between processes."""
        newest = after
        while not self._closed.is_set():
            try:
                async for batch in self._store.follow(self.id, after=newest):
                    await self._look()
                    for envelope in batch:
                        newest = envelope.seq or newest
                        yield envelope
                    if self._closed.is_set():
                        return
                await self._look()
            except StoreError:
                if not self._closed.is_set():
                    raise
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closed.wait(), PAUSE_S)

    @property
    def refusal(self) -> UsageError:
        """What a face says to a person who wants anything of the session."""
        if self.owner_pid is None:
            return UsageError(
                f"No window drives session {self.id[:8]} any more.", hint="Take it over to go on with it."
            )
        return UsageError(
            f"Another window (number {self.owner_pid}) drives session {self.id[:8]}; this one only shows it.",
            hint="Close it there to go on here.",
        )

    async def take_over(self) -> Session:
        """Close the window and open the session itself. Raises UsageError, with the window as it was, while another process
        drives it, and any error of `Session.open`."""
        session = await Session.open(self._options, env=self._env)
        await self.close()
        return session

    async def close(self) -> None:
        """Watch no longer. May be called twice."""
        if not self._closed.is_set():
            self._closed.set()
            await self._store.close()

    async def _look(self) -> None:
        self.owner_pid = await self._store.owner_pid(self.id)
        (self.released.set if self.owner_pid is None else self.released.clear)()
