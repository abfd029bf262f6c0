"""Random trees share budgets that hold too little for all their agents at once, or at all."""

from __future__ import annotations

import pytest

from tests.fuzz.mutation import Seed, changed
from tests.fuzz.seeds import TIMES
from tests.fuzz.shares import check_trees, play

TREES = 200 * TIMES
LEAST = {"waited for tokens": 200, "completed, done": 400, "completed, tokens": 40, "all fits": 20}
"""What the trees must reach to prove anything."""


def test_agents_share_a_budget_without_cut_replies_timeouts_and_deadlocks() -> None:
    check_trees(play, TREES, LEAST)


MUTANTS: dict[str, Seed] = {
    "the clock runs while an agent waits for tokens": changed(
        "_Attempt._send_reserved",
        "agent.budget.reserve(ANY, ANY_1, price=ANY_2, waiting=agent.slot.waiting)",
        "agent.budget.reserve(ANY, ANY_1, price=ANY_2, waiting=lambda *_: __import__('contextlib').nullcontext())",
    ),
    "a request is sent with less than a usual reply": changed(
        "_Queue._short", "claim.least if budget.holdback_open else claim.usual", "claim.least"
    ),
    "a reply may have no more than is reserved": changed(
        "Budget._most", "min(ANY for ANY_1 in self.levels)", "reservation.amounts.of(what)"
    ),
    "a reply may have half of what is left": changed(
        "Budget._most", "min(ANY for ANY_1 in self.levels)", "min(ANY for ANY_1 in self.levels) / 2"
    ),
    "agents wait for each other's reserve": changed(
        "_Queue.may_come_free", "all(ANY in waiting for ANY in others)", "not others"
    ),
    "a reservation is not returned": changed("Budget.settle", "self.hold(reservation, -1)", "None"),
    "a reservation is not made": changed("_Queue._reserve", "budget.hold(reservation, 1)", "None"),
    "the wrap-up comes while tokens are reserved": changed("_Queue._short", "held > DUST", "False"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_trees_find_a_seeded_fault(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    assert any(play(seed)[0] for seed in range(TREES)), f"{TREES} trees, and no fault is found: {name}"
