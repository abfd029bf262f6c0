"""A few of the random kills; many: `python -m tests.frontends.host.random_kills`."""

from __future__ import annotations

import pytest

from tests.frontends.host import random_kills

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_sessions_whose_processes_are_killed() -> None:
    assert random_kills.play(3, 1) == []


def test_a_cap_over_sessions_that_are_killed() -> None:
    assert random_kills.play_cap(6, 1) == []
