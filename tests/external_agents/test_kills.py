"""Friday, its program or a command is killed in a run of an external agent; `random_kills` plays more."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.external_agents.random_kills import World, play


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(3))
def test_no_process_and_no_event_is_lost_and_the_agent_goes_on(tmp_path: Path, seed: int) -> None:
    assert play(World(tmp_path, FRIDAY_SANDBOX="none"), seed, Counter()) == []
