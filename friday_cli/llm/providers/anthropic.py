"""Provider for the Messages API: at Anthropic, on a cloud platform, or at any server that implements it."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import Any, Literal

import msgspec

from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.protocol.provider import Chunk, Request, estimate_request

from ..transport import Endpoint, Transport, get_transport
from ..transport.model_suggestions import suggest_models
from .anthropic_request import AnthropicQuirks, Cache, DefaultQuirks, messages_request
from .anthropic_stream import AnthropicStream

PATH = "/v1/messages"
VERSION = "2026-10-21"
"""The `anthropic-version` header of every request, the same as the SDK's; a configured header replaces it."""
BINDING = "thinking-binding-controls-2026-08-01"
"""The `anthropic-beta` that lets a request drop thinking blocks of a conversation that has changed."""
_COUNTED = ("model", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control")


class AnthropicProvider:
    """A model behind the Messages API; see `core.protocol.provider.Provider`.

    `endpoint.headers` contains the key, as a bearer token (as the SDK sends both keys and tokens) or as `x-api-key`;
    ANTHROPIC_CUSTOM_HEADERS adds headers. `quirks` is the model's row in models.toml. `price` returns the cost of a
    usage in US dollars. `web_search` adds the service's built-in search if no tool has that name. An endpoint with a
    platform always uses the SDK.
    """

    badge = ""

    def __init__(
        self,
        model: str,
        *,
        endpoint: Endpoint,
        window: int,
        max_output: int,
        quirks: AnthropicQuirks | None = None,
        price: Callable[[Usage], float | None] | None = None,
        transport: Transport = "http",
        name: str = "anthropic",
        web_search: bool = False,
        cache: Cache | None = None,
    ) -> None:
        self.name, self.model = name, model
        self.window, self.max_output = window, max_output
        self._transport: Transport = "sdk" if endpoint.platform else transport
        headers = {key.lower(): value for key, value in endpoint.headers.items()}
        if self._transport == "http":
            custom = _custom_headers(os.environ.get("ANTHROPIC_CUSTOM_HEADERS", ""))
            headers = {"anthropic-version": VERSION, **custom, **headers}
        self._endpoint = msgspec.structs.replace(endpoint, headers=headers, sdk="anthropic")
        self.rate_limit_key = endpoint.rate_limit_key
        self._quirks = quirks or DefaultQuirks()
        self._price = price
        self._web_search = web_search
        self._cache: Cache = cache or ("blocks" if endpoint.platform in ("bedrock", "vertex") else "auto")
        self._rejected_thinking: dict[str, Literal["drop", "strip"]] = {}

    def __repr__(self) -> str:
        return f"AnthropicProvider({self.name}/{self.model})"

    def cost(self, usage: Usage) -> float | None:
        """US dollars for `usage`; None if the price is not known."""
        return self._price(usage) if self._price is not None else None

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """The reply in chunks, then one `ReplyDone`. Raises only ProviderError, with the usage known so far.

        If the service rejects thinking blocks because the conversation has changed, the request is retried without
        them, and all later requests of the conversation omit them. The rejection comes before the first chunk.
        """
        try:
            async with aclosing(self._attempt(request)) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
        except ProviderError as error:
            remedy = _thinking_remedy(error)
            if remedy is None or self._rejected_thinking.get(_conversation(request)) in (remedy, "strip"):
                await suggest_models(self._endpoint, self.model, error)
                raise
        self._rejected_thinking[_conversation(request)] = remedy
        async with aclosing(self._attempt(request)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def count_tokens(self, request: Request) -> int:
        """Input tokens of `request`, counted by the service. Raises ProviderError."""
        from ..transport.sdk import count_tokens

        body = self._body(request)
        kept = {key: body[key] for key in _COUNTED if key in body}
        return await count_tokens(self._endpoint_for(request), f"{PATH}/count_tokens", kept)

    async def list_models(self) -> list[dict[str, Any]]:
        """The models that this key can use, as the service's JSON. Raises ProviderError."""
        from ..transport.sdk import list_models

        return await list_models(self._endpoint)

    async def _attempt(self, request: Request) -> AsyncGenerator[Chunk, None]:
        used_call_ids = {call.id for message in request.messages for call in message.calls}
        reply = AnthropicStream(self.name, self._origin, used_call_ids=used_call_ids)
        send = get_transport(self._transport)
        try:
            async with aclosing(send(self._endpoint_for(request), PATH, self._body(request))) as events:
                async for event in events:
                    for chunk in reply.feed(event):
                        yield chunk
            done = reply.finish(partial(estimate_request, request))
        except ProviderError as error:
            usage = error.usage
            if usage is None and reply.started:
                usage = reply.usage(partial(estimate_request, request))
            error.usage = self._with_cost(usage) if isinstance(usage, Usage) else None
            raise
        yield msgspec.structs.replace(done, usage=self._with_cost(done.usage))

    def _with_cost(self, usage: Usage) -> Usage:
        return msgspec.structs.replace(usage, cost_usd=self.cost(usage))

    @property
    def _origin(self) -> str:
        return f"{self.name}/{self.model}"

    def _body(self, request: Request) -> dict[str, Any]:
        return messages_request(
            request,
            model=self.model,
            quirks=self._quirks,
            max_output=self.max_output,
            origin=self._origin,
            cache=self._cache,
            web_search=self._web_search,
            rejected_thinking=self._rejected_thinking.get(_conversation(request), ""),
        )

    def _endpoint_for(self, request: Request) -> Endpoint:
        """The endpoint, with the beta header if the conversation has rejected thinking blocks."""
        if self._rejected_thinking.get(_conversation(request)) != "drop":
            return self._endpoint
        headers = self._endpoint.headers
        betas = [*filter(None, [headers.get("anthropic-beta")]), BINDING]
        return msgspec.structs.replace(self._endpoint, headers={**headers, "anthropic-beta": ",".join(betas)})


def _custom_headers(text: str) -> dict[str, str]:
    """Headers from lines of `Name: value`, as the SDK reads ANTHROPIC_CUSTOM_HEADERS."""
    pairs = (line.partition(":") for line in text.split("\n"))
    return {name.strip().lower(): value.strip() for name, colon, value in pairs if colon}


def _conversation(request: Request) -> str:
    return request.cache_key or request.agent


def _thinking_remedy(error: ProviderError) -> Literal["drop", "strip"] | None:
    """How to retry after the service rejected thinking blocks; None for any other error."""
    text = error.message.lower()
    if error.kind != "invalid" or error.status not in (0, 400) or "thinking" not in text:
        return None
    if "prefix_mismatch_behavior" in text or "bound to a different conversation" in text:
        return "drop"
    return "strip" if "signature" in text or "block_binding" in text else None
