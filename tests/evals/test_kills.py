"""A killed eval goes on; `python -m tests.evals.kills` does it with 120 trials and ten kills."""

from __future__ import annotations

import pytest

from tests.evals.kills import kill


@pytest.mark.slow
def test_what_ended_before_a_kill_is_not_paid_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRIDAY_SANDBOX", "none")
    assert kill(tasks=1, kills=2) == []
