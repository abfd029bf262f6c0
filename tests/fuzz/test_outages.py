"""Random trees whose network is away for 1 to 120 seconds at random moments: nothing ends for that, or is paid twice."""

from __future__ import annotations

import pytest

from tests.fuzz.mutation import Seed, changed
from tests.fuzz.outages import play
from tests.fuzz.shares import check_trees

TREES = 100
LEAST = {"refused": 500, "cut": 100, "agents": 300}
"""What the trees must reach to prove anything."""


def test_nothing_ends_that_the_network_did_not_outlive_and_only_cut_replies_are_paid_twice() -> None:
    check_trees(play, TREES, LEAST)


MUTANTS: dict[str, Seed] = {
    "every agent looks for the network by itself": changed("RateLimiter._admit", "self._outage.probing = True", "pass"),
    "the clock runs while the network is away": changed(
        "_Attempt._rate_limit_slot",
        "ANY.slot.waiting(ANY_1, ANY_2, wait_s=ANY_3)",
        "__import__('contextlib').nullcontext()",
    ),
    "an outage counts as tries": changed(
        "RetryPolicy._until_connected", "self._dropped += self._passed_over(limiter)", "self._dropped += 7"
    ),
    "the outage is over for the one who found out": changed(
        "RateLimiter.answered", "self._closed_until = _now()", "self._closed_until += 1000"
    ),
    "a whole reply is asked for again": changed(
        "_Attempt._read_stream",
        "isinstance(chunk, ReplyDone)",
        "isinstance(chunk, ReplyDone) and (agent.turn, reply._attempt) != (2, 1)",
    ),
    "a reply that was cut is free": changed(
        "_Attempt._read_stream", "self._usage_so_far() if error.usage is None else ANY", "Usage()"
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_trees_find_a_seeded_fault(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    assert any(play(seed)[0] for seed in range(TREES)), f"{TREES} trees, and no fault is found: {name}"
