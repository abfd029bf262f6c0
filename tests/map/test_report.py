"""What a batch says of itself while it runs."""

from __future__ import annotations

import time

import pytest

from friday_cli.map.report import progress_cells
from friday_cli.map.scheduler import Progress


@pytest.mark.parametrize(
    ("progress", "shown"),
    [
        (Progress(), {"done": "0 of 3"}),
        (Progress(running=2, tokens=1_200), {"done": "0 of 3", "running": "2", "tokens": "1,200"}),
        (Progress(done=2, failed=1, cost=0.5, tokens=9), {"done": "2 of 3", "failed": "1", "cost": "$0.50"}),
    ],
)
def test_progress_shows_what_is_known(progress: Progress, shown: dict[str, str]) -> None:
    cells = dict(progress_cells(progress, 3))
    cells.pop("rate", None)
    assert cells == shown


def test_time_left_is_said_while_something_is_left() -> None:
    assert "time left" in dict(progress_cells(Progress(done=1, begun=time.monotonic()), 3))
