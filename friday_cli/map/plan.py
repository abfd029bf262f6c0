"""What a batch will cost: the cap of an item, and a forecast for all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from friday_cli.core.limits.budget import OUTPUT_FLOOR
from friday_cli.core.limits.forecast import PastRun
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.format import pluralize, seconds
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.protocol.provider import Provider

from .job import MapJob

RUNS = 200
"""Earlier runs that a forecast is made from."""
SPARE = 4
"""The usual cap of an item is so many times its share of the batch's cap, and at least so many first requests."""


class BatchForecast(msgspec.Struct, frozen=True):
    """What `count` items will cost in US dollars and take in seconds: ranges that nine of ten batches end in. `runs`: how many
    earlier ones it is made from; without any the ranges are None."""

    count: int
    runs: int
    cost: tuple[float, float] | None = None
    time: tuple[float, float] | None = None

    def text(self) -> str:
        """For people: `1,995 items: $11.20 to $14.10, 38m to 50m (from 5 runs)`."""
        items = pluralize(self.count, "item")
        if self.cost is None or self.time is None:
            return f"{items}: the cost is unknown (no runs yet)"
        low, high = map(dollars, self.cost)
        first, last = map(seconds, self.time)
        money = low if low == high else f"{low} to {high}"
        time = first if first == last else f"{first} to {last}"
        return f"{items}: {money}, {time} (from {pluralize(self.runs, 'run')})"


def forecast(past: Sequence[PastRun], count: int, parallel: int, around: float = 1.0) -> BatchForecast:
    """The forecast for `count` items, `parallel` at once, from earlier runs, the newest first. `around`: seconds of an item, with its
    worktree and its check, for each that its agent is active."""
    newest = past[:RUNS]
    costs = [run.cost_usd for run in newest if run.cost_usd is not None]
    if not costs:
        return BatchForecast(count, 0)
    slots = max(1, min(parallel, count)) / max(1.0, around)
    low, high = _total([run.active_s for run in newest], count)
    return BatchForecast(count, len(costs), _total(costs, count), (low / slots, high / slots))


def _total(values: Sequence[float], count: int) -> tuple[float, float]:
    """The sum of `count` further values, from their mean and spread; with few values the mean itself is doubtful."""
    known = len(values)
    mean = sum(values) / known
    variance = sum((value - mean) ** 2 for value in values) / (known - 1) if known > 1 else mean**2
    wide = 1.645 * math.sqrt(variance * (count + count**2 / known))
    return max(count * min(values), count * mean - wide), count * mean + wide


def item_caps(job: MapJob, provider: Provider, count: int, prompt: int, highest: float | None) -> tuple[float, float]:
    """The cap of an item in US dollars, and the least that one can start with. `prompt`: tokens of the first request of an item;
    `highest`: what its profile's whole budget costs, 0 for a free model. Raises UsageError if the price is unknown, or a cap is below one request."""
    least = provider.cost(Usage(input=prompt, output=OUTPUT_FLOOR))
    if least is None:
        raise UsageError(
            f"The price of {provider.name}/{provider.model} is unknown, so a cost limit cannot be kept.",
            hint="Set prices under [providers] in the config.",
        )
    given = job.item_cost
    if given is None:
        share = min(job.cost / max(1, min(count, job.parallel)), SPARE * job.cost / max(1, count))
        cap = min(job.cost, max(SPARE * least, min(share, highest or share)))
    else:
        cap = given
    if cap < least:
        named = "--max-cost" if given is None else "--per-item-cost"
        raise UsageError(f"{named} {dollars(cap)} is below one request of an item, about {dollars(least)}.")
    if cap > job.cost:
        raise UsageError(
            f"--max-cost {dollars(job.cost)} is below --per-item-cost {dollars(cap)}: no item could start."
        )
    return cap, (cap if given is not None else min(cap, SPARE * least))


def dollars(value: float, *, estimated: float = 0.0) -> str:
    """US dollars with at least two digits that count. `~` before them: a part is `estimated`."""
    if estimated:
        return f"~{dollars(value)}"
    return f"${value:.2f}" if value >= 0.1 or not value else f"${value:.4f}" if value >= 0.001 else f"${value:.6f}"
