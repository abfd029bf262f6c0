"""What results say: rates with intervals, comparisons of two arms, and "cannot tell". The unit is the task.

Sources: E. Miller, "Adding Error Bars to Evals" (2024), for errors clustered by task; E. Wilson (1927) for rates of single trials; S. Holm
(1979) for several comparisons; tau-bench (2024) for pass^k; Press et al., "Numerical Recipes", 6.4, for the beta function.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Literal

import msgspec

FEWEST = 6
"""Independent tasks below which only counts are told."""
WITHIN = 0.05
"""Arms whose difference is surely below this are as good as each other."""
DRAWS, EXACT = 20_000, 20_000
"""Draws of a permutation test, and the most different sums up to which all its permutations are counted instead."""
BOOTSTRAP = 2_000
"""Draws for the interval of a ratio."""
Word = Literal["better", "worse", "as good", "cannot tell", "too few tasks"]


class Interval(msgspec.Struct, frozen=True):
    """An estimate, and the bounds between which the value is with 95 %."""

    value: float
    low: float
    high: float


class Outcomes(msgspec.Struct, frozen=True):
    """What one arm made of the tasks: by task the passed trials as 1.0, the others as 0.0; the cluster of each task."""

    passed: Mapping[str, Sequence[float]]
    group: Mapping[str, str]

    @classmethod
    def of(cls, counts: Mapping[str, tuple[int, int]], group: Mapping[str, str]) -> Outcomes:
        """Those of passed trials and trials by task."""
        return cls({task: [1.0] * good + [0.0] * (of - good) for task, (good, of) in counts.items()}, group)

    @property
    def means(self) -> dict[str, float]:
        """The share of passed trials of each task."""
        return {task: sum(each) / len(each) for task, each in self.passed.items() if each}

    @property
    def clusters(self) -> int:
        """How many tasks, or groups of tasks of the same origin, there are."""
        return len({self.group[task] for task in self.passed})

    @property
    def single(self) -> bool:
        """Whether each task is a cluster of its own and was tried once."""
        return self.clusters == len(self.passed) and all(len(each) == 1 for each in self.passed.values())


class Comparison(msgspec.Struct, frozen=True):
    """One arm against another, over the tasks that both have: the difference of their rates, its probability `p` if they were equal,
    and the word for it. `clusters`: how many of them are independent."""

    difference: Interval
    p: float
    clusters: int
    word: Word


def rate(outcomes: Outcomes) -> Interval:
    """The share of passed trials, as the mean over tasks."""
    means = outcomes.means
    if not means:
        return Interval(0.0, 0.0, 1.0)
    value = sum(means.values()) / len(means)
    if outcomes.single:
        return _wilson(sum(means.values()), len(means))
    found = clustered(means, outcomes.group)
    return Interval(value, max(0.0, found.low), min(1.0, found.high))


def pass_k(outcomes: Outcomes, k: int) -> float:
    """The chance that `k` trials of a task all pass, as the mean over tasks."""
    shares = [
        math.comb(round(sum(each)), k) / math.comb(len(each), k) for each in outcomes.passed.values() if len(each) >= k
    ]
    return sum(shares) / len(shares) if shares else 0.0


def compare(first: Outcomes, second: Outcomes, *, seed: int = 0) -> Comparison:
    """The `second` arm against the `first`."""
    left, right = first.means, second.means
    gains = {task: right[task] - left[task] for task in left if task in right}
    if not gains:
        return Comparison(Interval(0.0, -1.0, 1.0), 1.0, 0, "too few tasks")
    difference = clustered(gains, first.group)
    difference = Interval(difference.value, max(-1.0, difference.low), min(1.0, difference.high))
    p = _sign_flips(gains, first.group, seed)
    clusters = len({first.group[task] for task in gains})
    return Comparison(difference, p, clusters, word(difference, p, clusters))


def word(difference: Interval, p: float, clusters: int) -> Word:
    """The word for a difference."""
    if clusters < FEWEST:
        return "too few tasks"
    if p < 0.05 and (difference.low > 0 or difference.high < 0):
        return "better" if difference.low > 0 else "worse"
    return "as good" if difference.low >= -WITHIN and difference.high <= WITHIN else "cannot tell"


def holm(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons with their probabilities corrected for how many there are."""
    found, highest = list(comparisons), 0.0
    order = sorted(range(len(found)), key=lambda at: found[at].p)
    for rank, at in enumerate(order):
        highest = max(highest, min(1.0, found[at].p * (len(order) - rank)))
        one = found[at]
        found[at] = msgspec.structs.replace(one, p=highest, word=word(one.difference, highest, one.clusters))
    return found


