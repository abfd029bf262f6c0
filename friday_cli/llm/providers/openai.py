"""OpenAI's two wires: the Responses API, and Chat Completions as most other services and local servers speak it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec

from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.messages import Message, Usage
from friday_cli.core.protocol.provider import Chunk, ReplyDone, Request

from ..transport import Transport, events_of
from ..transport.endpoint import Endpoint
from ..transport.error_mapping import from_exception
from ..transport.model_suggestions import name_near
from .openai_chat import ChatStream, chat_body
from .openai_parts import SERVICES, OpenAIQuirks, Price, require, taken_ids, usage_of
from .openai_responses import ResponsesFold, responses_body

__all__ = ["SERVICES", "OpenAIChat", "OpenAIQuirks", "OpenAIResponses", "Price"]


_COUNTED = ("model", "input", "instructions", "tools", "tool_choice", "reasoning")


class _OpenAIProvider(ABC):
    """What both wires have in common: one POST, its events folded into one message.

    `window` and `max_output` are tokens; `quirks` default to those of the service called `name`; `price` gives US
    dollars for the usage of one request, None where unknown.
    """

    path: str
    badge = ""

    def __init__(
        self,
        name: str,
        model: str,
        *,
        endpoint: Endpoint,
        window: int,
        max_output: int,
        quirks: OpenAIQuirks | None = None,
        price: Price | None = None,
        transport: Transport = "http",
    ) -> None:
        self.name, self.model, self.window, self.max_output = name, model, window, max_output
        self.lane = endpoint.lane
        self._endpoint = msgspec.structs.replace(endpoint, sdk="openai")
        self._transport: Transport = "sdk" if endpoint.platform else transport
        self._quirks = SERVICES.get(name, OpenAIQuirks()) if quirks is None else quirks
        self._price = price

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name}/{self.model})"

    def cost(self, usage: Usage) -> float | None:
        """US dollars for `usage`; None where the price is not known."""
        return self._price(usage) if self._price else None

    async def list_models(self) -> list[dict[str, Any]]:
        """The models this key can use, as the service describes them. Raises ProviderError."""
        from ..transport.sdk import list_models

        return await list_models(self._endpoint)

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Ends with exactly one `Done`, or raises `ProviderError` and nothing else (cancellation aside)."""
        fold = self._fold(request)
        try:
            send = events_of(self._transport)
            async with aclosing(send(self._endpoint, self.path, self._body(request))) as events:
                async for event in events:
                    for chunk in fold.feed(event):
                        yield chunk
        except Exception as error:
            failed = from_exception(self._endpoint, error)
            if not (fold.ended and failed.transient):
                failed.usage = failed.usage or self._spent(fold, request)
                await name_near(self._endpoint, self.model, failed)
                raise failed from (None if failed is error else error)
        yield self._done(fold, request)

    def _done(self, fold: ChatStream | ResponsesFold, request: Request) -> ReplyDone:
        service = self._endpoint.service
        if not fold.ended:
            message = f"{service} ended its reply before it was complete ({self._endpoint.host})."
            raise ProviderError("truncated", message, usage=self._spent(fold, request))
        try:
            parts = fold.parts()
            searches = fold.searches()
            usage = usage_of(fold.usage, request, parts, self._price, searches=len(searches))
            require(parts, fold.stop, service, usage)
        except Exception as error:
            failed = from_exception(self._endpoint, error)
            failed.usage = failed.usage or self._spent(fold, request)
            raise failed from (None if failed is error else error)
        return ReplyDone(Message("assistant", parts), usage, fold.stop, fold.note, searches)

    def _spent(self, fold: ChatStream | ResponsesFold, request: Request) -> Usage | None:
        """What a failed attempt has cost: as reported, else an estimate once some of the reply had come."""
        fold.ended = False
        try:
            parts = fold.parts()
            if not (parts or fold.usage):
                return None
            return usage_of(fold.usage, request, parts, self._price, searches=len(fold.searches()))
        except Exception:  # the failure being told of counts for more than what it cost
            return None

    @property
    def _origin(self) -> str:
        """Whose blocks go back unchanged; a change of the model ends that."""
        return f"{self.name}/{self.model}"

    @abstractmethod
    def _body(self, request: Request) -> dict[str, Any]: ...

    @abstractmethod
    def _fold(self, request: Request) -> ChatStream | ResponsesFold: ...


class OpenAIChat(_OpenAIProvider):
    """A service that speaks Chat Completions below its `base_url`."""

    path = "/chat/completions"

    def _body(self, request: Request) -> dict[str, Any]:
        return chat_body(request, self.model, quirks=self._quirks, max_output=self.max_output, origin=self._origin)

    def _fold(self, request: Request) -> ChatStream:
        return ChatStream(self._endpoint, self._origin, taken_ids(request))


class OpenAIResponses(_OpenAIProvider):
    """A service that speaks the Responses API.

    `web_search` adds the service's own search where no tool of that name is given.
    """

    path = "/responses"

    def __init__(
        self,
        name: str,
        model: str,
        *,
        endpoint: Endpoint,
        window: int,
        max_output: int,
        quirks: OpenAIQuirks | None = None,
        price: Price | None = None,
        transport: Transport = "http",
        web_search: bool = False,
    ) -> None:
        super().__init__(
            name, model, endpoint=endpoint, window=window, max_output=max_output, quirks=quirks, price=price,
            transport=transport,
        )  # fmt: skip
        self._web_search = web_search

    async def count_tokens(self, request: Request) -> int:
        """Input tokens of `request` as the service counts them. Raises ProviderError."""
        from ..transport.sdk import count_tokens

        body = self._body(request)
        kept = {key: body[key] for key in _COUNTED if key in body}
        return await count_tokens(self._endpoint, f"{self.path}/input_tokens", kept)

    def _body(self, request: Request) -> dict[str, Any]:
        return responses_body(
            request, self.model, quirks=self._quirks, max_output=self.max_output, origin=self._origin,
            web_search=self._web_search,
        )  # fmt: skip

    def _fold(self, request: Request) -> ResponsesFold:
        return ResponsesFold(self._endpoint, self._origin, taken_ids(request))
