"""Reports of simulated evals say what is true; `python -m tests.evals.simulation` does it with 1,000 of each design."""

from __future__ import annotations

import pytest

from friday_cli.evals.statistics import smallest_difference
from tests.evals.simulation import Design, figures


@pytest.mark.parametrize(
    "design",
    [Design("", 12, 3), Design("", 20, 1), Design("", 30, 3, group=3), Design("", 12, 3, arms=3)],
    ids=["trials", "one trial", "groups", "three arms"],
)
def test_equal_arms_are_seldom_called_different_and_ranges_hold(design: Design) -> None:
    found = figures(design, 150)
    assert found.false <= 0.08
    assert found.rates >= 0.9
    assert found.differences >= 0.9


def test_a_large_difference_is_found_and_a_small_one_cannot_be_told() -> None:
    assert figures(Design("", 30, 3, gain=0.3), 60).found >= 0.9
    small = figures(Design("", 12, 3, gain=0.1), 60)
    assert small.words["cannot tell"] >= 0.6 * 60
    assert figures(Design("", 5, 3, gain=0.3), 20).words == {"too few": 20}


@pytest.mark.parametrize(("tasks", "trials"), [(12, 1), (12, 3), (30, 3)])
def test_the_difference_that_is_forecast_is_found_four_times_of_five(tasks: int, trials: int) -> None:
    assert 0.7 <= figures(Design("", tasks, trials, gain=smallest_difference(tasks, trials)), 150).found <= 0.9
