"""A baseline for CI: what an eval found, kept in a file, and whether a later one is worse."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from friday_cli.core.protocol.errors import FileError
from friday_cli.system import atomic_file, safe_files

from . import statistics
from .results import EvalResults, PairResult
from .statistics import FEWEST
from .suite import MOST_BYTES

CANNOT_TELL = 6
"""The exit code where the results do not decide."""


class BaselineArm(msgspec.Struct, frozen=True):
    """What is kept of an arm; the fields are those of `ArmResult`."""

    flags: str
    by_task: dict[str, tuple[int, int]]
    groups: dict[str, str]
    costs: dict[str, float]


class Baseline(msgspec.Struct, frozen=True):
    """The arms of an eval of a suite by name."""

    suite: str
    arms: dict[str, BaselineArm]
    version: int = 1


class Gate(msgspec.Struct, frozen=True):
    """When an eval fails a job. `against`: a baseline, which may be better by `margin`; `min_pass`: the least share of passed trials;
    `max_errors`: the highest share of trials without a result. `lenient`: what cannot be told passes."""

    against: Baseline | None = None
    margin: float = 0.05
    min_pass: float | None = None
    max_errors: float = 0.1
    lenient: bool = False


def save(found: EvalResults, path: Path) -> None:
    """Write a baseline. Raises OSError."""
    arms = {arm.name: BaselineArm(arm.flags, arm.by_task, arm.groups, arm.costs) for arm in found.arms}
    text = msgspec.json.format(msgspec.json.encode(Baseline(found.suite, arms), order="sorted"), indent=1)
    atomic_file.replace(path, text.decode() + "\n", mode=0o644)


def read(path: Path) -> Baseline:
    """Raises FileError."""
    try:
        return msgspec.json.decode(safe_files.read_linked(path, MOST_BYTES), type=Baseline)
    except OSError as error:
        raise FileError(str(path), f"it cannot be read: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise FileError(
            str(path), f"it is not a baseline: {error}", hint="`friday eval save ID FILE` writes one."
        ) from None


def judge(found: EvalResults, gate: Gate) -> tuple[int, list[str]]:
    """The exit code of a job, and what is to be said about it."""
    gated = gate.against is not None or gate.min_pass is not None
    missing = sum(row.record is None for row in found.rows) / max(1, len(found.rows))
    if missing == 1 or (gated and missing > gate.max_errors):
        allowed = f" (--max-errors allows {100 * gate.max_errors:.0f} %)" if gated else ""
        return CANNOT_TELL, [f"{100 * missing:.0f} % of the trials have no result{allowed}: this eval decides nothing"]
    said = [*_against(found, gate), *_min_pass(found, gate)]
    codes = [code for code, _ in said]
    code = 1 if 1 in codes else CANNOT_TELL if CANNOT_TELL in codes and not gate.lenient else 0
    return code, [text for _, text in said]


def _against(found: EvalResults, gate: Gate) -> Iterator[tuple[int, str]]:
    if gate.against is None:
        return
    for arm in found.arms:
        names = list(gate.against.arms)
        name = arm.name if arm.name in names else names[0] if len(names) == len(found.arms) == 1 else ""
        if not name:
            yield CANNOT_TELL, f"{arm.name}: the baseline has no arm of this name, but {', '.join(names)}"
            continue
        before = gate.against.arms[name]
        comparison = statistics.compare(statistics.Outcomes.of(before.by_task, before.groups), arm.outcomes)
        cost = statistics.ratio(before.costs, arm.costs)
        pair = PairResult(f"the baseline ({name})", arm.name, comparison, cost)
        difference = comparison.difference
        if comparison.word == "worse" and difference.value < -gate.margin:
            yield 1, pair.text
        elif comparison.clusters < FEWEST or difference.low < -gate.margin:
            yield CANNOT_TELL, f"{pair.text}; a loss of more than {100 * gate.margin:.0f} points is not ruled out"
        else:
            yield 0, pair.text


def _min_pass(found: EvalResults, gate: Gate) -> Iterator[tuple[int, str]]:
    if gate.min_pass is None:
        return
    for arm in found.arms:
        wanted, rate = f"at least {100 * gate.min_pass:.0f} % wanted", arm.rate
        text = f"{arm.name}: {100 * rate.low:.0f} to {100 * rate.high:.0f} % pass, {wanted}"
        yield (0 if rate.low >= gate.min_pass else 1 if rate.high < gate.min_pass else CANNOT_TELL), text
