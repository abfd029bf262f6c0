"""Forecasts of delegations: calibration on held-back history, few runs, nothing known."""

from __future__ import annotations

import random
from math import exp, log

import pytest

from friday_cli.core.limits.forecast import PastRun, forecast

HISTORY = 2_000
AMOUNTS = ("tokens", "cost_usd", "active_s")


def history(seed: int) -> list[PastRun]:
    """Delegations to eight profiles on one model, some of them rare: what they use grows with the size of the task, ends at
    a limit, or has two kinds (found at once or not)."""
    chance = random.Random(seed)
    kinds = [
        (f"p{n}", chance.uniform(7, 11), chance.uniform(0.3, 1.1), chance.uniform(0, 0.6), chance.choice((0, 0, 0.3)))
        for n in range(8)
    ]
    runs = []
    for _ in range(HISTORY):
        name, mean, spread, slope, share = kinds[min(int(chance.expovariate(0.5)), 7)]
        size = int(exp(chance.gauss(6, 1))) + 20
        used = mean + slope * (log(size) - 6) + chance.gauss(0, spread) + (1.5 if chance.random() < share else 0)
        tokens = min(int(exp(used)) + 50, 400_000)
        active = tokens / 900 * exp(chance.gauss(0, 0.4))
        runs.append(PastRun(name, size, tokens, tokens * 3e-6 * exp(chance.gauss(0, 0.2)), active))
    return runs


@pytest.mark.parametrize("seed", range(4))
def test_the_shown_p90_holds_for_about_nine_of_ten_runs_that_it_has_not_seen(seed: int) -> None:
    runs = history(seed)
    below = dict.fromkeys(AMOUNTS, 0)
    few, few_below = 0, 0
    tried = range(5, HISTORY)
    for at in tried:
        run, past = runs[at], runs[max(0, at - 400) : at]
        past.reverse()  # the newest first, as the store returns them
        found = forecast(run.profile, "m", past, run.size)
        for name, shown in zip(AMOUNTS, (found.tokens, found.cost_usd, found.time_s), strict=True):
            below[name] += shown is not None and getattr(run, name) <= shown.p90
        if found.runs < 20:
            few += 1
            few_below += found.tokens is not None and run.tokens <= found.tokens.p90
    shares = {name: count / len(tried) for name, count in below.items()}
    assert all(0.78 <= share <= 0.92 for share in shares.values()), shares
    assert few >= 30
    assert few_below / few >= 0.7, (few, few_below)


def test_few_runs_are_shrunk_to_the_model_and_many_are_not() -> None:
    others = [PastRun("other", 100, 100_000, 1.0, 60.0)] * 30
    own = [PastRun("own", 100, 1_000, 0.01, 5.0)]
    middles = [
        found.p50 for count in (0, 1, 5, 40) if (found := forecast("own", "m", own * count + others, 100).tokens)
    ]
    assert middles == sorted(middles, reverse=True)
    assert (round(middles[0]), round(middles[-1])) == (100_000, 1_000)


def test_the_nearest_sizes_count() -> None:
    runs = [PastRun("own", size, size * 10, None, 1.0) for size in (100, 10_000) for _ in range(40)]
    small, large = (forecast("own", "m", runs, size) for size in (120, 9_000))
    assert (small.suggested_tokens, large.suggested_tokens) == (1_000, 100_000)
    assert (small.cost_usd, small.runs) == (None, 80)


def test_what_is_not_known_is_said_and_what_costs_nothing_costs_nothing() -> None:
    nothing = forecast("own", "m", [], 100)
    assert (nothing.tokens, nothing.suggested_tokens) == (None, None)
    assert nothing.line() == "own on m: usual cost unknown (no runs yet)"
    free = forecast("own", "m", [PastRun("own", 100, 1_000, 0.0, 5.0)] * 30, 100)
    assert free.line() == "own on m: usually $0, 5.0 s (30 runs); suggested budget 1.0k tokens"
