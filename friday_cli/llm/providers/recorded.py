"""A model that answers from a recording."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import NamedTuple, Protocol

from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.protocol.provider import Chunk, ReplyDone, Request, TextChunk

BADGE = "replayed: no request is sent"


class ModelFacts(NamedTuple):
    """What a recording says of a model: its window and longest reply in tokens, and US dollars of a token read and written (None: unknown)."""

    window: int = 200_000
    max_output: int = 32_000
    input_usd: float | None = 0.0
    output_usd: float | None = 0.0


class RecordedError(NamedTuple):
    """A failed request: the error, and the text that had been received."""

    error: ProviderError
    received: str = ""


class Replies(Protocol):
    """Where the replies come from."""

    def facts(self, model: str) -> ModelFacts:
        """The window, price and abilities of a model, by its full name."""

    async def reply(self, request: Request, model: str) -> ReplyDone | RecordedError | None:
        """What the request to `model` was answered, after the time that it took; None if there is no reply."""


class RecordedProvider:
    """Implements `Provider` for the model `name/model`."""

    rate_limit_key = "recorded"

    def __init__(self, name: str, model: str, replies: Replies) -> None:
        self.name, self.model, self.badge = name, model, BADGE
        self._replies = replies
        facts = self._facts = replies.facts(f"{name}/{model}")
        self.window, self.max_output = facts.window, facts.max_output

    def cost(self, usage: Usage) -> float | None:
        """US dollars for `usage`, as the recording has them for its estimates."""
        if self._facts.input_usd is None or self._facts.output_usd is None:
            return None
        return usage.output * self._facts.output_usd + (usage.input + usage.cache_write) * self._facts.input_usd

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """The recorded reply in one piece. Raises ProviderError as recorded."""
        found = await self._replies.reply(request, f"{self.name}/{self.model}")
        if found is None:
            raise ProviderError("config", "The recording has no reply to this request.")
        if isinstance(found, RecordedError):
            if found.received:
                yield TextChunk(found.received)
            raise found.error
        if text := found.message.text:
            yield TextChunk(text)
        yield found
