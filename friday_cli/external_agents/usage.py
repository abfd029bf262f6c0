"""What a request used: as the program reports it, and as the service's answer says."""

from __future__ import annotations

from typing import Any

from friday_cli.core.protocol.messages import Usage


def reported_usage(answer: Any, cost_usd: float | None, before_usd: float) -> Usage:
    """What a program says that a prompt used: the answer to it, and the cost of its session now and before. All of it is marked as an
    estimate; an unknown cost is None."""
    given = answer.get("usage") if isinstance(answer, dict) else None
    cost = None if cost_usd is None else max(0.0, cost_usd - before_usd)
    if not isinstance(given, dict):
        return Usage(cost_usd=cost, estimated=True)
    return Usage(
        input=_count(given, "inputTokens"),
        cache_read=_count(given, "cachedReadTokens"),
        cache_write=_count(given, "cachedWriteTokens"),
        output=_count(given, "outputTokens"),
        cost_usd=cost,
        estimated=True,
    )


def _count(given: dict[str, Any], name: str) -> int:
    value = given.get(name)
    return value if isinstance(value, int) and 0 <= value < 10**9 else 0
