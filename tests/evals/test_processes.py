"""Whole evals in processes of their own, small; `python -m tests.evals.kills` and `python -m tests.evals.ladder` are the large ones."""

from __future__ import annotations

import pytest

from tests.evals.kills import kill
from tests.evals.ladder import compare


@pytest.mark.slow
def test_what_ended_before_a_kill_is_not_paid_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRIDAY_SANDBOX", "none")
    assert kill(tasks=1, kills=2) == []


@pytest.mark.slow
def test_a_ladder_solves_what_its_dear_model_solves_for_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRIDAY_SANDBOX", "none")
    found = compare(tasks=5)
    assert found.passed == 1
    assert found.cost <= 0.6
