"""Model servers that were found on this machine, as plain data."""

from __future__ import annotations

import msgspec

SMALL = 16_000
"""A context window below this many tokens is too small for work with tools."""


class LocalModel(msgspec.Struct, frozen=True):
    """A model of a local server. `window` is what the server gives it in tokens (0: not told), `trained` what it could
    use; `tools` whether it can call tools, None where the server does not say."""

    id: str
    window: int = 0
    trained: int = 0
    tools: bool | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person should know before using it."""
        found = []
        if 0 < self.window < SMALL:
            found.append(
                f"its context window of {self.window:,} tokens is small for work with tools; give it 32,768 or more"
            )
        if self.tools is False:
            found.append("it cannot call tools")
        return tuple(found)


class LocalServer(msgspec.Struct, frozen=True):
    """A server that answered. `hint` says how to give its models more context, where that is likely needed."""

    provider: str
    title: str
    base_url: str
    models: tuple[LocalModel, ...]
    hint: str = ""


class LocalServers(msgspec.Struct, frozen=True):
    """What was found, and what was not asked and why."""

    servers: tuple[LocalServer, ...] = ()
    notes: tuple[str, ...] = ()
