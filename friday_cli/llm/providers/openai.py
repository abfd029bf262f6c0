"""Providers for OpenAI's two APIs: Responses, and Chat Completions, which most other services and local servers use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec

from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.messages import Message, Usage
from friday_cli.core.protocol.provider import Chunk, ReplyDone, Request

from ..transport import Transport, get_transport
from ..transport.endpoint import Endpoint
from ..transport.error_mapping import from_exception
from ..transport.model_suggestions import suggest_models
from .openai_chat import ChatStream, chat_request
from .openai_parts import SERVICES, CostFunction, OpenAIQuirks, reported_usage, require_content, used_call_ids
from .openai_responses import ResponsesStream, responses_request

__all__ = ["SERVICES", "CostFunction", "OpenAIChat", "OpenAIQuirks", "OpenAIResponses"]


_COUNTED = ("model", "input", "instructions", "tools", "tool_choice", "reasoning")


class _OpenAIProvider(ABC):
    """Common part of both APIs: one POST whose events become one message.

    `window` and `max_output` are tokens. `quirks` default to those of the service called `name`. `price` returns the
    cost of one request's usage in US dollars, None if unknown.
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
        price: CostFunction | None = None,
        transport: Transport = "http",
    ) -> None:
        self.name, self.model, self.window, self.max_output = name, model, window, max_output
        self.rate_limit_key = endpoint.rate_limit_key
        self._endpoint = msgspec.structs.replace(endpoint, sdk="openai")
        self._transport: Transport = "sdk" if endpoint.platform else transport
        self._quirks = SERVICES.get(name, OpenAIQuirks()) if quirks is None else quirks
        self._price = price

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name}/{self.model})"

    def cost(self, usage: Usage) -> float | None:
        """US dollars for `usage`; None if the price is not known."""
        return self._price(usage) if self._price else None

    async def list_models(self) -> list[dict[str, Any]]:
        """The models that this key can use, as the service's JSON. Raises ProviderError."""
        from ..transport.sdk import list_models

        return await list_models(self._endpoint)

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """The reply in chunks, then exactly one `ReplyDone`. Raises only ProviderError (and CancelledError)."""
        reply = self._new_stream(request)
        try:
            send = get_transport(self._transport)
            async with aclosing(send(self._endpoint, self.path, self._body(request))) as events:
                async for event in events:
                    for chunk in reply.feed(event):
                        yield chunk
        except Exception as error:
            failed = from_exception(self._endpoint, error)
            if not (reply.ended and failed.transient):
                failed.usage = failed.usage or self._failed_usage(reply, request)
                await suggest_models(self._endpoint, self.model, failed)
                raise failed from (None if failed is error else error)
        yield self._finish(reply, request)

    def _finish(self, reply: ChatStream | ResponsesStream, request: Request) -> ReplyDone:
        service = self._endpoint.service
        if not reply.ended:
            message = f"{service} ended its reply before it was complete ({self._endpoint.host})."
            raise ProviderError("truncated", message, usage=self._failed_usage(reply, request))
        try:
            parts = reply.parts()
            searches = reply.searches()
            usage = reported_usage(reply.usage, request, parts, self._price, searches=len(searches))
            require_content(parts, reply.stop, service, usage)
        except Exception as error:
            failed = from_exception(self._endpoint, error)
            failed.usage = failed.usage or self._failed_usage(reply, request)
            raise failed from (None if failed is error else error)
        return ReplyDone(Message("assistant", parts), usage, reply.stop, reply.note, searches)

    def _failed_usage(self, reply: ChatStream | ResponsesStream, request: Request) -> Usage | None:
        """Usage of a failed attempt: as reported, else estimated if a part of the reply arrived."""
        reply.ended = False
        try:
            parts = reply.parts()
            if not (parts or reply.usage):
                return None
            return reported_usage(reply.usage, request, parts, self._price, searches=len(reply.searches()))
        except Exception:  # reporting the original failure is more important than its usage
            return None

    @property
    def _origin(self) -> str:
        """Marks reasoning and opaque blocks: they are sent back only to the provider and model that made them."""
        return f"{self.name}/{self.model}"

    @abstractmethod
    def _body(self, request: Request) -> dict[str, Any]: ...

    @abstractmethod
    def _new_stream(self, request: Request) -> ChatStream | ResponsesStream: ...


class OpenAIChat(_OpenAIProvider):
    """A service with Chat Completions below its `base_url`."""

    path = "/chat/completions"

    def _body(self, request: Request) -> dict[str, Any]:
        return chat_request(request, self.model, quirks=self._quirks, max_output=self.max_output, origin=self._origin)

    def _new_stream(self, request: Request) -> ChatStream:
        return ChatStream(self._endpoint, self._origin, used_call_ids(request))


class OpenAIResponses(_OpenAIProvider):
    """A service with the Responses API.

    `web_search` adds the service's built-in search if no tool has that name.
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
        price: CostFunction | None = None,
        transport: Transport = "http",
        web_search: bool = False,
    ) -> None:
        super().__init__(
            name, model, endpoint=endpoint, window=window, max_output=max_output, quirks=quirks, price=price,
            transport=transport,
        )  # fmt: skip
        self._web_search = web_search

    async def count_tokens(self, request: Request) -> int:
        """Input tokens of `request`, counted by the service. Raises ProviderError."""
        from ..transport.sdk import count_tokens

        body = self._body(request)
        kept = {key: body[key] for key in _COUNTED if key in body}
        return await count_tokens(self._endpoint, f"{self.path}/input_tokens", kept)

    def _body(self, request: Request) -> dict[str, Any]:
        return responses_request(
            request, self.model, quirks=self._quirks, max_output=self.max_output, origin=self._origin,
            web_search=self._web_search,
        )  # fmt: skip

    def _new_stream(self, request: Request) -> ResponsesStream:
        return ResponsesStream(self._endpoint, self._origin, used_call_ids(request))
