"""Tokens, cost and time in the few words in which people read them."""

from __future__ import annotations

from .messages import Usage


def tokens(usage: Usage) -> str:
    """The tokens that count against a budget, short: `950`, `12.3k`, `1.20M`; with `~` where they are an estimate."""
    count = usage.billed
    text = str(count) if count < 1000 else f"{count / 1000:.1f}k" if count < 999_950 else f"{count / 1e6:.2f}M"
    return f"~{text}" if usage.estimated else text


def cost(usage: Usage) -> str:
    """US dollars, `cost n/a` where a price is unknown."""
    if usage.cost_usd is None:
        return "cost n/a"
    return f"${usage.cost_usd:.2f}" if usage.cost_usd >= 1 else f"${usage.cost_usd:.4f}"


def seconds(duration: float) -> str:
    """A duration for people: `0.4 s`, `41 s`, `3 m 05 s`, `2 h 01 m`."""
    if duration < 10:
        return f"{duration:.1f} s"
    whole = round(duration)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} m {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} m"
