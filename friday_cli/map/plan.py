"""What a batch will cost: the cap of an item, and a forecast for all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from friday_cli.core.limits.budget import OUTPUT_FLOOR
from friday_cli.core.limits.forecast import PastRun
from friday_cli.core.limits.input_counts import MARGIN, dearest
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.format import pluralize, seconds
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.protocol.provider import Provider

from .caps import Cap, dollars
from .job import MapJob

RUNS = 200
"""Earlier runs that a forecast is made from."""
UNKNOWN_PRICE = (
    "Limit tokens instead (--max-tokens), ask the service for its prices (`friday models --prices`), set them as `prices` under"
    " [providers.NAME] in the config, or count with the vendor's most expensive model (--assume-price)."
)
SPARE = 4
"""The usual cap of an item is so many times its share of the batch's cap, and at least so many first requests."""


class BatchForecast(msgspec.Struct, frozen=True):
    """The forecast for `count` items: what they will cost in US dollars, use in tokens and take in seconds: ranges that nine of ten batches end in. `runs`: how
    many earlier ones it is made from; without any the ranges are None. `cost` is None for an unknown price, too, and for none."""

    count: int
    runs: int
    cost: tuple[float, float] | None = None
    time: tuple[float, float] | None = None
    tokens: tuple[float, float] | None = None

    def text(self) -> str:
        """For people: `1,995 items: $11.20 to $14.10, 38m to 50m (from 5 runs)`."""
        items = pluralize(self.count, "item")
        if self.tokens is None or self.time is None:
            return f"{items}: the cost is unknown (no runs yet)"
        low, high = map(dollars, self.cost) if self.cost else (f"{number:,.0f}" for number in self.tokens)
        first, last = map(seconds, self.time)
        money = (low if low == high else f"{low} to {high}") + ("" if self.cost else " tokens")
        time = first if first == last else f"{first} to {last}"
        return f"{items}: {money}, {time} (from {pluralize(self.runs, 'run')})"

    def by_batch(self) -> str:
        """The same through the batch interface of the service, which takes half."""
        if self.cost is None:
            return ", or half of it by batches of the service, mostly within an hour, at most a day"
        low, high = (dollars(amount / 2) for amount in self.cost)
        money = low if low == high else f"{low} to {high}"
        return f", or {money} by batches of the service (--deferred), mostly within an hour a round, at most a day"


def forecast(past: Sequence[PastRun], count: int, parallel: int, around: float = 1.0) -> BatchForecast:
    """The forecast for `count` items, `parallel` at once, from earlier runs, the newest first. `around`: seconds of an item, with its
    worktree and its check, for each that its agent is active."""
    newest = past[:RUNS]
    costs = [run.cost_usd for run in newest if run.cost_usd is not None]
    if not newest:
        return BatchForecast(count, 0)
    slots = max(1, min(parallel, count)) / max(1.0, around)
    low, high = _total([run.active_s for run in newest], count)
    tokens = _total([run.tokens for run in newest], count)
    cost = _total(costs, count) if any(costs) else None
    return BatchForecast(count, len(costs) or len(newest), cost, (low / slots, high / slots), tokens)


def _total(values: Sequence[float], count: int) -> tuple[float, float]:
    """The sum of `count` further values, from their mean and spread; with few values the mean itself is doubtful."""
    known = len(values)
    mean = sum(values) / known
    variance = sum((value - mean) ** 2 for value in values) / (known - 1) if known > 1 else mean**2
    wide = 1.645 * math.sqrt(variance * (count + count**2 / known))
    return max(count * min(values), count * mean - wide), count * mean + wide


class _Limit(msgspec.Struct, frozen=True):
    """One limit of a batch: the option that sets it, that of an item, and what both are; `highest` is the most that the profile of the
    items uses, and `text` shows an amount."""

    option: str
    item_option: str
    whole: float | None
    given: float | None
    highest: float | None
    text: Callable[[float], str]

    def of_item(self, job: MapJob, count: int, least: float) -> tuple[float, float] | None:
        """The limit of an item, and the least that one can start with: at least what one request needs. Raises UsageError."""
        whole, given = self.whole, self.given
        if whole is None and given is None:
            return None
        if given is not None or whole is None:
            cap = given or 0.0
        else:
            share = min(whole / max(1, min(count, job.parallel)), SPARE * whole / max(1, count))
            cap = min(whole, max(SPARE * least, min(share, self.highest or share)))
        if cap < least:
            named = self.option if given is None else self.item_option
            raise UsageError(f"{named} {self.text(cap)} is below one request of an item, about {self.text(least)}.")
        if whole is not None and cap > whole:
            text = (
                f"{self.option} {self.text(whole)} is below {self.item_option} {self.text(cap)}: no item could start."
            )
            raise UsageError(text)
        return cap, (cap if given is not None else min(cap, SPARE * least))


def require_price(job: MapJob, provider: Provider) -> None:
    """Raises UsageError if the price that a cap of the batch or of an item needs is unknown."""
    if (job.cost is not None or job.item_cost is not None) and provider.cost(Usage(input=1, output=1)) is None:
        text = f"The price of {provider.name}/{provider.model} is unknown, so a cost limit cannot be kept."
        raise UsageError(text, hint=UNKNOWN_PRICE)


def item_caps(job: MapJob, provider: Provider, count: int, prompt: int, highest: Cap) -> tuple[Cap, Cap]:
    """The cap of an item, and the least that one can start with. `prompt`: tokens of the first request of an item; `highest`: what its
    profile's whole budget is; a cost of 0 for a free model. Raises UsageError if the price that a cap needs is unknown, or a cap is below
    one request."""
    usage = msgspec.structs.replace(dearest(round(prompt * MARGIN), 0, provider.cost), output=OUTPUT_FLOOR)
    require_price(job, provider)
    money = _Limit("--max-cost", "--per-item-cost", job.cost, job.item_cost, highest.cost, dollars)
    count_of = _Limit(
        "--max-tokens",
        "--per-item-tokens",
        job.tokens,
        job.item_tokens,
        highest.tokens,
        lambda number: f"{number:,.0f}",
    )
    cost = money.of_item(job, count, provider.cost(usage) or 0.0) or (None, None)
    tokens = count_of.of_item(job, count, usage.billed)
    most, least = (None, None) if tokens is None else (int(tokens[0]), int(tokens[1]))
    return Cap(cost[0], most), Cap(cost[1], least)
