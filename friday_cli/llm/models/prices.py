"""Token prices from prices.json, which `tests/llm/models/update_prices.py` writes. An unknown price is None, never 0."""

from __future__ import annotations

import functools
import os
import re
from datetime import UTC, date, datetime

import msgspec

from friday_cli.config.settings import TokenPrices
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.text.lazy_regex import pattern

from .presets import PRESETS

Rate = float | tuple[float | tuple[int, float], ...]
"""Dollars per million tokens: one price, or the base price and then (tokens, price) for inputs above `tokens`."""
_LISTS = {"gemini": "google", "xai": "x-ai", "moonshot": "moonshotai"} | {
    name: name
    for name in (
        "anthropic", "openai", "groq", "deepseek", "mistral", "openrouter", "zai", "cerebras", "together", "fireworks",
    )
}  # fmt: skip
_PLATFORMS = {"bedrock": "aws", "vertex": "google", "foundry": "azure", "azure": "azure"}
_COMPACT_DATE = pattern(r"-(20\d\d)(\d\d)(\d\d)(?!\d)")


class _Price(msgspec.Struct, frozen=True, rename={"input": "in", "output": "out"}):
    input: Rate
    output: Rate
    read: Rate | None = None
    write: Rate | None = None
    write_long: Rate | None = None
    reasoning: Rate | None = None
    search: float | None = None
    since: date | None = None
    hours: tuple[str, str] | None = None

    def applies(self, at: datetime) -> bool:
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
        if len(self.prices) == 1:
            return self.prices[0]
        return next((p for p in reversed(self.prices) if p.applies(at)), self.prices[0])


class _PriceList(msgspec.Struct, frozen=True):
    models: tuple[_PricedModel, ...]
    also: tuple[str, ...] = ()


class _PriceFile(msgspec.Struct, frozen=True):
    source: str
    lists: dict[str, msgspec.Raw]


def cost(provider: str, model: str, usage: Usage, *, platform: str = "", at: datetime | None = None) -> float | None:
    """US dollars for the `usage` of ONE request: the price per token can depend on the size of the request.

    `platform` is the cloud platform ("" for the provider itself), `at` the time of the request (default now). None if
    the price is not known. 0.0 for a local server, unless the model runs in a cloud (`:cloud`).
    """
    if provider in PRESETS and PRESETS[provider].local:
        return None if model.endswith(("-cloud", ":cloud")) else 0.0
    found = _find(_list_of(provider, platform), model)
    if found is None:
        return None
    price = found.price(datetime.now(UTC) if at is None else at.astimezone(UTC))
    total = usage.input + usage.cache_read + usage.cache_write
    reasoning = usage.reasoning if price.reasoning is not None else 0
    long = usage.kept_long if price.write_long is not None else 0
    parts = (
        (usage.input, price.input),
        (usage.cache_read, price.input if price.read is None else price.read),
        (usage.cache_write - long, price.input if price.write is None else price.write),
        (long, price.input if price.write_long is None else price.write_long),
        (usage.output - reasoning, price.output),
        (reasoning, price.output if price.reasoning is None else price.reasoning),
    )
    fee = _search_fee(price.search, usage)
    if fee is None:
        return None
    return fee + sum(tokens * _rate(rate, total) for tokens, rate in parts if tokens) / 1_000_000


def _search_fee(per_thousand: float | None, usage: Usage) -> float | None:
    """US dollars for the service's web searches; None if there were searches and the price is unknown."""
    if not usage.searches:
        return 0.0
    return None if per_thousand is None else usage.searches * per_thousand / 1000


def own_cost(prices: TokenPrices, usage: Usage) -> float | None:
    """US dollars for `usage` at the prices in the settings; None if a required price is missing."""
    read = prices.input if prices.cache_read is None else prices.cache_read
    write = prices.input if prices.cache_write is None else prices.cache_write
    fee = _search_fee(prices.web_search, usage)
    if fee is None or (prices.input is None and prices.output is None):
        return None
    total = 0.0
    for tokens, rate in (
        (usage.input, prices.input),
        (usage.cache_read, read),
        (usage.cache_write, write),
        (usage.output, prices.output),
    ):
        if tokens and rate is None:
            return None
        total += tokens * (rate or 0)
    return fee + total / 1_000_000


def window(provider: str, model: str, *, platform: str = "") -> int:
    """The context window of a model in tokens, from the price list; 0 if it has none."""
    found = _find(_list_of(provider, platform), model)
    return found.window if found else 0


def step(provider: str, model: str) -> int:
    """The input in tokens above which every input token of a request costs more; 0 if the price has no such step."""
    found = _find(_list_of(provider, ""), model)
    rate = found.price(datetime.now(UTC)).input if found else 0.0
    return next((tier[0] for tier in rate if isinstance(tier, tuple)), 0) if isinstance(rate, tuple) else 0


def source() -> str:
    """The source of the prices, such as "genai-prices 0.2.3"."""
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
            # most are for another model: `^claude-opus-5-\d{8}$`
            beginning, _, _ = name.removeprefix("/^").partition("\\")
            if beginning.replace("-", "").isalnum() and not model.startswith(beginning):
                return False
            return re.search(name[1:], model) is not None
    return model == name


def _rate(rate: Rate, total: int) -> float:
    if not isinstance(rate, tuple):
        return rate
    price = 0.0
    for tier in rate:
        if not isinstance(tier, tuple):
            price = tier
        elif total > tier[0]:
            price = tier[1]
    return price
