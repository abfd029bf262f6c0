"""The tasks of the suite that comes with Friday (`friday eval run sample -m demo`). The demo knows their solutions, and fails now and then
on purpose: less often with more effort."""

from __future__ import annotations

import hashlib
import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from friday_cli.core.protocol.provider import ENVIRONMENT, Effort

from .script import Call, End, Rounds, Script, Step

FOLDER = re.compile(r"/eval/work/([0-9a-f]{16})[0-9a-f]{16}/repository")
"""The folder of a trial, which the system text names: each trial has its own chance, in its first half."""
_SOLVED: dict[Effort | None, float] = {
    "none": 0.35, "minimal": 0.35, "low": 0.45, None: 0.6, "medium": 0.6, "high": 0.85, "xhigh": 0.9, "max": 0.95,
}  # fmt: skip
"""The share of trials that the demo solves, by effort."""
_OF_TASK = 0.6
"""How much of the chance is the task's own: some are hard in each trial."""


def trial_of(system: str) -> str:
    """Which trial a system text is of, "" for none."""
    found = FOLDER.search(system.partition(ENVIRONMENT)[2])
    return found[1] if found else ""


def sample_script(asked: str, trial: str, effort: Effort | None) -> Script | None:
    """The script for a sample task in a trial; None for another request."""
    task = _tasks().get(" ".join(asked.split())) if trial else None
    if task is None:
        return None
    chance = _OF_TASK * _share(asked) + (1 - _OF_TASK) * _share(trial)
    solves = chance < _SOLVED[effort]

    def solve(rounds: Rounds) -> Step | End:
        names = [name for name in task["solution"] if name not in task.get("hidden", ())]
        known = [name for name in names if name in task["start"]]
        if not rounds:
            return Step("I'll read it first.", tuple(Call("read_file", {"path": name}) for name in known))
        if not solves:
            return End("The demo leaves this as it is: it fails now and then on purpose, less often with more effort.")
        if len(rounds) == 1:
            calls = (Call("write_file", {"path": name, "content": task["solution"][name]}) for name in names)
            return Step("Now I'll change it.", tuple(calls))
        return End(f"Changed {', '.join(names)}.")

    return solve


@cache
def _tasks() -> dict[str, dict[str, Any]]:
    found = {}
    for folder in (files("friday_cli") / "evals" / "sample").iterdir():
        if (path := folder / "task.toml").is_file():
            task = tomllib.loads(path.read_text(encoding="utf-8"))
            found[" ".join(task["task"].split())] = task
    return found


def _share(text: str) -> float:
    """A number from 0 to 1 that follows from a text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) / 2**32
