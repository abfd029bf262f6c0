"""Stands for the model of an external agent: Friday itself sends it nothing."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.format import EXTERNAL
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.protocol.provider import Chunk, NoteChunk, Request

WINDOW = 10_000_000
"""Tokens of context: so many that Friday never compacts the history, which is the program's."""


class ExternalProvider:
    """Implements `Provider` for the program `program`, which sends its own requests."""

    def __init__(self, program: str) -> None:
        self.name, self.model = EXTERNAL, program
        self.window, self.max_output = WINDOW, 1
        self.rate_limit_key, self.badge = f"{EXTERNAL}-{program}", ""

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Raises ProviderError: nothing is sent to a program's model by Friday."""
        for _ in range(0):
            yield NoteChunk("")  # makes this a generator
        raise ProviderError("config", f"{self.model} runs another program, which sends its own requests.")

    def cost(self, usage: Usage) -> float | None:
        """Always 0: nothing is sent. What the program sends is priced request by request."""
        return 0.0


class PricedModel(ExternalProvider):
    """A model of a service that a program uses through the meter. `price` is its cost function."""

    def __init__(self, service: str, model: str, key: str, price: Callable[[Usage], float | None]) -> None:
        super().__init__(model)
        self.name, self.rate_limit_key, self._price = service, key, price

    def cost(self, usage: Usage) -> float | None:
        """US dollars for `usage`; None for an unknown price."""
        return self._price(usage)
