"""Detects a silent connection. A process that was stopped, or a machine that slept, does not count as silence."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

SUSPENDED_S = 2.0
"""A timer that fires this many seconds late means that the process was stopped or the machine slept."""


class StreamIdle(Exception):
    """Nothing arrived for `seconds`; `what` is "bytes" or "events"."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"no {what} for {seconds:g} s")
        self.what, self.seconds = what, seconds


class IdleTimeout:
    """Two limits on one stream: `idle_s` seconds without any byte, `event_idle_s` seconds without an event; at least `first_s` before the
    first event.

    Time counts only inside `waiting()`: a slow reader does not make the service look silent. After a suspension both
    limits start again, because data that arrived in the meantime has not been read yet.
    """

    def __init__(self, idle_s: float, event_idle_s: float, first_s: float = 0.0) -> None:
        self._loop = asyncio.get_running_loop()
        self._usual = {"bytes": idle_s, "events": event_idle_s}
        self._limits = {what: max(limit, first_s) for what, limit in self._usual.items()}
        self._remaining = dict(self._limits)
        self._since = 0.0
        self._task: asyncio.Task[object] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._expired = ""
        self._cancelling = 0

    def event(self) -> None:
        """Record that an event arrived; after the first one `first_s` no longer applies."""
        if self._usual:
            changed, self._limits, self._usual = self._limits != self._usual, self._usual, {}
            if changed:
                self._remaining = dict(self._limits)
                self.close()
        self._remaining["events"] = self._limits["events"]

    def shorten(self, seconds: float) -> None:
        """Lower both limits to at most `seconds` from now on."""
        self._limits = {what: min(limit, seconds) for what, limit in self._limits.items()}
        self._remaining = dict(self._limits)
        self.close()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Wraps each wait for bytes; raises `StreamIdle`. Leaving it without an error counts as received bytes."""
        self._task = task = asyncio.current_task()
        assert task is not None
        self._cancelling = task.cancelling()
        self._since = self._loop.time()
        self._expired = ""
        if self._timer is None:
            self._schedule()
        try:
            yield
        except asyncio.CancelledError:
            if self._expired and task.uncancel() <= self._cancelling:
                raise StreamIdle(self._expired, self._limits[self._expired]) from None
            raise
        finally:
            self._task = None
        self._remaining["events"] -= self._loop.time() - self._since

    def close(self) -> None:
        """Cancel the timer."""
        self._task = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _deadline(self) -> tuple[float, str]:
        return min((self._since + remaining, what) for what, remaining in self._remaining.items())

    def _schedule(self) -> None:
        self._timer = self._loop.call_at(self._deadline()[0], self._on_timer, self._deadline()[0])

    def _on_timer(self, due: float) -> None:
        now = self._loop.time()
        if now - due > SUSPENDED_S:
            self._remaining, self._since = dict(self._limits), now
        elif self._task is None:
            self._since = now
        elif self._deadline()[0] <= now:
            self._expired = self._deadline()[1]
            self._timer = None
            self._task.cancel()
            return
        self._schedule()
