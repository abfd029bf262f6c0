"""Asking a provider at the loopback server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest

from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.events import ToolSpec
from friday_cli.core.protocol.messages import Message, user
from friday_cli.core.protocol.provider import Chunk, ReplyDone, Request
from friday_cli.llm.providers.anthropic import AnthropicProvider
from friday_cli.llm.providers.openai import OpenAIChat, OpenAIResponses
from friday_cli.llm.providers.pricing import Pricing
from friday_cli.llm.providers.service_provider import ServedModel
from friday_cli.llm.transport import Endpoint, Transport
from tests.servers.script_player import Reply, Server, playing

KEY = "sk-canary-0123456789"
TRANSPORTS: tuple[Transport, ...] = ("http", "sdk")
TOOLS = (ToolSpec("grep", "Search.", {"type": "object", "properties": {"x": {"type": "integer"}}}),)
Wire = Literal["chat", "responses", "messages"]


def asked(*messages: Message, **more: Any) -> Request:
    return Request(
        **{
            "agent": "a",
            "system": "be brief",
            "tools": TOOLS,
            "messages": messages or (user("find it"),),
            "max_output": 1000,
            **more,
        }
    )


PROVIDERS: dict[Wire, Any] = {"chat": OpenAIChat, "responses": OpenAIResponses, "messages": AnthropicProvider}


def provider_at(
    url: str,
    wire: Wire = "chat",
    *,
    headers: dict[str, str] | None = None,
    pricing: Pricing | None = None,
    quirks: Any = None,
    **more: Any,
) -> Any:
    """A provider at `url`. `more`: fields of its `ServedModel` or of its `Endpoint`."""
    base = url if wire == "messages" else f"{url}/v1"
    served = {name: more.pop(name) for name in ServedModel.__struct_fields__ if name in more}
    model = ServedModel(**{"service": "own", "name": "m-1", "window": 100_000, "max_output": 4000, **served})
    sent = {"authorization": f"Bearer {KEY}", **(headers or {})}
    given: dict[str, Any] = {"service": "Own", "base_url": base, "key_name": "OWN_KEY", "idle_s": 60.0, **more}
    return PROVIDERS[wire](model, Endpoint(headers=sent, **given), pricing, quirks)


@asynccontextmanager
async def at_server(*replies: Reply, wire: Wire = "chat", **more: Any) -> AsyncIterator[tuple[Any, Server]]:
    """A provider and the server it talks to."""
    async with playing(*replies) as server:
        yield provider_at(server.url, wire, **more), server


async def ask(provider: Any, request: Request | None = None) -> tuple[list[Chunk], ReplyDone]:
    """The chunks before the end, and the end; there is exactly one."""
    chunks = [chunk async for chunk in provider.stream(request or asked())]
    assert [isinstance(c, ReplyDone) for c in chunks] == [False] * (len(chunks) - 1) + [True]
    return chunks[:-1], chunks[-1]


async def fails(provider: Any, request: Request | None = None) -> tuple[list[Chunk], ProviderError]:
    """The chunks before the failure, and the failure."""
    chunks: list[Chunk] = []

    async def read() -> None:
        async for chunk in provider.stream(request or asked()):
            chunks.append(chunk)

    with pytest.raises(ProviderError) as raised:
        await read()
    assert not any(isinstance(c, ReplyDone) for c in chunks)
    assert KEY not in str(raised.value)
    assert "\n" not in str(raised.value)
    return chunks, raised.value
