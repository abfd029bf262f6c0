"""Anthropic's models over the Messages API, at Anthropic, on the clouds, or at a server that speaks it."""

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

from ..transport import Endpoint, Transport, events_of
from ..transport.model_suggestions import name_near
from .anthropic_request import AnthropicQuirks, Cache, NoQuirks, body_of
from .anthropic_stream import AnthropicStream

PATH = "/v1/messages"
VERSION = "2026-10-21"
"""The `anthropic-version` that goes with every request, as the SDK's; a configured header replaces it."""
BINDING = "thinking-binding-controls-2026-08-01"
"""The beta that lets a request say what happens to thinking whose conversation has changed."""
_COUNTED = ("model", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control")


class AnthropicProvider:
    """A model behind the Messages API; see `core.provider.Provider`.

    The key is in `endpoint.headers`, as bearer (which is how the SDK sends both keys and tokens) or as `x-api-key`;
    ANTHROPIC_CUSTOM_HEADERS adds more. `quirks` is the model's row of the model table, `price` gives US dollars for a
    usage. `web_search` adds the service's own search where no tool of that name is given. A platform of the endpoint
    always goes over its SDK.
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
        self.lane = endpoint.lane
        self._quirks = quirks or NoQuirks()
        self._price = price
        self._web_search = web_search
        self._cache: Cache = cache or ("blocks" if endpoint.platform in ("bedrock", "vertex") else "auto")
        self._stale: dict[str, Literal["drop", "strip"]] = {}

    def __repr__(self) -> str:
        return f"AnthropicProvider({self.name}/{self.model})"

    def cost(self, usage: Usage) -> float | None:
        """US dollars for `usage`; None where the price is not known."""
        return self._price(usage) if self._price is not None else None

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """The reply in chunks, then one `Done`. Raises ProviderError only, with the usage known so far.

        Thinking that the service refuses because its conversation has changed is left out, in this request and in
        all later ones of the conversation; nothing has been shown by then.
        """
        try:
            async with aclosing(self._attempt(request)) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
        except ProviderError as error:
            remedy = _remedy(error)
            if remedy is None or self._stale.get(_conversation(request)) in (remedy, "strip"):
                await name_near(self._endpoint, self.model, error)
                raise
        self._stale[_conversation(request)] = remedy
        async with aclosing(self._attempt(request)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def count_tokens(self, request: Request) -> int:
        """Input tokens of `request` as the service counts them. Raises ProviderError."""
        from ..transport.sdk import count_tokens

        body = self._body(request)
        kept = {key: body[key] for key in _COUNTED if key in body}
        return await count_tokens(self._reached(request), f"{PATH}/count_tokens", kept)

    async def list_models(self) -> list[dict[str, Any]]:
        """The models this key can use, as the service describes them. Raises ProviderError."""
        from ..transport.sdk import list_models

        return await list_models(self._endpoint)

    async def _attempt(self, request: Request) -> AsyncGenerator[Chunk, None]:
        taken = {call.id for message in request.messages for call in message.calls}
        fold = AnthropicStream(self.name, self._origin, taken=taken)
        send = events_of(self._transport)
        try:
            async with aclosing(send(self._reached(request), PATH, self._body(request))) as events:
                async for event in events:
                    for chunk in fold.take(event):
                        yield chunk
            done = fold.done(partial(estimate_request, request))
        except ProviderError as error:
            usage = (
                fold.usage(partial(estimate_request, request)) if error.usage is None and fold.begun else error.usage
            )
            error.usage = self._priced(usage) if isinstance(usage, Usage) else None
            raise
        yield msgspec.structs.replace(done, usage=self._priced(done.usage))

    def _priced(self, usage: Usage) -> Usage:
        return msgspec.structs.replace(usage, cost_usd=self.cost(usage))

    @property
    def _origin(self) -> str:
        return f"{self.name}/{self.model}"

    def _body(self, request: Request) -> dict[str, Any]:
        return body_of(
            request,
            model=self.model,
            quirks=self._quirks,
            max_output=self.max_output,
            origin=self._origin,
            cache=self._cache,
            web_search=self._web_search,
            stale=self._stale.get(_conversation(request), ""),
        )

    def _reached(self, request: Request) -> Endpoint:
        """The endpoint, with the beta that a conversation with stale thinking needs."""
        if self._stale.get(_conversation(request)) != "drop":
            return self._endpoint
        headers = self._endpoint.headers
        betas = [*filter(None, [headers.get("anthropic-beta")]), BINDING]
        return msgspec.structs.replace(self._endpoint, headers={**headers, "anthropic-beta": ",".join(betas)})


def _custom_headers(text: str) -> dict[str, str]:
    """Headers written as lines of `Name: value`, as the SDK reads them from the environment."""
    pairs = (line.partition(":") for line in text.split("\n"))
    return {name.strip().lower(): value.strip() for name, colon, value in pairs if colon}


def _conversation(request: Request) -> str:
    return request.cache_key or request.agent


def _remedy(error: ProviderError) -> Literal["drop", "strip"] | None:
    """What to do about thinking that a service did not take back; None for any other error."""
    text = error.message.lower()
    if error.kind != "invalid" or error.status not in (0, 400) or "thinking" not in text:
        return None
    if "prefix_mismatch_behavior" in text or "bound to a different conversation" in text:
        return "drop"
    return "strip" if "signature" in text or "block_binding" in text else None
