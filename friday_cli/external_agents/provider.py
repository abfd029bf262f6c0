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
    """Implements `Provider` for the program or the model `model`, to which a program sends its requests. `cost` prices them where the service
    `name` counts them by `key`; Friday itself sends nothing, which costs nothing."""

    def __init__(
        self,
        model: str,
        name: str = EXTERNAL,
        key: str = "",
        cost: Callable[[Usage], float | None] = lambda usage: 0.0,
    ) -> None:
        self.name, self.model, self.cost = name, model, cost
        self.window, self.max_output = WINDOW, 1
        self.rate_limit_key, self.badge = key or f"{EXTERNAL}-{model}", ""

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Raises ProviderError: nothing is sent to a program's model by Friday."""
        for _ in range(0):
            yield NoteChunk("")  # makes this a generator
        raise ProviderError("config", f"{self.model} runs another program, which sends its own requests.")
