"""Forecasts what a delegation uses from what earlier ones used.

Amounts are compared as logarithms. Of many earlier runs of the profile the ones with the nearest task size give the
percentiles. With few, mean and spread are shrunk to those of the model, and the range is that of a t distribution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from ..protocol.forecast import Forecast, Range

NEAREST = 40
"""Runs with the nearest task size that count."""
ENOUGH = 20
"""From this many runs on their own percentiles are used."""
WEIGHT = 3.0
"""How many runs the mean and the spread of the model count for."""
SPREAD = 0.6
"""Variance of the logarithm of what runs use, where too few are known to say."""
_Z = (0.0, 1.2816, 1.6449)
_SHARES = (0.5, 0.9, 0.95)


class PastRun(msgspec.Struct, frozen=True):
    """An ended delegation: the size of its task in characters, what it and its descendants used, and its active seconds.
    `cost_usd` is None for an unknown price."""

    profile: str
    size: int
    tokens: int
    cost_usd: float | None
    active_s: float


def forecast(profile: str, model: str, past: Sequence[PastRun], size: int | None) -> Forecast:
    """The forecast for a task of `size` characters (None: of any size) from `past` runs on the model, of all profiles."""
    own = nearest([run for run in past if run.profile == profile], size)
    others = nearest([run for run in past if run.profile != profile], size)

    def of(amount: Callable[[PastRun], float | None]) -> Range | None:
        return _range(_known(map(amount, own)), _known(map(amount, others)))

    return Forecast(
        profile,
        model,
        runs=sum(run.profile == profile for run in past),
        others=len(others),
        tokens=of(lambda run: run.tokens),
        cost_usd=of(lambda run: run.cost_usd),
        time_s=of(lambda run: run.active_s),
    )


def nearest(runs: Sequence[PastRun], size: int | None) -> list[PastRun]:
    """The runs with the nearest task size; the first ones for None."""
    if size is not None:
        near = math.log(size + 1)
        runs = sorted(runs, key=lambda run: abs(math.log(run.size + 1) - near))
    return list(runs[:NEAREST])


def _known(values: map[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _range(own: list[float], others: list[float]) -> Range | None:
    if not own and not others:
        return None
    if not any(own) and not any(others):
        return Range(0.0, 0.0, 0.0)  # a model that costs nothing
    logs, model = ([math.log(max(value, 1e-9)) for value in values] for values in (own, others))
    base = logs if logs else model
    found = _percentiles(base) if len(base) >= ENOUGH else _shrunk(logs, model)
    return Range(*map(math.exp, found))


def _percentiles(values: list[float]) -> list[float]:
    """The points below which a further value lies with the probabilities `_SHARES`."""
    ordered, found = sorted(values), []
    for share in _SHARES:
        place = min(max(share * (len(ordered) + 1) - 1, 0.0), len(ordered) - 1.0)
        low = int(place)
        high = min(low + 1, len(ordered) - 1)
        found.append(ordered[low] + (ordered[high] - ordered[low]) * (place - low))
    return found


def _shrunk(own: list[float], model: list[float]) -> list[float]:
    """As `_percentiles`, for few values: with the mean and the spread of the `model`."""
    weight = min(WEIGHT, len(model))
    spread = (_squares(model) + WEIGHT * SPREAD) / (max(len(model) - 1, 0) + WEIGHT)
    mean = (sum(own) + weight * _mean(model)) / (len(own) + weight)
    free = max(len(own) - 1, 0) + WEIGHT
    variance = (_squares(own) + WEIGHT * spread) / free
    wide = math.sqrt(variance * (1 + 1 / (len(own) + weight)))
    return [mean + wide * (z + (z**3 + z) / (4 * free)) for z in _Z]  # the first terms of a t distribution


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _squares(values: list[float]) -> float:
    mean = _mean(values)
    return sum((value - mean) ** 2 for value in values)