def ratio(first: Mapping[str, float], second: Mapping[str, float], *, seed: int = 0) -> Interval | None:
    """How many times as much the `second` arm used as the `first`, over the tasks that both have; None if the first used nothing."""
    tasks = [task for task in first if task in second]
    total = sum(first[task] for task in tasks)
    if not total:
        return None
    chance, draws = random.Random(seed), []
    for _ in range(BOOTSTRAP):
        drawn = chance.choices(tasks, k=len(tasks))
        if below := sum(first[task] for task in drawn):
            draws.append(sum(second[task] for task in drawn) / below)
    draws.sort()
    value = sum(second[task] for task in tasks) / total
    return Interval(value, draws[int(len(draws) * 0.025)], draws[min(len(draws) - 1, int(len(draws) * 0.975))])


def smallest_difference(tasks: int, trials: int) -> float:
    """A difference of two arms that an eval of this size finds four times of five, if some tasks are harder than others and the better
    arm gains on all of them. 0.43 and `tasks - 1` are fitted to `python -m tests.evals.simulation`, for 8 to 80 tasks with 1 to 5 trials.
    With 6 tasks it is found less often: all six have to differ."""
    spread = math.sqrt((0.01 + 0.43 / trials) / (tasks - 1))
    return min(1.0, (_t_quantile(0.975, tasks - 1) + 0.85) * spread)


def clustered(values: Mapping[str, float], group: Mapping[str, str]) -> Interval:
    """The mean of the values of tasks with a t interval, its error clustered by group. Where all values are equal, the rule of three."""
    count = len(values)
    mean = sum(values.values()) / count
    sums: dict[str, float] = {}
    for task, value in values.items():
        sums[group[task]] = sums.get(group[task], 0.0) + value - mean
    clusters = len(sums)
    if clusters < 2 or max(values.values()) - min(values.values()) < 1e-12:
        room = min(1.0, 3 / clusters)
        return Interval(mean, mean - room if mean > -1 else mean, mean + room if mean < 1 else mean)
    error = math.sqrt(sum(each**2 for each in sums.values()) * clusters / (clusters - 1)) / count
    wide = _t_quantile(0.975, clusters - 1) * error
    return Interval(mean, mean - wide, mean + wide)


def _wilson(passed: float, count: int) -> Interval:
    if passed in (0, count):
        room = min(1.0, 3 / count)
        return Interval(passed / count, 1 - room if passed else 0.0, 1.0 if passed else room)
    z, share = 1.959964, passed / count
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    wide = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return Interval(share, middle - wide, middle + wide)


def _sign_flips(gains: Mapping[str, float], group: Mapping[str, str], seed: int) -> float:
    """The share of sign flips of the clusters that make as large a difference. With single trials it is McNemar's exact test."""
    sums: dict[str, float] = {}
    for task, gain in gains.items():
        sums[group[task]] = sums.get(group[task], 0.0) + gain
    values = [value for value in sums.values() if value]
    seen = abs(sum(values)) - 1e-6
    shares = {0.0: 1.0}
    for value in values:
        longer: dict[float, float] = {}
        for total, share in shares.items():
            for flipped in (round(total + value, 7), round(total - value, 7)):
                longer[flipped] = longer.get(flipped, 0.0) + share / 2
        shares = longer
        if len(shares) > EXACT:
            chance = random.Random(seed)
            large = sum(abs(sum(v if chance.random() < 0.5 else -v for v in values)) >= seen for _ in range(DRAWS))
            return (large + 1) / (DRAWS + 1)
    return sum(share for total, share in shares.items() if abs(total) >= seen)


@cache
def _t_quantile(share: float, freedom: int) -> float:
    """The value below which a variable of Student's t distribution is with the probability `share` (above one half)."""
    low, high = 0.0, 1_000.0
    for _ in range(80):
        t = (low + high) / 2
        below = 1 - _beta(freedom / 2, 0.5, freedom / (freedom + t * t)) / 2 < share
        low, high = (t, high) if below else (low, t)
    return low


def _beta(a: float, b: float, x: float) -> float:
    """The regularized incomplete beta function."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(b, a, 1 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    total = d
    for m in range(1, 300):
        for top in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d, c = 1 / (1 + top * d), 1 + top / c
            total *= d * c
        if abs(d * c - 1) < 1e-14:
            break
    return front * total
