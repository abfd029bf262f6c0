"""Random trees whose network is away for 1 to 120 seconds at random moments: nothing ends for that, or is paid twice."""

from __future__ import annotations

import pytest

from friday_cli.core.agent import model_call
from friday_cli.core.limits import rate_limit, retry
from tests.fuzz.outages import play
from tests.fuzz.shares import check_trees
from tests.fuzz.test_mutants import Seed, changed

TREES = 100
LEAST = {"refused": 500, "cut": 100, "agents": 300}
"""What the trees must reach to prove anything."""


def test_nothing_ends_that_the_network_did_not_outlive_and_only_cut_replies_are_paid_twice() -> None:
    check_trees(play, TREES, LEAST)


MUTANTS: dict[str, Seed] = {
    "every agent looks for the network by itself": changed(
        rate_limit.RateLimiter, "_admit", "self._outage.probing = True", "pass"),
    "the clock runs while the network is away": changed(
        model_call, "_admitted", 'async with agent.slot.waiting("waiting_rate", f"{offline}{gate.wait_s:.1f}"):', "if True:"),
    "an outage counts as tries": changed(
        retry.RetryPolicy, "_until_connected", "self._dropped += self._passed_over(gate)", "self._dropped += 7"),
    "the outage is over for the one who found out": changed(
        rate_limit.RateLimiter, "answered", "self._closed_until = _now()", "self._closed_until += 1000"),
    "a whole reply is asked for again": changed(
        model_call, "_stream", "if isinstance(chunk, ReplyDone):",
        "if isinstance(chunk, ReplyDone) and (agent.turn, reader._attempt) != (2, 1):"),
    "a reply that was cut is free": changed(
        model_call, "_stream", "error.usage = reader.usage", "reader.usage = Usage()"),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_the_trees_find_a_seeded_fault(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    assert any(play(seed)[0] for seed in range(TREES)), f"{TREES} trees, and no fault is found: {name}"
