"""The first seed of random scenes: `FRIDAY_FUZZ_SEED`, otherwise a random one. A failing seed is printed."""

from __future__ import annotations

import os
import random

SEED = os.environ.get("FRIDAY_FUZZ_SEED")
TIMES = int(os.environ.get("FRIDAY_FUZZ", "1"))
"""How many times as much is played as in a run of the whole suite: `FRIDAY_FUZZ=10 pytest tests/fuzz`."""


def first() -> int:
    """The first seed of a run."""
    return int(SEED) if SEED else random.SystemRandom().randrange(10**9)
