"""Data classes for the model servers found on this machine (without imports of the HTTP client)."""

from __future__ import annotations

import msgspec

SMALL = 16_000
"""A context window below this many tokens is too small for work with tools."""


class LocalModel(msgspec.Struct, frozen=True):
    """A model of a local server. `window` is its configured context in tokens (0: not reported), `trained` the largest
    context that it supports. `tools`: whether it can call tools, None if not reported."""

    id: str
    window: int = 0
    trained: int = 0
    tools: bool | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings to show before the model is used."""
        found = []
        if 0 < self.window < SMALL:
            found.append(
                f"its context window of {self.window:,} tokens is small for work with tools; give it 32,768 or more"
            )
        if self.tools is False:
            found.append("it cannot call tools")
        return tuple(found)


class LocalServer(msgspec.Struct, frozen=True):
    """A server that answered. `hint` tells how to increase the context of its models, if that is probably needed."""

    provider: str
    title: str
    base_url: str
    models: tuple[LocalModel, ...]
    hint: str = ""


class LocalServers(msgspec.Struct, frozen=True):
    """The servers found, and notes on those that were not checked."""

    servers: tuple[LocalServer, ...] = ()
    notes: tuple[str, ...] = ()
