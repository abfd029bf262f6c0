"""The results of an eval: its trials as rows, and what they say of each arm and each pair of arms."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import msgspec

from friday_cli.core.protocol.format import pluralize
from friday_cli.map.report import places
from friday_cli.map.store import BatchRow, MapStore

from . import statistics
from .arm import run_again
from .options import EvalOptions
from .statistics import Comparison, Interval, Outcomes
from .trial import TrialRecord


class TrialRow(msgspec.Struct, frozen=True):
    """A trial as the store has it. `record` is None while it has no verdict; `error` says why then. `work` is the hash of what
    decides its agent's work."""

    key: str
    task: str
    arm: str
    trial: int
    group: str
    work: str
    state: str
    record: TrialRecord | None
    error: str
    agent: str

    @property
    def label(self) -> str:
        """For people: `slug, three, trial 2`."""
        return f"{self.task}, {self.arm}, trial {self.trial}"

    @property
    def why(self) -> str:
        """Why it did not pass."""
        return self.error if self.record is None else self.record.why

    @property
    def outcome(self) -> str:
        """passed, failed, capped, error, or "not run"."""
        if self.record is not None:
            return self.record.outcome
        return "error" if self.error else "not run"


class ArmResult(msgspec.Struct, frozen=True):
    """The results of one arm. `trials` are those with a verdict, `errors` those that ended for no fault of the agent. `pass_k`: the chance that
    `k` trials of a task all pass. Cost in US dollars, tokens and active seconds are those of the trials with a verdict. `unsteady`: tasks
    whose trials ended differently."""

    name: str
    flags: str
    rate: Interval
    passed: int
    capped: int
    trials: int
    errors: int
    k: int
    pass_k: float
    cost: float
    tokens: int
    seconds: float
    denied: int
    warnings: int
    unsteady: dict[str, str]
    by_task: dict[str, tuple[int, int]]
    """Passed trials and trials of each task."""
    groups: dict[str, str]
    costs: dict[str, float]

    @property
    def outcomes(self) -> Outcomes:
        """Its results by task."""
        return Outcomes.of(self.by_task, self.groups)

    @property
    def cost_per_pass(self) -> float | None:
        """All its money for each passed trial; None without one."""
        return self.cost / self.passed if self.passed else None


class PairResult(msgspec.Struct, frozen=True):
    """The arm `second` against the arm `first`. `cost`: how many times as much money it used, None if that is not known."""

    first: str
    second: str
    comparison: Comparison
    cost: Interval | None
    same: bool = False
    """Whether both have the same settings, so that only chance makes a difference."""

    @property
    def text(self) -> str:
        """For people: `three is better than alone: +18 points (95 %: +6 to +31) for 2.4x the money`."""
        found, points = self.comparison, _points(self.comparison.difference)
        if self.same and found.word != "too few tasks":
            seen = found.word in ("better", "worse")
            more = ", so more trials or tasks are needed before a difference counts" if seen else ""
            return f"{self.second} has the settings of {self.first}: chance alone made {points}{more}"
        money = f" for {self.cost.value:.1f}x the money" if self.cost is not None else ""
        match found.word:
            case "too few tasks":
                few = pluralize(found.clusters, "independent task")
                return f"{self.second} against {self.first}: {few}, too few to compare (at least {statistics.FEWEST})"
            case "cannot tell":
                seen = found.difference.low > 0 or found.difference.high < 0
                often = f"; chance alone makes as much in {100 * found.p:.0f} of 100 evals" if seen else ""
                return f"{self.second} against {self.first}: cannot tell: {points}{money}{often}"
            case "as good":
                return f"{self.second} is as good as {self.first} within 5 points: {points}{money}"
        return f"{self.second} is {found.word} than {self.first}: {points}{money}"


