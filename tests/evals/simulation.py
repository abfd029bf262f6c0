"""`python -m tests.evals.simulation [--evals N]`: simulated evals through the real report, whose words and ranges are compared with what is true.

A task has an ease, drawn for each eval anew; an arm passes each trial of it with that chance, plus what the arm is better by.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from friday_cli.evals import report
from friday_cli.evals.results import EvalResults, TrialRow, eval_results
from friday_cli.evals.statistics import smallest_difference
from friday_cli.evals.trial import TrialRecord, TrialWork
from friday_cli.map.job import MapJob
from friday_cli.map.store import BatchRow

LOW, WIDE = 0.05, 0.65
"""The least ease of a task, and the room above it, which a gain above 0.3 makes smaller: no chance is above 1."""
WORDS = re.compile(r" is (better|worse) than |(cannot tell)|is (as good) as|(too few)")


class Design(NamedTuple):
    """An eval: how many tasks, trials, arms, and tasks of one origin; by how much each later arm is better than the first."""

    name: str
    tasks: int
    trials: int
    gain: float = 0.0
    arms: int = 2
    group: int = 1


class Figures(NamedTuple):
    """What the reports of a design said: the share of evals with a false difference, with a true one, and of ranges that have the
    true value, of rates and of differences."""

    false: float
    found: float
    rates: float
    differences: float
    words: Counter[str]


def wide(gain: float) -> float:
    """The room above the least ease of a task."""
    return min(WIDE, 1 - LOW - gain)


FORECAST = ((6, 3), (8, 3), (12, 1), (12, 3), (12, 5), (30, 1), (30, 3), (80, 3))
"""Sizes of evals whose forecast is tried: tasks and trials."""
DESIGNS = (
    *(Design(f"equal arms, {tasks} tasks, 3 trials", tasks, 3) for tasks in (6, 12, 20, 40)),
    Design("equal arms, 20 tasks, 1 trial", 20, 1),
    Design("equal arms, 30 tasks in 10 groups, 3 trials", 30, 3, group=3),
    Design("three equal arms, 20 tasks, 3 trials", 20, 3, arms=3),
    Design("10 points, 12 tasks, 3 trials", 12, 3, gain=0.1),
    Design("30 points, 12 tasks, 3 trials", 12, 3, gain=0.3),
    Design("30 points, 30 tasks, 3 trials", 30, 3, gain=0.3),
    Design("30 points, 30 tasks, 1 trial", 30, 1, gain=0.3),
    Design("30 points, 5 tasks, 3 trials", 5, 3, gain=0.3),
    *(
        Design(
            f"what is forecast, {tasks} tasks, {trials} trials", tasks, trials, gain=smallest_difference(tasks, trials)
        )
        for tasks, trials in FORECAST
    ),
)


def simulate(design: Design, chance: random.Random) -> EvalResults:
    """One eval with this design."""
    rows = []
    for number in range(design.tasks):
        group = f"g{number // design.group}"
        if number % design.group == 0:
            ease = LOW + wide(design.gain) * chance.random()
        for arm in range(design.arms):
            for trial in range(1, design.trials + 1):
                passed = chance.random() < ease + (design.gain if arm else 0.0)
                record = TrialRecord("passed" if passed else "failed", TrialWork("", 0.01, 1_000, 1.0))
                names = (f"t{number}", f"arm{arm}", trial, group, "")
                rows.append(TrialRow("", *names, state="done", record=record, error="", agent=""))
    options = {"arms": {f"arm{arm}": "" for arm in range(design.arms)}, "trials": design.trials, "seed": 0}
    job = MapJob("", "eval", "eval", "simulated", "", options=options)
    return eval_results(BatchRow("", "", job, "ended", 0, 0, "", "", 0, 0, 0, 0, 0), rows)


def figures(design: Design, evals: int, seed: int = 1) -> Figures:
    """What the reports of so many evals say."""
    chance, words = random.Random(seed), Counter[str]()
    false = found = rates = differences = 0
    true = LOW + wide(design.gain) / 2
    for _ in range(evals):
        results = simulate(design, chance)
        said = [next(filter(None, match.groups())) for line in report.remarks(results) if (match := WORDS.search(line))]
        words.update(said)
        wrong = ("better", "worse") if not design.gain else ("worse",)
        false += any(word in wrong for word in said)
        found += said[0] == "better"
        rate, difference = results.arms[0].rate, results.pairs[0].comparison.difference
        rates += rate.low <= true <= rate.high
        differences += difference.low <= design.gain <= difference.high
    return Figures(false / evals, found / evals, rates / evals, differences / evals, words)


def rows(evals: int) -> Iterator[str]:
    """A row of a table for each design."""
    yield "| design | said to differ, wrongly | found | ranges that have the true rate | the true difference | said |"
    yield "|---|---|---|---|---|---|"
    for design in DESIGNS:
        found = figures(design, evals)
        shares = (f"{100 * share:.1f} %" for share in found[:4])
        false, seen, rates, differences = shares
        seen = seen if design.gain else ""
        said = ", ".join(f"{word} {count:,}" for word, count in found.words.most_common())
        yield f"| {design.name} | {false} | {seen} | {rates} | {differences} | {said} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.evals.simulation", description=__doc__)
    parser.add_argument("--evals", type=int, default=1_000, metavar="N", help="simulated evals of each design (1,000)")
    for row in rows(parser.parse_args().evals):
        print(row, flush=True)


if __name__ == "__main__":
    main()
