"""The way to a model service: bytes and HTTP in, raw event dicts and `ProviderError` out.

Providers share this room; nothing in it knows what an event means. `events_of(transport)` gives the function

    events(endpoint, path, body) -> AsyncGenerator[dict, None]

which POSTs `body` as JSON and yields each server-sent event as the dict it carries. Where the dict names no `type`,
the event's own name is put there; the closing `[DONE]` of Chat Completions is yielded as `{"type": "[DONE]"}`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, Literal, Protocol

from .endpoint import Endpoint

Transport = Literal["http", "sdk"]

__all__ = ["Endpoint", "Events", "Transport", "aclose_all", "events_of"]


class Events(Protocol):
    """A transport. Raises `ProviderError` and nothing else (cancellation aside); closes its connection on every way out."""

    def __call__(self, endpoint: Endpoint, path: str, body: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]: ...


def events_of(transport: Transport) -> Events:
    """The transport of that name: `http` over httpx2 directly, `sdk` through the official SDK of the endpoint."""
    if transport == "sdk":
        from .sdk import events as over_sdk

        return over_sdk
    from .http import events as over_http

    return over_http


async def aclose_all() -> None:
    """Close every kept connection of the running event loop (call once before the loop ends)."""
    from .http import aclose_all as close

    await close()
