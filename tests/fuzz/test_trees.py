"""Thousands of random sessions on a virtual clock: whatever happens in them, the invariants hold.

A fault names the seed of its scene: `FRIDAY_FUZZ_SEED=<seed> pytest tests/fuzz/test_trees.py -k "random and part0"` plays
it first.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable

import pytest

from .play import play

PARTS = 5
SCENES = 220
"""Scenes per part with fixed seeds, and as many with random ones."""
FIXED = 1_000_000
SEED = os.environ.get("FRIDAY_FUZZ_SEED")

LEAST = {
    "agents of depth 3": 5, "reopened": 300, "wrap-ups": 150, "compactions": 1, "attempt_failed": 50, "stopped in a change": 1,
    "two stops at once": 8, "cancelled from outside": 12, "questions withdrawn": 4, "a tool's own cancellation": 12,
    "another run": 60, "steered": 12, "denied": 40, "permission_asked": 12, "question_asked": 12, "stopped: abort": 25,
    "stopped: cancel": 20, "ends: completed, done": 150, "ends: completed, iterations": 25, "ends: cancelled, aborted": 40,
    "ends: cancelled, cancelled": 10, "ends: cancelled, parent": 20, "ends: timeout, time": 15, "ends: failed, tokens": 60,
    "ends: failed, provider": 8, "ends: failed, refusal": 3,
}  # fmt: skip
"""What a part must reach to prove anything: less than half of what it does on average, so that chance does not fail it."""


def seeds_of(kind: str, part: int) -> range:
    if kind == "fixed":
        start = FIXED + part * SCENES
    else:
        start = int(SEED) + part * SCENES if SEED else random.SystemRandom().randrange(10**9)
    return range(start, start + SCENES)


@pytest.mark.parametrize("part", range(PARTS), ids=lambda part: f"part{part}")
@pytest.mark.parametrize("kind", ["fixed", "random"])
def test_every_invariant_holds_in_every_scene(
    kind: str, part: int, record_property: Callable[[str, object], None]
) -> None:
    seeds = seeds_of(kind, part)
    reached: Counter[str] = Counter(scenes=len(seeds))
    for seed in seeds:
        faults, happened = play(seed)
        if faults:
            pytest.fail(f"FRIDAY_FUZZ_SEED={seed}\n" + "\n".join(faults[:10]))
        reached += happened
    record_property("fuzz seed", f"{kind} {seeds.start}")
    record_property("fuzz reached", json.dumps(reached))
    missed = {name: (reached[name], least) for name, least in LEAST.items() if reached[name] < least}
    assert not missed, f"seeds from {seeds.start}: reached too little (number, least): {missed}"
