"""Thousands of random sessions on a virtual clock: whatever happens in them, the invariants hold.

A fault names the seed of its scene: `FRIDAY_FUZZ_SEED=<seed> pytest tests/fuzz/test_trees.py -k random` plays
it first.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

import pytest

from tests.fuzz.script_player import play
from tests.fuzz.seeds import first

SCENES, RANDOM = 500, 100
"""Scenes per part with fixed seeds, and with random ones: those look for what nobody has met yet (see `seeds`)."""
PARTS = [("fixed", n) for n in range(10)] + [("random", 0)]
"""5,000 scenes and some more, and a fifth of them once more after a death."""
FIXED = 1_000_000

LEAST = {
    "agents of depth 3": 18, "reopened": 28, "wrap-ups": 300, "compactions": 18, "attempt_failed": 150,
    "stopped in a change": 3, "two stops at once": 25, "cancelled from outside": 5, "questions withdrawn": 6,
    "a tool's own cancellation": 25, "another run": 100, "steered": 45, "denied": 50, "permission_asked": 25,
    "question_asked": 20, "stopped: abort": 60, "stopped: cancel": 59, "ends: completed, done": 200,
    "ends: completed, iterations": 50, "ends: cancelled, aborted": 49, "ends: cancelled, cancelled": 25,
    "ends: cancelled, parent": 51, "ends: timeout, time": 30, "ends: failed, tokens": 100, "ends: failed, provider": 25,
    "ends: failed, refusal": 15, "ends: failed, supervision": 8, "ends: interrupted, process": 3, "background": 76,
    "detached": 5, "woken": 23, "told of an end behind it": 60, "continued by a model": 10, "continued by a person": 64,
    "continued twice": 15, "forks": 39, "calls of message_sub_agent": 20, "calls of cancel_sub_agent": 10,
    "verdicts: accept by harness": 6, "verdicts: accept by model": 3, "verdicts: redo by model": 7,
    "verdicts: pause by model": 12, "stopped while continued": 32, "stopped with somebody behind it": 4, "worktrees": 61,
    "worktrees unchanged": 14, "worktrees discarded": 21, "worktrees applied": 1,
}  # fmt: skip
"""What a part with fixed seeds must reach to prove anything: a third of the least that 16 others did."""


def seeds_of(kind: str, part: int) -> range:
    if kind == "fixed":
        return range(FIXED + part * SCENES, FIXED + (part + 1) * SCENES)
    start = first()
    return range(start, start + RANDOM)


@pytest.mark.parametrize(("kind", "part"), PARTS, ids=lambda value: value if isinstance(value, str) else f"part{value}")
def test_every_invariant_holds_in_every_scene(
    kind: str, part: int, record_property: Callable[[str, object], None]
) -> None:
    seeds = seeds_of(kind, part)
    reached: Counter[str] = Counter()
    for seed in seeds:
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
    missed = {name: (reached[name], least) for name, least in LEAST.items() if reached[name] < least}
    assert kind == "random" or not missed, f"seeds from {seeds.start}: reached too little (number, least): {missed}"
