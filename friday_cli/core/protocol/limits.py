"""What a piece of work may use up: one object for profiles, tasks, hooks and resumed agents."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

import msgspec

N = TypeVar("N", int, float)


class BudgetOwner(StrEnum):
    """Whose a budget is that does not belong to an agent, in the words that the log and people have for it."""

    ITEM = "the item"
    PROMPT = "this prompt"
    CALL = "this call"
    SERVER = "friday mcp serve"


class Limits(msgspec.Struct, frozen=True):
    """Limits of an agent or a task. None: no limit of its own."""

    tokens: int | None = None
    """Input not read from a cache, cache writes and output, over the life of the agent."""
    cost: float | None = None
    """US dollars over the life of the agent."""
    turns: int | None = None
    """Turns of one run."""
    time_s: float | None = None
    """Active seconds of one run."""

    def otherwise(self, usual: Limits) -> Limits:
        """These limits, and those of `usual` where these are not set."""
        return Limits(
            usual.tokens if self.tokens is None else self.tokens,
            usual.cost if self.cost is None else self.cost,
            usual.turns if self.turns is None else self.turns,
            usual.time_s if self.time_s is None else self.time_s,
        )


def least(*given: Limits) -> Limits:
    """The lowest of each limit."""
    return Limits(
        lowest(*(limits.tokens for limits in given)),
        lowest(*(limits.cost for limits in given)),
        lowest(*(limits.turns for limits in given)),
        lowest(*(limits.time_s for limits in given)),
    )


def lowest(*values: N | None) -> N | None:
    """The lowest value that is set, None if none is."""
    known = [value for value in values if value is not None]
    return min(known) if known else None
