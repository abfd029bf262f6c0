"""`python -m tests.evals.ladder [--tasks N]`: an eval of a ladder against its dear model alone, with models that follow a script: the cheap
one solves three of five tasks and says of all that they are done."""

from __future__ import annotations

import argparse
import json
import re
import sys
from typing import Any, NamedTuple

from tests.evals.kills import place
from tests.map.__main__ import Place
from tests.servers.fake_model_server import Say, Turn

PROFILE = """---
name: climber
description: Solves tasks.
models: [anthropic/claude-cheap, anthropic/claude-dear]
check: grep -q 42 answer.txt
allowedTools: [write_file, read_file]
---
Solve the task.
"""
PRICES = """
[providers.anthropic.prices.models."claude-cheap"]
input = 1.0
output = 5.0
[providers.anthropic.prices.models."claude-dear"]
input = 10.0
output = 50.0
"""
ARMS = ("dear=--model anthropic/claude-dear", "ladder=--profile climber")


class Found(NamedTuple):
    """What the ladder passed and cost, as shares of the dear model."""

    passed: float
    cost: float
    arms: list[dict[str, Any]]


def say(turn: Turn) -> Say:
    """The agent's reply: a file, then "done"."""
    number = int(re.findall(r"<<t(\d+)>>", turn.asked_for)[0])
    cheap = turn.body["model"] == "claude-cheap"
    right = number % 5 > 1 if cheap else number % 20 != 19
    if turn.results:
        return Say("It is done.", usage=(2_000, 100, 0))
    text = "42\n" if right else "41\n"
    path = {"path": "answer.txt", "content": text}
    return Say(calls=[("write_file", path)], usage=(2_000, 200, 0))


def compare(tasks: int = 40) -> Found:
    """Run the eval."""
    with place(tasks) as (at, service):
        service.say = say
        _prepare(at)
        arms = [word for arm in ARMS for word in ("--arm", arm)]
        more = ("--trials", "1", "--max-cost", "50", "--trust", "--yes", "--format", "json")
        process = at.begin("eval", "run", "suite.jsonl", *arms, *more)
        out, _ = process.communicate(timeout=3_000)
        begin = re.search(r"^\{", out, re.M)
        assert begin, out
        document, _ = json.JSONDecoder().raw_decode(out, begin.start())
        dear, ladder = document["arms"]
        return Found(ladder["passed"] / dear["passed"], ladder["cost"] / dear["cost"], [dear, ladder])


def _prepare(at: Place) -> None:
    (at.home / "profiles").mkdir()
    (at.home / "profiles" / "climber.md").write_text(PROFILE)
    settings = at.home / "config.toml"
    kept = [line for line in settings.read_text().splitlines() if not line.startswith("prices")]
    settings.write_text("\n".join(kept) + PRICES)
    lines = (at.project / "suite.jsonl").read_text().replace("test -s answer.txt", "grep -q 42 answer.txt")
    (at.project / "suite.jsonl").write_text(lines)


def main() -> int:
    """Run it, and print what was found. The goals: 95 % of the passes for 60 % of the cost."""
    parser = argparse.ArgumentParser(prog="python -m tests.evals.ladder", description=__doc__)
    parser.add_argument("--tasks", type=int, default=40, metavar="N", help="(40)")
    found = compare(parser.parse_args().tasks)
    for arm in found.arms:
        print(f"  {arm['name']}: {arm['passed']} of {arm['trials']} passed, ${arm['cost']:.4f}")
    print(f"  the ladder: {100 * found.passed:.0f} % of the passes for {100 * found.cost:.0f} % of the cost")
    return 0 if found.passed >= 0.95 and found.cost <= 0.6 else 1


if __name__ == "__main__":
    sys.exit(main())
