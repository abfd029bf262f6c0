"""What the report of an eval says of numbers. The expected values are those of scipy 1.17 (`stats.t.ppf`, `binomtest`,
`permutation_test`, `proportion_confint` of statsmodels 0.14 for Wilson's)."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from friday_cli.evals import statistics
from friday_cli.evals.results import PairResult
from friday_cli.evals.statistics import (
    Comparison,
    Interval,
    Outcomes,
    clustered,
    compare,
    holm,
    pass_k,
    rate,
    ratio,
    word,
)


def outcomes(rows: list[list[float]], group: list[str] | None = None) -> Outcomes:
    names = [f"t{number}" for number in range(len(rows))]
    return Outcomes(dict(zip(names, rows, strict=True)), dict(zip(names, group or names, strict=True)))


def alone(values: list[float]) -> Interval:
    names = {f"t{number}": value for number, value in enumerate(values)}
    return clustered(names, {name: name for name in names})


@pytest.mark.parametrize(
    ("freedom", "value"), [(1, 12.706204736), (2, 4.30265273), (5, 2.570581836), (11, 2.20098516), (39, 2.022690920)]
)
def test_the_t_interval_is_that_of_the_textbook(freedom: int, value: float) -> None:
    count = freedom + 1
    values = [float(number % 2) + number / 100 for number in range(count)]
    mean = sum(values) / count
    error = (sum((each - mean) ** 2 for each in values) / freedom / count) ** 0.5
    assert alone(values).high - mean == pytest.approx(value * error, rel=1e-7)


def test_single_trials_have_wilsons_interval_and_the_rule_of_three() -> None:
    found = rate(outcomes([[1.0]] * 7 + [[0.0]] * 3))
    assert (found.low, found.high) == (pytest.approx(0.396778, abs=1e-6), pytest.approx(0.892209, abs=1e-6))
    assert rate(outcomes([[1.0]] * 10)) == Interval(1.0, 0.7, 1.0)
    assert rate(outcomes([[0.0]] * 30)) == Interval(0.0, 0.0, 0.1)


def test_tasks_of_one_origin_count_as_one() -> None:
    rows = [[1.0, 1.0]] * 4 + [[0.0, 0.0]] * 4
    apart, together = rate(outcomes(rows)), rate(outcomes(rows, list("aabbccdd")))
    assert together.high - together.low > 1.1 * (apart.high - apart.low)


def test_pairs_of_single_trials_are_compared_exactly() -> None:
    first, second = outcomes([[0.0]] * 9 + [[1.0]]), outcomes([[1.0]] * 9 + [[0.0]])
    assert compare(first, second).p == pytest.approx(0.021484375)


def test_sign_flips_are_exact_for_few_tasks() -> None:
    gains = [0.5, 0.5, 1.0, 0.5, -0.5, 1.0, 0.5]
    first = outcomes([[0.0, 0.0] if gain > 0 else [0.5, 0.5] for gain in gains])
    second = outcomes([[gain, gain] if gain > 0 else [0.0, 0.0] for gain in gains])
    assert compare(first, second).p == pytest.approx(12 / 128)


def test_many_tasks_are_counted_as_well_as_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """21 of 30 tasks gain and 9 lose, each as much: the binomial test (scipy: 0.0427739)."""
    gains = [0.5] * 21 + [-0.5] * 9
    first = outcomes([[0.0, 0.0] if gain > 0 else [0.5, 0.5] for gain in gains])
    second = outcomes([[gain, gain] if gain > 0 else [0.0, 0.0] for gain in gains])
    assert compare(first, second).p == pytest.approx(0.0427739, abs=1e-6)
    monkeypatch.setattr(statistics, "EXACT", 10)
    assert compare(first, second).p == pytest.approx(0.0428, abs=0.004)


def test_words() -> None:
    assert word(Interval(0.2, 0.1, 0.3), 0.01, 12) == "better"
    assert word(Interval(-0.2, -0.3, -0.1), 0.01, 12) == "worse"
    assert word(Interval(0.2, 0.1, 0.3), 0.06, 12) == "cannot tell"
    assert word(Interval(0.0, -0.04, 0.05), 0.9, 90) == "as good"
    assert word(Interval(1.0, 0.9, 1.0), 0.0, 5) == "too few tasks"


def test_equal_results_of_a_few_tasks_prove_nothing() -> None:
    same = outcomes([[1.0, 1.0]] * 12)
    assert compare(same, same).word == "cannot tell"
    assert compare(outcomes([[1.0]] * 70), outcomes([[1.0]] * 70)).word == "as good"


def test_several_comparisons_are_corrected() -> None:
    rows = [Comparison(Interval(0.3, 0.1, 0.5), p, 12, "better") for p in (0.04, 0.01, 0.03)]
    assert [(row.p, row.word) for row in holm(rows)] == [
        (pytest.approx(0.06), "cannot tell"),
        (pytest.approx(0.03), "better"),
        (pytest.approx(0.06), "cannot tell"),
    ]


def test_the_chance_that_all_trials_pass() -> None:
    assert pass_k(outcomes([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]), 2) == pytest.approx((1 / 3 + 1) / 2)


def test_how_many_times_as_much() -> None:
    found = ratio({"a": 1.0, "b": 1.0}, {"a": 2.0, "b": 3.0})
    assert found is not None
    assert (found.value, found.low, found.high) == (2.5, 2.0, 3.0)
    assert ratio({"a": 0.0}, {"a": 1.0}) is None


def test_equal_arms_are_seldom_called_different() -> None:
    chance, wrong = random.Random(1), 0
    for _ in range(300):
        ease = [chance.random() for _ in range(14)]
        draw = [outcomes([[float(chance.random() < p) for _ in range(3)] for p in ease]) for _ in range(2)]
        wrong += compare(*draw).word in ("better", "worse")
    assert wrong <= 0.08 * 300


def test_a_larger_eval_sees_smaller_differences() -> None:
    seen = [statistics.smallest_difference(tasks, 5) for tasks in (6, 12, 40, 200)]
    assert seen == sorted(seen, reverse=True)
    assert (round(seen[1], 2), round(seen[2], 2)) == (0.29, 0.14)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=4), min_size=1, max_size=12))
def test_an_interval_contains_its_estimate_and_stays_in_range(rows: list[list[float]]) -> None:
    found = rate(outcomes(rows))
    assert 0 <= found.low <= found.value + 1e-9
    assert found.value - 1e-9 <= found.high <= 1


def test_a_range_beside_cannot_tell_has_its_reason() -> None:
    pair = PairResult("a", "b", Comparison(Interval(-0.19, -0.36, -0.03), 0.0625, 12, "cannot tell"), None)
    assert pair.text == (
        "b against a: cannot tell: -19 points (95 %: -36 to -3); chance alone makes as much in 6 of 100 evals"
    )
