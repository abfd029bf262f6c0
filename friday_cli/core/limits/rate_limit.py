"""Rate limits, one per provider and key: how many requests may be in flight, and until when none may start.

All agents of a session share them, so that a refusal of one request delays all of them, and they resume one after the
other; other processes are informed too. The number in flight adapts to the server: halved when it refuses, one more
after a round of successes (additive increase, multiplicative decrease, as in TCP). Near the number that was refused
before, each increase takes more rounds than the last.

While no connection can be made, or the service answers all requests with an internal error (an outage), one request at a time tries it for all, and all start when it is answered.
A service that drops connections because it is full answers the requests before: then their number is the limit.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from typing import Protocol

import msgspec

from ..protocol.errors import ProviderError
from ..protocol.format import seconds

MOST_IN_FLIGHT = 64
ROUNDS_MOST = 8
"""Rounds of successes before one more request is admitted near a number that the server refused, at most."""
BACKOFF_S = 1.0
BACKOFF_MOST_S = 30.0
FAILURES_OF_OUTAGE = 6
"""Requests in a row that the service answers with the same status of 500 or more, after which it counts as not reachable. A request
that fails alone has failed by then."""
OUTAGE_MOST_S = 15.0
"""Longest time between two tries to get a connection, in seconds."""
RETRY_AFTER_MOST_S = 60.0
"""Longest wait that a server may ask for. After a longer one the request fails and the person is told how long it is."""


class SharedRateLimit(Protocol):
    """The state of a rate limit that processes share. Times in Unix seconds."""

    def closed_until(self) -> float:
        """When requests may start; 0 for now."""

    def close_until(self, at: float) -> None:
        """Delay all requests until `at`. Never shortens a longer delay."""

    def served_at(self) -> float:
        """When a request last succeeded; 0 when none did."""

    def serve(self) -> None:
        """Record that a request succeeded now."""


class _Outage(msgspec.Struct):
    """No connection can be made since `since` (loop time). Requests with a higher number than `last` are probes. `failed`
    counts those that failed; `probing`: one is in flight."""

    since: float
    last: int
    failed: int = 1
    probing: bool = False


class _Failures(msgspec.Struct):
    """`count` failures of requests of `agents` with the HTTP status `status` in a row, without an answer between them."""

    status: int = 0
    count: int = 0
    agents: frozenset[str] = frozenset()


class RateLimiter:
    """Admission of requests under one rate limit. `rng` gives the jitter; `shared` is the state shared with other
    processes, None for none."""

    def __init__(self, rng: random.Random, shared: SharedRateLimit | None = None) -> None:
        self._rng = rng
        self._shared = shared
        self._applied = 0.0
        self._limit = float(MOST_IN_FLIGHT)
        self._known = float(MOST_IN_FLIGHT)  # the number that the server did not refuse, at its last refusal
        self._rounds = 1
        self.in_flight = self._successes = 0
        self._closed_until = 0.0
        self._outage: _Outage | None = None
        self._failures = _Failures()
        self._served: frozenset[str] = frozenset()  # agents whose requests succeeded; two are enough
        self._admitted = 0
        self._waiting: deque[asyncio.Future[int]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def served(self) -> tuple[int, float]:
        """A value that changes when a request succeeds, in this process or another."""
        return self._successes, self._shared.served_at() if self._shared is not None else 0.0

    @property
    def wait_s(self) -> float:
        """Seconds until requests may start; 0 without a back-off."""
        self._apply_shared()
        return max(0.0, self._closed_until - _now())

    @property
    def outage_s(self) -> float | None:
        """Seconds since a connection could not be made or was lost; None when the last request was answered."""
        return None if self._outage is None else _now() - self._outage.since

    @property
    def trouble(self) -> str:
        """What the service does instead of answering, in words; "" when its last request was answered."""
        status, outage = self._failures.status, self.outage_s
        if outage is None and not status:
            return ""
        words = f"status {status}" if status else "no connection"
        return words if outage is None else f"{words} for {seconds(outage)}"

    def try_acquire(self, *, in_front: bool = False) -> int:
        """Take a slot if one is free and no request waits for it. Returns the number of the request, 0 for no slot. Return
        it with `release`. `in_front`: the caller released its slot and goes to the front of the queue."""
        if (self._waiting and not in_front) or self.wait_s > 0 or self._full:
            return 0
        return self._admit()

    def release(self, number: int, *, succeeded: bool = False, agent: str = "") -> None:
        """Return the slot of a request of `agent`. After a round of successes one more request is admitted."""
        self.in_flight -= 1
        if self._outage is not None and number > self._outage.last:
            self._outage.probing = False
        if succeeded:
            self._successes += 1
            if len(self._served) < 2:
                self._served |= {agent}
            if self._shared is not None and self._limit < MOST_IN_FLIGHT:  # not needed while no request has to wait
                self._shared.serve()
            rounds = self._rounds if self._limit >= self._known else 1
            self._limit = min(MOST_IN_FLIGHT, self._limit + 1 / (self._limit * rounds))
            if self._limit >= self._known + 1:  # the server accepts more than before
                self._known, self._rounds = self._limit, max(1, self._rounds // 2)
        self._wake()

    async def acquire(self, *, in_front: bool = False) -> int:
        """Wait for a slot, first come first served. Returns the number of the request. `in_front` as for `try_acquire`."""
        waiter: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if in_front:
            self._waiting.appendleft(waiter)
        else:
            self._waiting.append(waiter)
        self._wake()
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            elif not waiter.cancelled() and waiter.exception() is None:
                self.release(waiter.result())  # the slot was given to this request already
            raise

    def back_off(self, attempt: int, *, retry_after: float | None = None, crowded: bool) -> float:
        """Seconds to wait after the `attempt`-th failure. `crowded` delays all requests by as much. Never less than the
        server asks for; more when that was not enough the last time."""
        asked, doubled = retry_after or 0.0, attempt - (retry_after is not None)
        own = min(BACKOFF_MOST_S, BACKOFF_S * 2 ** (doubled - 1)) * self._rng.uniform(0.5, 1.0) if doubled else 0.0
        wait = max(own, asked + self._rng.uniform(0, 0.1 * asked + 0.1)) if retry_after is not None else own
        if crowded:
            self._known, self._rounds = max(1.0, self.in_flight - 1.0), min(ROUNDS_MOST, 2 * self._rounds)
            self._close(wait)
            if self._shared is not None:
                self._applied = max(self._applied, time.time() + wait)
                self._shared.close_until(self._applied)
        return wait

    def disconnected(self, number: int) -> None:
        """The connection of a request could not be made, or was lost. No request starts for a while, then one alone."""
        now, outage = _now(), self._outage
        if outage is None:
            outage = self._outage = _Outage(now, self._admitted)
        elif number > outage.last:
            outage.failed, outage.last, outage.probing = outage.failed + 1, self._admitted, False
        else:
            return  # it was in flight when the outage began
        wait = min(OUTAGE_MOST_S, BACKOFF_S * 2 ** min(outage.failed - 1, 10)) * self._rng.uniform(0.5, 1.0)
        self._closed_until = max(self._closed_until, now + wait)

    def failed(self, number: int, status: int, agent: str) -> bool:
        """The service answered a request of `agent` with a status of 500 or more. True if that is an outage: it does so to all
        requests. One agent alone that it fails, after it served others, is the reason itself."""
        before = self._failures if self._failures.status == status else _Failures()
        failures = self._failures = _Failures(status, before.count + 1, before.agents | {agent})
        alone = failures.agents == {agent} and bool(self._served - {agent})
        outage = self._outage is not None or (failures.count >= FAILURES_OF_OUTAGE and not alone)
        if outage:
            self.disconnected(number)
        return outage

    def answered(self, number: int) -> None:
        """The service answered a request: an outage is over. When the request was in flight before, the service dropped
        the others because it is full."""
        self._failures = _Failures()
        outage = self._outage
        if outage is None:
            return
        self._outage = None
        if number > outage.last:
            self._closed_until = _now()
        else:
            self._known, self._rounds = max(1.0, self.in_flight - outage.probing), min(ROUNDS_MOST, 2 * self._rounds)
            self._limit = min(self._limit, self._known)
        self._wake()

    def give_up(self, error: ProviderError) -> None:
        """The outage takes too long: all requests that wait fail with `error`, and later ones are tried at once."""
        self._closed_until = _now()
        waiting, self._waiting = self._waiting, deque()
        for waiter in waiting:
            if not waiter.done():
                waiter.set_exception(ProviderError(error.kind, error.message, hint=error.hint))

    def new_run(self) -> None:
        """A run begins: it waits as long for a connection as the first one did."""
        if self._outage is not None:
            self._outage.since = _now()

    @property
    def _full(self) -> bool:
        return self._outage.probing if self._outage is not None else self.in_flight >= int(self._limit)

    def _admit(self) -> int:
        self.in_flight += 1
        self._admitted += 1
        if self._outage is not None:
            self._outage.probing = True
        return self._admitted

    def _apply_shared(self) -> None:
        """Take over a delay that another process set, with jitter, so that not all resume at once."""
        until = self._shared.closed_until() if self._shared is not None else 0.0
        if until > self._applied:
            self._applied = until
            left = max(0.0, until - time.time())
            self._close(min(RETRY_AFTER_MOST_S, left + self._rng.uniform(0, 0.1 * left + 0.1)))

    def _close(self, wait: float) -> None:
        self._limit = max(1.0, min(self._limit, max(1, self.in_flight)) / 2)
        self._closed_until = max(self._closed_until, _now() + wait)

    def _wake(self) -> None:
        while self._waiting:
            if wait := self.wait_s:  # read once: a second read could be 0, and no timer would be set
                if self._timer is None:
                    self._timer = asyncio.get_running_loop().call_later(wait, self._on_timer)
                return
            if self._full:
                return  # `release` wakes the next one
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(self._admit())

    def _on_timer(self) -> None:
        self._timer = None
        self._wake()


def _now() -> float:
    return asyncio.get_running_loop().time()
