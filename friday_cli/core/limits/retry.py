"""Whether and when a failed request is retried. A refusal because of load that cost nothing counts as a failure only
when no other request succeeded since the refusal before. Otherwise the request will get its turn, and no agent fails
because others were served first. A request without a connection waits until there is one."""

from __future__ import annotations

import asyncio
from collections import Counter

from ..protocol.errors import ProviderError
from .rate_limit import RETRY_AFTER_MOST_S, RateLimiter

CROWDED = frozenset(("rate", "overloaded"))
GATED = CROWDED | {"network"}
"""Failures after which all requests wait in the rate limiter."""
UNWELL = frozenset(("server", "overloaded"))
"""Failures that are an outage when the service answers all requests with them."""
RETRIES = {
    "rate": 5, "overloaded": 5, "server": 5, "truncated": 3, "network": 5, "stall": 1, "garbled": 2, "empty": 1,
    "bad_call": 1,
}  # fmt: skip
"""Retries of one request for each kind of failure; for `network` those of replies that were cut."""
OFFLINE_S = 300.0
"""Seconds that a request waits for a connection by default, counted from the first failure of any request."""
DROPS = 20
"""Lost connections of one request, without a reply, while other requests succeed."""
FALLBACK_AFTER_S = 15.0
"""Seconds without a connection after which a configured fallback model is asked instead."""
WAITS_MOST_S = 300.0
"""Longest total wait for one request, in seconds, while no request succeeds."""
PATIENT_MOST_S = 86_400.0
"""Longest wait that a service may ask a patient request for, in seconds."""
TURN_MOST_S = 3600.0
"""Seconds during which refusals do not count as failures while other requests succeed."""

PASSED = 4
"""Uncounted refusals after which the back-off is still lengthened by one step."""


class RetryPolicy:
    """The failures of one request so far. `patient`: it waits as long as the service asks for, a day at most."""

    def __init__(self, *, patient: bool = False) -> None:
        self._patient = patient
        self._failures: Counter[str] = Counter()
        self._passed = self._dropped = 0
        self._waited = 0.0
        self._served: object = None
        self._crowded = False
        self._refused_at = 0.0
        self._errors = 0
        self._served_before: object = None

    @property
    def refused(self) -> bool:
        """Whether it was refused because of load: then it goes to the front of the queue. One without a connection does
        not: others find the network even if this request itself is the reason."""
        return self._crowded

    def _is_its_own(self, limiter: RateLimiter) -> bool:
        """Whether a service that counts as not reachable fails because of this request: others were answered between its failures."""
        self._errors += 1
        if self._errors == 1:
            self._served_before = limiter.served
        return self._errors > RETRIES["server"] and self._served_before != limiter.served

    def after(
        self, limiter: RateLimiter, error: ProviderError, offline_s: float, *, paid: bool
    ) -> tuple[ProviderError, float | None]:
        """The failure as it is reported, and the seconds until the next try; None for no retry. `offline_s`: the longest
        time without a connection. `paid`: the request cost tokens."""
        if error.status >= 500 and self._is_its_own(limiter):
            return (error.but(kind="server") if error.kind == "network" else error), None
        if error.kind == "network":
            return error, self._until_connected(limiter, error, offline_s, paid=paid)
        kind, crowded = error.kind, error.kind in CROWDED
        self._crowded = self._crowded or crowded
        if crowded and self._passed_over(limiter) and not paid:
            self._passed += 1
            self._waited = 0.0
        else:
            self._failures[kind] += 1
        tries, asked = max(1, self._failures[kind]), error.retry_after or 0.0
        if tries > RETRIES.get(kind, 0):
            return error, None
        long_wait = asked > RETRY_AFTER_MOST_S or self._waited + asked >= WAITS_MOST_S
        if long_wait and not (self._patient and 0 < asked <= PATIENT_MOST_S):
            hint = f"It asks you to wait for {_duration_text(asked)}." if asked and not error.hint else ""
            return (error.but(hint=hint) if hint else error), None
        often = tries + self._passed // PASSED
        wait = limiter.back_off(often, retry_after=error.retry_after, crowded=crowded)
        self._waited += wait
        return error, wait

    def _until_connected(
        self, limiter: RateLimiter, error: ProviderError, offline_s: float, *, paid: bool
    ) -> float | None:
        self._failures["network"] += paid
        self._dropped += self._passed_over(limiter)
        if self._failures["network"] > RETRIES["network"] or self._dropped > DROPS:
            return None
        wait = limiter.wait_s
        if (limiter.outage_s or 0.0) + wait > offline_s:
            limiter.give_up(error)
            return None
        return wait

    def _passed_over(self, limiter: RateLimiter) -> bool:
        """Whether other requests succeeded between the last refusal and this one."""
        now, before, self._served = asyncio.get_running_loop().time(), self._served, limiter.served
        if before is None:
            self._refused_at = now
            return False
        return before != self._served and now - self._refused_at < TURN_MOST_S


def _duration_text(seconds: float) -> str:
    for least, unit, name in ((172_800, 86_400, "days"), (7200, 3600, "hours"), (120, 60, "minutes")):
        if seconds >= least:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"
