"""What a delegation usually uses, as ranges for people and programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ..text.sanitize import sanitize_line
from .format import pluralize, seconds, tokens
from .messages import Usage


class Range(msgspec.Struct, frozen=True):
    """Percentiles: half of the delegations use at most `p50`, nine of ten at most `p90`."""

    p50: float
    p90: float
    p95: float


class Forecast(msgspec.Struct, frozen=True, omit_defaults=True):
    """The usual use of a delegation to `profile` on `model` (`provider/model`), with all its descendants. It is made from
    `runs` earlier delegations to the profile and `others` to other profiles on the model; without any the ranges are None.
    `cost_usd` is None for an unknown price. `time_s` is active seconds."""

    profile: str
    model: str
    runs: int = 0
    others: int = 0
    tokens: Range | None = None
    cost_usd: Range | None = None
    time_s: Range | None = None

    @property
    def suggested_tokens(self) -> int | None:
        """A token budget that 95 % of such delegations stay within; None if unknown."""
        return None if self.tokens is None else round(self.tokens.p95)

    def usual(self) -> str:
        """For people: `usually $0.08 to $0.31, 1m 00s to 4m 00s (38 runs)`, what the only run took, or that it is unknown."""
        if self.tokens is None or self.time_s is None:
            return "usual cost unknown (no runs yet)"
        if self.runs + self.others == 1:  # half of one run is that run
            spent = _tokens(self.tokens.p50) + " tokens" if self.cost_usd is None else _dollars(self.cost_usd.p50)
            whose = "last time" if self.runs else "once, with another profile"
            return f"took {spent}, {seconds(self.time_s.p50)} {whose}"
        unpriced = _span(self.tokens, _tokens) + " tokens"
        spent = unpriced if self.cost_usd is None else _span(self.cost_usd, _dollars)
        own = pluralize(self.runs, "run") if self.runs else "no runs yet"
        based = own if self.runs > 1 else f"{own}; {self.others} of other profiles on this model"
        return f"usually {spent}, {_span(self.time_s, seconds)} ({based})"

    def line(self) -> str:
        """As `usual`, with profile, model and the suggested budget."""
        budget = "" if self.tokens is None else f"; suggested budget {_tokens(self.tokens.p95)} tokens"
        return f"{sanitize_line(self.profile, 40)} on {sanitize_line(self.model, 80)}: {self.usual()}{budget}"


def as_json(forecast: Forecast) -> dict[str, Any]:
    """A forecast for programs: all fields, null where something is unknown, and `suggested_tokens`."""
    ranges = {name: getattr(forecast, name) for name in ("tokens", "cost_usd", "time_s")}
    return {
        "profile": forecast.profile,
        "model": forecast.model,
        "runs": forecast.runs,
        "others": forecast.others,
        **{name: None if found is None else msgspec.structs.asdict(found) for name, found in ranges.items()},
        "suggested_tokens": forecast.suggested_tokens,
    }


def _span(values: Range, shown: Callable[[float], str]) -> str:
    low, high = shown(values.p50), shown(values.p90)
    return low if low == high else f"{low} to {high}"


def _tokens(value: float) -> str:
    return tokens(Usage(input=round(value)))


def _dollars(value: float) -> str:
    return f"${value:.2f}" if value >= 0.01 else f"${value:.4f}" if value else "$0"
