"""Whether and when a failed request is retried. A refusal because of load that cost nothing counts as a failure only
when no other request succeeded since the refusal before. Otherwise the request will get its turn, and no agent fails
because others were served first."""

from __future__ import annotations

import asyncio
from collections import Counter

from ..protocol.errors import ProviderError
from ..protocol.messages import Usage
from .rate_limit import RETRY_AFTER_MOST_S, RateLimiter

CROWDED = frozenset(("rate", "overloaded"))
RETRIES = {
    "rate": 5, "overloaded": 5, "server": 5, "truncated": 3, "network": 2, "stall": 1, "garbled": 2, "empty": 1,
    "bad_call": 1,
}  # fmt: skip
"""Retries of one request for each kind of failure."""
WAITS_MOST_S = 300.0
"""Longest total wait for one request, in seconds, while no request succeeds."""
TURN_MOST_S = 3600.0
"""Seconds during which refusals do not count as failures while other requests succeed."""

PASSED = 4
"""Refusals that did not count, after which the back-off is lengthened by one step all the same."""


class RetryPolicy:
    """The failures of one request so far."""

    def __init__(self) -> None:
        self._failures: Counter[str] = Counter()
        self._passed = 0
        self._waited = 0.0
        self._served: object = None
        self._refused_at = 0.0

    @property
    def refused(self) -> bool:
        """Whether it was refused because of load: then it goes to the front of the queue."""
        return self._served is not None

    def next_delay(self, gate: RateLimiter, error: ProviderError) -> float | None:
        """Seconds until the next try after `error`; None for no retry."""
        kind, crowded = error.kind, error.kind in CROWDED
        free = not (isinstance(error.usage, Usage) and error.usage.billed)
        if crowded and self._passed_over(gate) and free:
            self._passed += 1
            self._waited = 0.0
        else:
            self._failures[kind] += 1
        tries, asked = max(1, self._failures[kind]), error.retry_after or 0.0
        if tries > RETRIES.get(kind, 0) or asked > RETRY_AFTER_MOST_S or self._waited + asked >= WAITS_MOST_S:
            return None
        often = tries + self._passed // PASSED
        wait = gate.back_off(often, retry_after=error.retry_after, crowded=crowded)
        self._waited += wait
        return wait

    def _passed_over(self, gate: RateLimiter) -> bool:
        """Whether other requests succeeded between the last refusal and this one."""
        now, before, self._served = asyncio.get_running_loop().time(), self._served, gate.served
        if before is None:
            self._refused_at = now
            return False
        return before != self._served and now - self._refused_at < TURN_MOST_S
