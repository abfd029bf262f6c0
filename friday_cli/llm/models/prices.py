"""What tokens cost, from prices.json (made by `extract`). A price that is not known is None, never 0."""

from __future__ import annotations

import functools
import os
import re
from datetime import UTC, date, datetime

import msgspec

from friday_cli.config.settings import Prices
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.text.lazy_regex import pattern

Rate = float | tuple[float | tuple[int, float], ...]
"""Dollars per million tokens: one figure, or the base figure and then (tokens, figure) for inputs above `tokens`."""
LOCAL = frozenset(("ollama", "lmstudio", "llamacpp", "vllm"))
"""Services on one's own machine: free of charge."""
_LISTS = {"gemini": "google"} | {n: n for n in ("anthropic", "openai", "groq", "deepseek", "mistral", "openrouter")}
_PLATFORMS = {"bedrock": "aws", "vertex": "google", "foundry": "azure", "azure": "azure"}
_COMPACT_DATE = pattern(r"-(20\d\d)(\d\d)(\d\d)(?!\d)")


class _Price(msgspec.Struct, frozen=True, rename={"input": "in", "output": "out"}):
    input: Rate
    output: Rate
    read: Rate | None = None
    write: Rate | None = None
    reasoning: Rate | None = None
    search: float | None = None
    since: date | None = None
    hours: tuple[str, str] | None = None

    def holds(self, at: datetime) -> bool:
        if self.since:
            return at.date() >= self.since
        if self.hours:
            start, end = self.hours
            now = f"{at:%H:%M}"
            return start <= now < end if start <= end else now >= start or now < end
        return True


class _PricedModel(msgspec.Struct, frozen=True, array_like=True):
    names: tuple[str | tuple[str, ...], ...]
    window: int
    prices: tuple[_Price, ...]

    def price(self, at: datetime) -> _Price:
        return next((p for p in reversed(self.prices) if p.holds(at)), self.prices[0])


class _PriceList(msgspec.Struct, frozen=True):
    models: tuple[_PricedModel, ...]
    also: tuple[str, ...] = ()


class _PriceFile(msgspec.Struct, frozen=True):
    source: str
    lists: dict[str, msgspec.Raw]


def cost(provider: str, model: str, usage: Usage, *, platform: str = "", at: datetime | None = None) -> float | None:
    """US dollars for the `usage` of ONE request, since the size of a request can set its price.

    `platform` is the cloud that serves the model ("" for the provider itself), `at` the time of the request (default
    now). None where the price is not known; 0.0 for a local server, unless it only passes on to a cloud (`:cloud`).
    """
    if provider in LOCAL:
        return None if model.endswith(("-cloud", ":cloud")) else 0.0
    found = _find(_list_of(provider, platform), model)
    if found is None:
        return None
    price = found.price(datetime.now(UTC) if at is None else at.astimezone(UTC))
    total = usage.input + usage.cache_read + usage.cache_write
    reasoning = usage.reasoning if price.reasoning is not None else 0
    parts = (
        (usage.input, price.input),
        (usage.cache_read, price.input if price.read is None else price.read),
        (usage.cache_write, price.input if price.write is None else price.write),
        (usage.output - reasoning, price.output),
        (reasoning, price.output if price.reasoning is None else price.reasoning),
    )
    fee = _fee(price.search, usage)
    return None if fee is None else fee + sum(tokens * _rate(rate, total) for tokens, rate in parts) / 1_000_000


def _fee(thousand: float | None, usage: Usage) -> float | None:
    """What the web searches of the service cost, at the price of a thousand; None where there were some and it is unknown."""
    if not usage.searches:
        return 0.0
    return None if thousand is None else usage.searches * thousand / 1000


def own_cost(prices: Prices, usage: Usage) -> float | None:
    """US dollars for `usage` at the prices a user set; None where one that is needed was left out."""
    read = prices.input if prices.cache_read is None else prices.cache_read
    write = prices.input if prices.cache_write is None else prices.cache_write
    total = 0.0
    for tokens, rate in (
        (usage.input, prices.input), (usage.cache_read, read), (usage.cache_write, write), (usage.output, prices.output)
    ):  # fmt: skip
        if rate is None:
            if tokens:
                return None
            continue
        total += tokens * rate
    fee = _fee(prices.web_search, usage)
    return None if fee is None or (prices.input is None and prices.output is None) else fee + total / 1_000_000


def window(provider: str, model: str, *, platform: str = "") -> int:
    """The context window of a model in tokens as the price list has it, 0 where it has none."""
    found = _find(_list_of(provider, platform), model)
    return found.window if found else 0


def source() -> str:
    """What the prices were taken from, such as "genai-prices 0.2.3"."""
    return _file().source


def _list_of(provider: str, platform: str) -> str:
    return _PLATFORMS.get(platform, "") if platform else _LISTS.get(provider, "")


@functools.cache
def _file() -> _PriceFile:
    with open(os.path.join(os.path.dirname(__file__), "prices.json"), "rb") as f:
        return msgspec.json.decode(f.read(), type=_PriceFile)


@functools.cache
def _list(name: str) -> _PriceList:
    raw = _file().lists.get(name)
    return _PriceList(()) if raw is None else msgspec.json.decode(raw, type=_PriceList)


@functools.lru_cache(maxsize=256)
def _find(name: str, model: str) -> _PricedModel | None:
    model = model.lower()
    dashed = _COMPACT_DATE().sub(r"-\1-\2-\3", model)
    for text in dict.fromkeys((model, dashed)):
        for source_list in (name, *_list(name).also):
            for row in _list(source_list).models:
                if any(_matches(n, text) for n in row.names):
                    return row
    return None


def _matches(name: str | tuple[str, ...], model: str) -> bool:
    if not isinstance(name, str):
        return all(_matches(part, model) for part in name)
    match name[:1]:
        case "^":
            return model.startswith(name[1:])
        case "$":
            return model.endswith(name[1:])
        case "*":
            return name[1:] in model
        case "/":
            return re.search(name[1:], model) is not None
    return model == name


def _rate(rate: Rate, total: int) -> float:
    if not isinstance(rate, tuple):
        return rate
    figure = 0.0
    for tier in rate:
        if not isinstance(tier, tuple):
            figure = tier
        elif total > tier[0]:
            figure = tier[1]
    return figure
