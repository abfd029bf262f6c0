"""What a batch says of itself while it runs."""

from __future__ import annotations

import pytest

from friday_cli.map.report import progress_cells
from friday_cli.map.scheduler import Progress


@pytest.mark.parametrize(("cost", "tokens", "shown"), [(0.0, 0, "-"), (0.0, 1_200, "1,200 tokens"), (0.5, 9, "$0.50")])
def test_a_cost_that_is_not_known_is_not_shown_as_nothing(cost: float, tokens: int, shown: str) -> None:
    assert dict(progress_cells(Progress(cost=cost, tokens=tokens), 3))["cost"] == shown
