"""Adds model names to the hint of an error that says that a model does not exist."""

from __future__ import annotations

from collections.abc import Collection

from friday_cli.core.protocol.errors import ProviderError

from .endpoint import Endpoint
from .text import one_line

LIST_S = 5.0
"""Maximum seconds to get the service's list of models; the error waits for it."""
_MAX_LISTED, _MAX_NAME = 8, 120


async def suggest_models(endpoint: Endpoint, model: str, error: ProviderError) -> None:
    """Prepend names similar to `model` to the hint of a `not_found` error.

    They come from the list that the service offers to this key, or from `endpoint.models` if there is none.
    """
    if error.kind != "not_found":
        return
    listed = await _listed(endpoint)
    if model in (listed or endpoint.models):
        return  # the model exists: something else was not found
    if suggestion := _suggestion(model, listed, endpoint.models):
        error.hint = f"{suggestion} {error.hint}".strip()


async def _listed(endpoint: Endpoint) -> list[str]:
    """The model ids that the service lists; empty if it gives no list."""
    from . import sdk

    try:
        found = await sdk.list_models(endpoint, seconds=LIST_S)
    except ProviderError:
        return []
    return [name for row in found if isinstance(name := row.get("id"), str) and 0 < len(name) <= _MAX_NAME]


def _suggestion(model: str, listed: Collection[str], known: Collection[str]) -> str:
    import difflib

    names = {one_line(name): name for name in (listed or known)}
    lower = {shown.lower(): shown for shown in names}
    near = [lower[name] for name in difflib.get_close_matches(model.lower(), list(lower), 3, 0.6)]
    if near:
        return f"Did you mean {' or '.join(near)}?"
    return f"It has: {', '.join(names)}." if listed and len(names) <= _MAX_LISTED else ""
