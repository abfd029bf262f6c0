"""The clock of active time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

TICK_S, LATE_S = 1.0, 2.0
"""Seconds between two ticks of a clock, and the delay from which on a tick means that the process was suspended."""


class Clock:
    """Active seconds of one run. `start` and `stop` are counted: the clock runs while more starts than stops were
    called. A running clock ticks. A tick that is more than `LATE_S` late means that the process was suspended or the
    machine slept; the seconds since it was due do not count."""

    def __init__(self) -> None:
        self._starts = 0
        self._since = 0.0
        self._before = 0.0
        self._followers: list[Clock] = []
        self._alarm: tuple[float, Callable[[], None]] | None = None
        self._tick: asyncio.TimerHandle | None = None

    @property
    def running(self) -> bool:
        return self._starts > 0

    @property
    def elapsed(self) -> float:
        """Active seconds so far."""
        return self._before + (_now() - self._since - self._suspended_s if self.running else 0.0)

    @property
    def _suspended_s(self) -> float:
        """Seconds since the tick was due, when they are too many for a busy event loop; else 0."""
        late = _now() - self._tick.when() if self._tick is not None else 0.0
        return late if late > LATE_S else 0.0

    def start(self) -> None:
        """Count one more start."""
        self._starts += 1
        if self._starts == 1:
            self._since = _now()
            self._arm()
            for follower in self._followers:
                follower.start()

    def stop(self) -> None:
        """Count one more stop."""
        self._starts -= 1
        if self._starts == 0:
            self._before += _now() - self._since - self._suspended_s
            self._disarm()
            for follower in self._followers:
                follower.stop()

    @contextmanager
    def following(self, other: Clock) -> Iterator[None]:
        """Inside the context this clock also runs whenever `other` does."""
        other._followers.append(self)
        if other.running:
            self.start()
        try:
            yield
        finally:
            other._followers.remove(self)
            if other.running:
                self.stop()

    def alarm(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call `callback` once, after `seconds` active seconds of this run."""
        self._alarm = (seconds, callback)
        if self.running:
            self._before -= self._suspended_s
            self._disarm()
            self._arm()

    def silence(self) -> None:
        """Cancel the alarm."""
        self._alarm = None

    def _arm(self) -> None:
        left = self._alarm[0] - self.elapsed if self._alarm is not None else TICK_S
        self._tick = asyncio.get_running_loop().call_later(max(0.0, min(left, TICK_S)), self._on_tick)

    def _disarm(self) -> None:
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None

    def _on_tick(self) -> None:
        self._before -= self._suspended_s
        self._tick = None
        if self._alarm is not None and self._alarm[0] - self.elapsed < 1e-6:
            _, callback = self._alarm
            self._alarm = None
            callback()
        if self.running:
            self._arm()


def _now() -> float:
    return asyncio.get_running_loop().time()
