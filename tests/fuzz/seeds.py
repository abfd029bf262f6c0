"""Where random scenes begin: at `FRIDAY_FUZZ_SEED`, on CI at the same one each time, elsewhere where nobody has been yet."""

from __future__ import annotations

import os
import random

SEED = os.environ.get("FRIDAY_FUZZ_SEED")
ON_CI = 2_000_000
"""A change is not refused for what an earlier one did; whoever runs the tests at home finds that."""


def first() -> int:
    """The first seed of a run."""
    if SEED:
        return int(SEED)
    return ON_CI if os.environ.get("CI") else random.SystemRandom().randrange(10**9)
