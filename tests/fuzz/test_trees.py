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
SCENES = 500
"""Scenes per part with fixed seeds, and as many with random ones: 5,000, and a fifth of them once more after a death."""
FIXED = 1_000_000
SEED = os.environ.get("FRIDAY_FUZZ_SEED")

LEAST = {
    "agents of depth 3": 30, "reopened": 45, "wrap-ups": 300, "compactions": 20, "attempt_failed": 150, "stopped in a change": 3,
    "two stops at once": 25, "cancelled from outside": 5, "questions withdrawn": 6, "a tool's own cancellation": 25,
    "another run": 100, "steered": 50, "denied": 50, "permission_asked": 25, "question_asked": 20, "stopped: abort": 60,
    "stopped: cancel": 60, "ends: completed, done": 200, "ends: completed, iterations": 50, "ends: cancelled, aborted": 50,
    "ends: cancelled, cancelled": 25, "ends: cancelled, parent": 60, "ends: timeout, time": 30, "ends: failed, tokens": 100,
    "ends: failed, provider": 25, "ends: failed, refusal": 15, "ends: failed, supervision": 8, "ends: interrupted, process": 3,
    "background": 90, "detached": 8, "woken": 40, "told of an end behind it": 60, "continued by a model": 12,
    "continued by a person": 80, "continued twice": 15, "forks": 50, "calls of message_sub_agent": 20,
    "calls of cancel_sub_agent": 10, "verdicts: accept by harness": 6, "verdicts: accept by model": 3,
    "verdicts: redo by model": 9, "verdicts: pause by model": 12, "stopped while continued": 35,
    "stopped with somebody behind it": 4, "worktrees": 100, "worktrees unchanged": 25, "worktrees discarded": 25,
    "worktrees applied": 2,
}  # fmt: skip
"""What a part must reach to prove anything: less than half of what it does on average, so that chance does not fail it."""


def seeds_of(kind: str, part: int) -> range:
    if kind == "fixed":
        start = FIXED + part * SCENES
    else:
        start = int(SEED) + part * SCENES if SEED else random.SystemRandom().randrange(10**9)
    return range(start, start + SCENES)


@pytest.mark.timeout(300)  # some 10 s of work, 20 where chance wants more scenes; more on a busy machine
@pytest.mark.parametrize("part", range(PARTS), ids=lambda part: f"part{part}")
@pytest.mark.parametrize("kind", ["fixed", "random"])
def test_every_invariant_holds_in_every_scene(
    kind: str, part: int, record_property: Callable[[str, object], None]
) -> None:
    seeds = seeds_of(kind, part)
    reached: Counter[str] = Counter()
    # What a random part happens not to draw in its share it gets more scenes for, at most as many again.
    for seed in range(seeds.start, seeds.stop + (len(seeds) if kind == "random" else 0)):
        if seed >= seeds.stop and not _missed(reached):
            break
        try:
            faults, happened = play(seed)
        except BaseException:  # the test has taken too long, or somebody wants its end
            print(f"FRIDAY_FUZZ_SEED={seed}")
            raise
        if faults:
            pytest.fail(f"FRIDAY_FUZZ_SEED={seed}\n" + "\n".join(faults[:10]), pytrace=False)
        reached += happened
        reached["scenes"] += 1
    record_property("fuzz seed", f"{kind} {seeds.start}")
    record_property("fuzz reached", json.dumps(reached))
    missed = _missed(reached)
    assert not missed, f"seeds from {seeds.start}: reached too little (number, least): {missed}"


def _missed(reached: Counter[str]) -> dict[str, tuple[int, int]]:
    """What was reached too little, with how often and the least."""
    return {name: (reached[name], least) for name, least in LEAST.items() if reached[name] < least}
