"""How many tokens a service may count the input of a request as, which is estimated from its length before it is sent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from ..protocol.messages import Usage

MARGIN = 1.3
"""A service may count so many times the estimate, before it has shown how it counts."""
MOST_MARGIN = 2.0
"""The largest margin that is learned: Chinese text, numbers and base64 have up to twice the estimate. What counts more has
parts that a gateway adds to each request, which do not grow with it."""
Price = Callable[[Usage], float | None]
"""US dollars for a usage; None for an unknown price."""
ENOUGH = 200
"""Estimated tokens of a request from which on its count tells how the service counts."""


def dearest(new: int, again: int, price: Price) -> Usage:
    """So many tokens of new input, and `again` from the cache: written to the cache, or not, whichever costs more."""
    written, plain = Usage(cache_write=new, cache_read=again), Usage(input=new, cache_read=again)
    return max(written, plain, key=lambda usage: price(usage) or 0.0)


class InputCounts:
    """The largest counts of each service and model in a session, as shares of their estimates."""

    def __init__(self) -> None:
        self._largest: dict[tuple[str, str], float] = defaultdict(lambda: MARGIN)

    def margin(self, service: str, model: str) -> float:
        """How many times the estimate an input may count."""
        return self._largest[service, model]

    def most(self, service: str, model: str, sent: Usage, price: Price) -> Usage:
        """The usage `sent`, an estimate, with the most that its new input may count and cost."""
        return dearest(round(sent.input * self.margin(service, model)), sent.cache_read, price)

    def add(self, service: str, model: str, estimated: int, counted: int) -> None:
        """Record as how many tokens an input of `estimated` tokens was counted."""
        if estimated >= ENOUGH:
            largest = max(self._largest[service, model], counted / estimated)
            self._largest[service, model] = min(MOST_MARGIN, largest)
