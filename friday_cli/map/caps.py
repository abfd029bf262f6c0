"""What a batch and its items may spend: US dollars, tokens, or both."""

from __future__ import annotations

import msgspec

from friday_cli.core.limits.budget import DUST, Amounts, Budget


class Cap(msgspec.Struct, frozen=True):
    """The most that may be spent: `cost` in US dollars, and `tokens` (input that was not read from a cache, cache writes and
    output). None: there is no such limit."""

    cost: float | None = None
    tokens: int | None = None

    @property
    def amounts(self) -> Amounts:
        """The tokens and US dollars to reserve for it; 0 where it has no limit."""
        return Amounts(float(self.tokens or 0), self.cost or 0.0)

    @property
    def room(self) -> Amounts:
        """The amounts that it leaves; infinite for a limit that there is not."""
        infinite = float("inf")
        return Amounts(infinite if self.tokens is None else self.tokens, infinite if self.cost is None else self.cost)

    def text(self) -> str:
        """For people: `$5.00`, `100,000 tokens`, or both."""
        parts = [] if self.cost is None else [dollars(self.cost)]
        parts += [] if self.tokens is None else [f"{self.tokens:,} tokens"]
        return " and ".join(parts)

    def left(self, cost: float, tokens: int) -> Cap:
        """What is left of it after `cost` US dollars and `tokens` were spent, at least 0."""
        return Cap(
            None if self.cost is None else max(0.0, self.cost - cost),
            None if self.tokens is None else max(0, self.tokens - tokens),
        )

    def within(self, free: Amounts) -> Cap:
        """The part of it that is `free`."""
        return Cap(
            None if self.cost is None else min(self.cost, free.cost),
            None if self.tokens is None else int(min(self.tokens, free.tokens)),
        )

    def fits(self, free: Amounts) -> bool:
        """Whether as much is `free`."""
        return free.cost >= (self.cost or 0.0) - DUST and free.tokens >= (self.tokens or 0)

    def above(self, other: Cap) -> bool:
        """Whether more of anything may be spent than by `other`."""
        more_cost = self.cost is not None and self.cost > (other.cost or 0.0)
        return more_cost or (self.tokens is not None and self.tokens > (other.tokens or 0))

    def budget(self, name: str, parent: Budget | None = None) -> Budget:
        """A budget with this limit."""
        return Budget(name, tokens=self.tokens, cost=self.cost, parent=parent)


def dollars(value: float, *, estimated: float = 0.0) -> str:
    """US dollars with at least two digits that count. `~` before them: a part is `estimated`."""
    if estimated:
        return f"~{dollars(value)}"
    return f"${value:.2f}" if value >= 0.1 or not value else f"${value:.4f}" if value >= 0.001 else f"${value:.6f}"
