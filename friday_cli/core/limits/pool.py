"""One quantity of a budget: its limit, and what of it is used, reserved and kept back."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..protocol.limits import lowest

Quantity = Literal["tokens", "cost"]
INFINITE = float("inf")


class Pool(msgspec.Struct, eq=False):
    """One quantity of one budget. `limit` None means no limit. `holdback` is kept back for wrap-ups at or below this level."""

    name: Quantity
    limit: float | None
    spent: float = 0
    reserved: float = 0
    holdback: float = 0

    @property
    def left(self) -> float:
        """The amount that requests may still use. Reservations of running requests are not subtracted."""
        return INFINITE if self.limit is None else self.limit - self.spent - self.holdback

    @property
    def free(self) -> float:
        """The amount that is left and not reserved; negative when too much was spent."""
        return self.left - self.reserved

    def lower(self, more: float | None) -> None:
        """Let at most so much `more` be spent; None: as much as before."""
        if more is not None:
            self.limit = lowest(self.limit, self.spent + more)
