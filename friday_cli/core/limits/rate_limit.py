"""One gate per provider and key: how many requests may be in flight, and until when none may start.

Shared by a parent and all its children, so that a rate limit met by one stops all of them and they come back one after
the other; other processes hear of it, too. The number in flight follows the server: halved when it says "too many", one
more after a round of successes (additive increase, multiplicative decrease, as TCP does). Where it was too many before,
it takes more rounds each time: whoever tries out again and again how many a server takes is refused again and again.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from typing import Protocol

MOST_IN_FLIGHT = 64
ROUNDS_MOST = 8
"""After how many rounds of successes at most one more is let in where the server said "too many" before."""
BACKOFF_S = 1.0
BACKOFF_MOST_S = 30.0
RETRY_AFTER_MOST_S = 60.0
"""A server that asks for a longer wait than this is not waited for: the person is told when to come back."""


class SharedRateLimit(Protocol):
    """What the processes that use a lane tell each other. Times in Unix seconds."""

    def closed_until(self) -> float:
        """When requests may start again; 0 when they may now."""
        ...

    def close_until(self, at: float) -> None:
        """Let nobody start a request before `at`; never shortens a longer wait."""
        ...

    def served_at(self) -> float:
        """When one of them was served last; 0 when none is known of."""
        ...

    def serve(self) -> None:
        """Let the others know that one is served now."""
        ...


class RateLimiter:
    """Admission to one lane. `rng` gives the jitter, `shared` what other processes met there (None: there are none)."""

    def __init__(self, rng: random.Random, shared: SharedRateLimit | None = None) -> None:
        self._rng = rng
        self._shared = shared
        self._heeded = 0.0
        self._limit = float(MOST_IN_FLIGHT)
        self._known = float(MOST_IN_FLIGHT)  # so many were not too many when the server last refused one
        self._rounds = 1
        self._in_flight = self._successes = 0
        self._closed_until = 0.0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def in_flight(self) -> int:
        return self._in_flight

    @property
    def served(self) -> tuple[int, float]:
        """Another one than before when somebody was served meanwhile, here or in another process."""
        return self._successes, self._shared.served_at() if self._shared is not None else 0.0

    @property
    def wait_s(self) -> float:
        """Seconds until requests may start again; 0 when the gate is not closed by a back-off."""
        self._apply_shared()
        return max(0.0, self._closed_until - _now())

    def try_acquire(self, *, again: bool = False) -> bool:
        """Take a place if there is one right now and nobody waits for it; leave it with `leave`.

        Who had its turn and gave it back comes `again`: before those who wait.
        """
        if (self._waiting and not again) or self.wait_s > 0 or self._in_flight >= int(self._limit):
            return False
        self._in_flight += 1
        return True

    def release(self, *, succeeded: bool = False) -> None:
        """Give the place back; a success lets one more in after a round."""
        self._in_flight -= 1
        if succeeded:
            self._successes += 1
            if self._shared is not None and self._limit < MOST_IN_FLIGHT:  # where all find room nobody asks
                self._shared.serve()
            rounds = self._rounds if self._limit >= self._known else 1
            self._limit = min(MOST_IN_FLIGHT, self._limit + 1 / (self._limit * rounds))
            if self._limit >= self._known + 1:  # it takes more by now
                self._known, self._rounds = self._limit, max(1, self._rounds // 2)
        self._wake()

    async def acquire(self, *, again: bool = False) -> None:
        """Returns with a place taken, first come first served; leave it with `leave`. `again` as for `enter`."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if again:
            self._waiting.appendleft(waiter)
        else:
            self._waiting.append(waiter)
        self._wake()
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            elif not waiter.cancelled():
                self.release()  # it was ours already
            raise

    def back_off(self, attempt: int, *, retry_after: float | None = None, crowded: bool) -> float:
        """How many seconds to wait after the `attempt`-th failure; `crowded` closes the lane for everybody meanwhile.

        Never less than the server asks for; more where that was not enough the time before.
        """
        told, doubled = retry_after or 0.0, attempt - (retry_after is not None)
        own = min(BACKOFF_MOST_S, BACKOFF_S * 2 ** (doubled - 1)) * self._rng.uniform(0.5, 1.0) if doubled else 0.0
        wait = max(own, told + self._rng.uniform(0, 0.1 * told + 0.1)) if retry_after is not None else own
        if crowded:
            self._known, self._rounds = max(1.0, self._in_flight - 1.0), min(ROUNDS_MOST, 2 * self._rounds)
            self._close(wait)
            if self._shared is not None:
                self._heeded = max(self._heeded, time.time() + wait)
                self._shared.close_until(self._heeded)
        return wait

    def _apply_shared(self) -> None:
        """Wait as another process says that met a crowd, and come back somewhat later, so as not to be one."""
        until = self._shared.closed_until() if self._shared is not None else 0.0
        if until > self._heeded:
            self._heeded = until
            left = max(0.0, until - time.time())
            self._close(min(RETRY_AFTER_MOST_S, left + self._rng.uniform(0, 0.1 * left + 0.1)))

    def _close(self, wait: float) -> None:
        self._limit = max(1.0, min(self._limit, max(1, self._in_flight)) / 2)
        self._closed_until = max(self._closed_until, _now() + wait)

    def _wake(self) -> None:
        while self._waiting:
            if wait := self.wait_s:  # asked once: it may be over the next moment, and nobody would ring
                if self._timer is None:
                    self._timer = asyncio.get_running_loop().call_later(wait, self._ring)
                return
            if self._in_flight >= int(self._limit):
                return  # whoever leaves wakes the next one
            waiter = self._waiting.popleft()
            if not waiter.done():
                self._in_flight += 1
                waiter.set_result(None)

    def _ring(self) -> None:
        self._timer = None
        self._wake()


def _now() -> float:
    return asyncio.get_running_loop().time()
