"""What the list of a service's models tells about a request that failed."""

from __future__ import annotations

import difflib
from typing import Any

from friday_cli.core.protocol.errors import ProviderError

from ..transport import sdk
from ..transport.endpoint import Endpoint
from ..transport.text import one_line

LIST_S = 5.0
"""Maximum seconds to get the list; an error waits for it."""
_MAX_LISTED, _MAX_NAME = 8, 120


async def explained(error: ProviderError, endpoint: Endpoint, model: str) -> ProviderError:
    """The error with a hint: models with a similar name where `model` was not found; for an empty response that of a full context, since
    llama-cpp-python's server sends nothing then."""
    if error.kind == "not_found":
        return error.but(hint=f"{_suggestion(await _list(endpoint), endpoint, model)} {error.hint}".strip())
    if error.usage is None and endpoint.is_loopback and any(r.get("owned_by") == "me" for r in await _list(endpoint)):
        message = f"{endpoint.service} sent an empty response: the conversation is larger than its context."
        hint = "Start llama-cpp-python with a larger context, such as --n_ctx 32768."
        return ProviderError("context", message, hint=hint)
    return error


def _suggestion(rows: list[dict[str, Any]], endpoint: Endpoint, model: str) -> str:
    """Models with a similar name: from the list that the service offers to this key, else known ones."""
    listed = [name for row in rows if isinstance(name := row.get("id"), str) and 0 < len(name) <= _MAX_NAME]
    names = listed or endpoint.models
    if model in names:
        return ""  # the model exists: something else was not found
    shown = {one_line(name).lower(): one_line(name) for name in names}
    near = [shown[name] for name in difflib.get_close_matches(model.lower(), list(shown), 3, 0.6)]
    if near:
        return f"Did you mean {' or '.join(near)}?"
    return f"It has: {', '.join(shown.values())}." if listed and len(shown) <= _MAX_LISTED else ""


async def _list(endpoint: Endpoint) -> list[dict[str, Any]]:
    """The models that the service offers to this key; empty if it does not list them."""
    try:
        return await sdk.list_models(endpoint, seconds=LIST_S)
    except ProviderError:
        return []
