"""Whether and when a request that failed is tried again.

A refusal for crowding that cost nothing counts only when nobody was served since the one before it: where others are
served first, its turn will come, and no agent fails for having had less luck than its neighbours.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from ..protocol.errors import ProviderError
from ..protocol.messages import Usage
from .rate_limit import RETRY_AFTER_MOST_S, RateLimiter

CROWDED = frozenset(("rate", "overloaded"))
RETRIES = {
    "rate": 5, "overloaded": 5, "server": 5, "truncated": 3, "network": 2, "stall": 1, "garbled": 2, "empty": 1,
}  # fmt: skip
"""How often each kind of failure of one request is tried again."""
WAITS_MOST_S = 300.0
"""How long one request is waited for in all while nobody is served: no wait begins that would lead beyond."""
TURN_MOST_S = 3600.0
"""How long one request comes again while others are served: by then it is not bad luck, but too large for what is left."""

PASSED = 4
"""After so many such refusals it waits as if one more had counted: it must not ask thousands of times."""


class RetryPolicy:
    """What one request has been through already."""

    def __init__(self) -> None:
        self._failures: Counter[str] = Counter()
        self._passed = 0
        self._waited = 0.0
        self._served: object = None
        self._refused_at = 0.0

    @property
    def refused(self) -> bool:
        """Whether there was no room for it: then it goes before those who come for the first time."""
        return self._served is not None

    def next_delay(self, gate: RateLimiter, error: ProviderError) -> float | None:
        """Seconds until the next try, now that it failed with `error`; None when there shall be none."""
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
        """Whether others were served between the refusal before and this one."""
        now, before, self._served = asyncio.get_running_loop().time(), self._served, gate.served
        if before is None:
            self._refused_at = now
            return False
        return before != self._served and now - self._refused_at < TURN_MOST_S
