"""Formats tokens, costs, durations and counts for people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from .messages import Usage


class _LineChanges(Protocol):
    @property
    def added(self) -> int: ...

    @property
    def removed(self) -> int: ...


def tokens(usage: Usage) -> str:
    """The tokens that count against a budget: `950`, `12.3k`, `1.20M`; with `~` for an estimate."""
    count = usage.billed
    text = str(count) if count < 1000 else f"{count / 1000:.1f}k" if count < 999_950 else f"{count / 1e6:.2f}M"
    return f"~{text}" if usage.estimated else text


def cost(usage: Usage) -> str:
    """US dollars; with `~` for an estimate, `cost n/a` for an unknown price."""
    if usage.cost_usd is None:
        return "cost n/a"
    return _approximate(usage) + (f"${usage.cost_usd:.2f}" if usage.cost_usd >= 1 else f"${usage.cost_usd:.4f}")


def short_cost(usage: Usage) -> str:
    """US dollars in few characters: two digits, `$ n/a` for an unknown price; with `~` for an estimate."""
    if usage.cost_usd is None:
        return "$ n/a"
    if not usage.cost_usd or usage.cost_usd >= 0.0995:
        return f"{_approximate(usage)}${usage.cost_usd:.2f}" if usage.cost_usd else "$0"
    return f"{_approximate(usage)}${usage.cost_usd:.3f}" if usage.cost_usd >= 0.00995 else cost(usage)


def _approximate(usage: Usage) -> str:
    return "~" if usage.estimated and usage.cost_usd else ""


CALLER = "mcp-client"
"""The service that the log names for a main agent whose calls another program makes; the model is its name."""


EXTERNAL = "external"
"""The service that the log names for an agent whose work another program does; the model is the program."""


def is_caller(model: str) -> bool:
    """Whether the main agent with this `provider/model` sends no requests: another program makes its calls."""
    return model.startswith(f"{CALLER}/")


def is_demo(model: str) -> bool:
    """Whether a model (`provider/model`) is the demo, which is not an AI model and costs nothing."""
    return model == "demo" or model.startswith("demo/")


def price(model: str, usage: Usage) -> str:
    """The cost of `usage` of `model`, as from `cost`; `demo` for the demo."""
    return "demo" if is_demo(model) else cost(usage)


def pluralize(number: int, what: str) -> str:
    """A number with a noun: `1 line`, `2 lines`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def diffstat(files: Iterable[_LineChanges]) -> str:
    """The sums of lines added and removed: `+10 -2`."""
    rows = list(files)
    return f"+{sum(row.added for row in rows)} -{sum(row.removed for row in rows)}"


def size(count: int) -> str:
    """A number of bytes: `950 B`, `1.2 KB` (1 KB = 1,024 B), `3.0 GB`."""
    amount, unit = float(count), "B"
    for unit in ("B", "KB", "MB", "GB"):
        if amount < 1024 or unit == "GB":
            break
        amount /= 1024
    return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"


def seconds(duration: float) -> str:
    """A duration: `0.4 s`, `41 s`, `3 m 05 s`, `2 h 01 m`."""
    if duration < 10:
        return f"{duration:.1f} s"
    whole = round(duration)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} m {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} m"


_ENDS = {"aborted": "stopped", "parent": "stopped with its parent", "process": "interrupted"}
"""How a run ended, by its reason, where the reason says it all."""


def limit_name(limit: str) -> str:
    """A limit as its flag names it: the log says `iterations` for turns."""
    return "turns" if limit == "iterations" else limit


_STATUS_WORDS = {
    "cancelled": "stopped",
    "waiting_child": "waiting for sub-agents",
    "waiting_user": "waiting for an answer",
    "waiting_rate": "waiting for the service",
    "waiting_budget": "waiting for budget",
}


def status_word(status: str) -> str:
    """A status for people, who read other words than the log has."""
    return _STATUS_WORDS.get(status, status)


def how_it_ended(status: str, stop_reason: str, limit_of: str = "") -> str:
    """How a run ended, in words: "stopped" after a key, a signal or a call that stops it, else its status, with the reason
    where that says more.
    `limit_of`: the path of the agent whose limit was reached, "" for its own."""
    if stop_reason in ("", "done", status):
        return status_word(status)
    whose = f" of {limit_of}" if limit_of else ""
    return _ENDS.get(stop_reason) or f"{status} ({limit_name(stop_reason)}{whose})"
