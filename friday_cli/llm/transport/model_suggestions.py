"""What to add where a service does not know a model: the names of its models that are near."""

from __future__ import annotations

from collections.abc import Collection

from friday_cli.core.protocol.errors import ProviderError

from .endpoint import Endpoint
from .text import plain

NEAR_S = 5.0
"""Seconds that asking for the service's list may take: a failure is being told of."""
_FEW, _LONGEST = 8, 120


async def name_near(endpoint: Endpoint, model: str, error: ProviderError) -> None:
    """Put names near to `model` before the hint of an error that says that there is no such model.

    They are of the list that the service gives to this key, else of the models known of it (`endpoint.models`).
    """
    if error.kind != "not_found":
        return
    listed = await _listed(endpoint)
    if model in (listed or endpoint.models):
        return  # the name is right: something else is not there
    if words := _words(model, listed, endpoint.models):
        error.hint = f"{words} {error.hint}".strip()


async def _listed(endpoint: Endpoint) -> list[str]:
    """The ids of the service's own list, nothing where it gives none."""
    from . import sdk

    try:
        found = await sdk.list_models(endpoint, seconds=NEAR_S)
    except ProviderError:
        return []
    return [name for row in found if isinstance(name := row.get("id"), str) and 0 < len(name) <= _LONGEST]


def _words(model: str, listed: Collection[str], known: Collection[str]) -> str:
    import difflib

    names = {plain(name): name for name in (listed or known)}
    lower = {shown.lower(): shown for shown in names}
    near = [lower[name] for name in difflib.get_close_matches(model.lower(), list(lower), 3, 0.6)]
    if near:
        return f"Did you mean {' or '.join(near)}?"
    return f"It has: {', '.join(names)}." if listed and len(names) <= _FEW else ""
