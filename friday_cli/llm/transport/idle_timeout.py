"""Tells a silent connection from a slow one, on a clock that survives a stopped process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

LATE_S = 2.0
"""A timer that rings this much too late was held up with the whole process (stopped, or the machine slept)."""


class StreamIdle(Exception):
    """Nothing came for `seconds`; `what` is "bytes" or "events"."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"no {what} for {seconds:g} s")
        self.what, self.seconds = what, seconds


class IdleTimeout:
    """Two limits on one stream: `idle_s` without any byte, `event_idle_s` without an event that counts.

    Time runs only inside `waiting()`: a reader that takes its time does not make the service look silent. After a
    sleep of the machine both limits start anew, since what arrived meanwhile has not been read yet.
    """

    def __init__(self, idle_s: float, event_idle_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._limits = {"bytes": idle_s, "events": event_idle_s}
        self._left = dict(self._limits)
        self._since = 0.0
        self._task: asyncio.Task[object] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._rung = ""
        self._cancelling = 0

    def event(self) -> None:
        """An event that counts has come."""
        self._left["events"] = self._limits["events"]

    def shorten(self, seconds: float) -> None:
        """From now on wait no longer than this for anything."""
        self._limits = {what: min(limit, seconds) for what, limit in self._limits.items()}
        self._left = dict(self._limits)
        self.close()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Around each wait for bytes; raises `Stalled` out of it. Leaving it without an error counts as bytes."""
        self._task = task = asyncio.current_task()
        assert task is not None
        self._cancelling = task.cancelling()
        self._since = self._loop.time()
        self._rung = ""
        if self._timer is None:
            self._arm()
        try:
            yield
        except asyncio.CancelledError:
            if self._rung and task.uncancel() <= self._cancelling:
                raise StreamIdle(self._rung, self._limits[self._rung]) from None
            raise
        finally:
            self._task = None
        self._left["events"] -= self._loop.time() - self._since

    def close(self) -> None:
        """Stop the clock."""
        self._task = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> tuple[float, str]:
        return min((self._since + left, what) for what, left in self._left.items())

    def _arm(self) -> None:
        self._timer = self._loop.call_at(self._due()[0], self._ring, self._due()[0])

    def _ring(self, due: float) -> None:
        now = self._loop.time()
        if now - due > LATE_S:
            self._left, self._since = dict(self._limits), now
        elif self._task is None:
            self._since = now
        elif self._due()[0] <= now:
            self._rung = self._due()[1]
            self._timer = None
            self._task.cancel()
            return
        self._arm()
