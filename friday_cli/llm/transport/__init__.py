"""Transports to model services: they turn HTTP responses into event dicts and failures into `ProviderError`.

All providers share this package; it does not know the meaning of an event. `get_transport(name)` returns the function

    events(endpoint, path, body) -> AsyncGenerator[dict, None]

which POSTs `body` as JSON (`http` also accepts an `EncodedList` in it) and yields the dict of each server-sent event. A dict without `type` gets the event's name
as its type. The final `[DONE]` of Chat Completions is yielded as `{"type": "[DONE]"}`.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable
from typing import Any

from .endpoint import Endpoint, Transport

__all__ = ["Endpoint", "Transport", "aclose_all", "get_transport"]


Events = Callable[[Endpoint, str, dict[str, Any]], AsyncGenerator[dict[str, Any], None]]
"""A transport. Raises only `ProviderError` (and CancelledError). Always releases its connection."""


def get_transport(transport: Transport) -> Events:
    """The transport of that name: `http` sends requests itself, `sdk` uses the official SDK of the endpoint."""
    if transport == "sdk":
        from . import sdk

        return sdk.events
    from . import http

    return http.events


async def aclose_all() -> None:
    """Close all idle connections of the running event loop (call once before the loop ends)."""
    if http := sys.modules.get(f"{__name__}.http"):
        await http.aclose_all()