class EvalResults(msgspec.Struct, frozen=True):
    """All that is known of an eval. `spent`: US dollars of all tries, `cap` what may be spent (None: a free model)."""

    id: str
    suite: str
    tasks: int
    trials: int
    spent: float
    cap: float | None
    reason: str
    arms: tuple[ArmResult, ...]
    pairs: tuple[PairResult, ...]
    rows: tuple[TrialRow, ...]


def eval_results(batch: BatchRow, rows: Sequence[TrialRow]) -> EvalResults:
    """What the trials of an eval say."""
    job = batch.job
    options = EvalOptions.of(job)
    names, seed = options.arms, options.seed
    arms = tuple(_arm(name, flags, [row for row in rows if row.arm == name]) for name, flags in names.items())
    again = {name: first for name in names if (first := run_again(names, name))}
    pairs = list(combinations((arm for arm in arms if arm.name not in again), 2))
    twins = [(a, b) for a, b in combinations(arms, 2) if again.get(b.name) == a.name]
    compared = [statistics.compare(a.outcomes, b.outcomes, seed=seed) for a, b in (*pairs, *twins)]
    compared[: len(pairs)] = statistics.holm(compared[: len(pairs)])
    pairs += twins
    ratios = [statistics.ratio(a.costs, b.costs, seed=seed) for a, b in pairs]
    found = zip(pairs, compared, ratios, strict=True)
    return EvalResults(
        id=batch.id,
        suite=job.items,
        tasks=len({row.task for row in rows}),
        trials=options.trials,
        spent=batch.spent,
        cap=job.cost,
        reason=batch.reason,
        arms=arms,
        pairs=tuple(
            PairResult(a.name, b.name, comparison, cost, same=b.name in again) for (a, b), comparison, cost in found
        ),
        rows=tuple(rows),
    )


def _arm(name: str, flags: str, rows: Sequence[TrialRow]) -> ArmResult:
    done = [(row, row.record) for row in rows if row.record is not None]
    by_task: dict[str, tuple[int, int]] = {}
    costs: dict[str, float] = {}
    for row, record in done:
        good, of = by_task.get(row.task, (0, 0))
        by_task[row.task] = good + (record.outcome == "passed"), of + 1
        costs[row.task] = costs.get(row.task, 0.0) + record.work.cost
    outcomes = Outcomes.of(by_task, {row.task: row.group for row in rows})
    k = min((of for _, of in by_task.values()), default=0)
    works = [record.work for _, record in done]
    return ArmResult(
        name=name,
        flags=flags,
        rate=statistics.rate(outcomes),
        passed=sum(good for good, _ in by_task.values()),
        capped=sum(record.outcome == "capped" for _, record in done),
        trials=len(done),
        errors=sum(row.outcome == "error" for row in rows),
        k=k,
        pass_k=statistics.pass_k(outcomes, k) if k else 0.0,
        cost=sum(work.cost for work in works),
        tokens=sum(work.tokens for work in works),
        seconds=sum(work.seconds for work in works),
        denied=sum(work.denied for work in works),
        warnings=sum(work.warnings for work in works),
        unsteady={task: f"{good} of {of}" for task, (good, of) in by_task.items() if 0 < good < of},
        by_task=by_task,
        groups=dict(outcomes.group),
        costs=costs,
    )


async def trial_rows(store: MapStore, batch: str) -> list[TrialRow]:
    """The trials of an eval in the order in which they are run."""
    found = []
    async for place in places(store, batch):
        fields: dict[str, Any] = msgspec.json.decode(place.fields)
        row = place.row
        assert row is not None  # a trial always has a key
        record = msgspec.json.decode(row.result, type=TrialRecord) if row.state == "done" else None
        names = (fields["task"], fields["arm"], fields["trial"], fields["group"], fields["work"])
        found.append(TrialRow(row.key, *names, state=row.state, record=record, error=row.error, agent=row.agent))
    return found


def _points(interval: Interval) -> str:
    value, low, high = (round(100 * each) for each in (interval.value, interval.low, interval.high))
    return f"{value:+} points (95 %: {low:+} to {high:+})"
