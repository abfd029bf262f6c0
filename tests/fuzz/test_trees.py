"""Random sessions on a virtual clock: whatever happens in them, the invariants hold.

A fault names the seed of its scene: `FRIDAY_FUZZ_SEED=<seed> pytest tests/fuzz/test_trees.py -k random` plays
it first.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable

import pytest

from tests.fuzz.conftest import FIXED_PARTS
from tests.fuzz.script_player import play
from tests.fuzz.seeds import first

SCENES, RANDOM = 250, 100
"""Scenes per part with fixed seeds, and with random ones: those look for what nobody has met yet (see `seeds`)."""
PARTS = [("fixed", n) for n in range(FIXED_PARTS)] + [("random", 0)]
PARTS += [("eager", 0)] if sys.version_info >= (3, 12) else []
"""250 scenes and some more, and a fifth of them once more after a death; 5,000 with `FRIDAY_FUZZ=10` (see `seeds`).
Eager: tasks begin when they are made, as in the chat, where Python can do that."""
FIXED = 1_000_000

LEAST = {
    "agents of depth 3": 9, "reopened": 14, "wrap-ups": 150, "compactions": 9, "attempt_failed": 75,
    "stopped in a change": 1, "two stops at once": 12, "cancelled from outside": 2, "questions withdrawn": 3,
    "a tool's own cancellation": 12, "another run": 50, "steered": 22, "denied": 25, "permission_asked": 12,
    "question_asked": 10, "stopped: abort": 30, "stopped: cancel": 29, "ends: completed, done": 100,
    "ends: completed, iterations": 25, "ends: cancelled, aborted": 24, "ends: cancelled, cancelled": 12,
    "ends: cancelled, parent": 25, "ends: timeout, time": 15, "ends: failed, tokens": 50, "ends: failed, provider": 12,
    "ends: failed, refusal": 7, "ends: failed, supervision": 4, "ends: interrupted, process": 1, "background": 38,
    "woken": 11, "told of an end behind it": 30, "continued by a model": 5, "continued by a person": 32,
    "forks": 19, "calls of message_sub_agent": 10, "calls of cancel_sub_agent": 5,
    "verdicts: accept by harness": 3, "verdicts: accept by model": 1, "verdicts: redo by model": 3,
    "verdicts: pause by model": 6, "stopped while continued": 16, "stopped with somebody behind it": 2, "worktrees": 30,
    "worktrees unchanged": 7, "worktrees discarded": 10,
}  # fmt: skip
"""What a part with fixed seeds must reach to prove anything: a third of the least that others did."""


def seeds_of(kind: str, part: int) -> range:
    if kind == "fixed":
        return range(FIXED + part * SCENES, FIXED + (part + 1) * SCENES)
    start = first()
    return range(start, start + RANDOM)


@pytest.mark.parametrize(("kind", "part"), PARTS, ids=lambda value: value if isinstance(value, str) else f"part{value}")
def test_every_invariant_holds(kind: str, part: int, record_property: Callable[[str, object], None]) -> None:
    seeds = seeds_of(kind, part)
    reached: Counter[str] = Counter()
    for seed in seeds:
        try:
            faults, happened = play(seed, eager=kind == "eager")
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
    assert kind != "fixed" or not missed, f"seeds from {seeds.start}: reached too little (number, least): {missed}"
