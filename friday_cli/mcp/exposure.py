"""Decides which agents see the definitions of a server's tools. The right to call them is another matter: it goes down the tree of
agents as that to any tool, also where no definition is shown."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from friday_cli.core.protocol.messages import CHARS_PER_TOKEN
from friday_cli.core.protocol.tool import Tool

from .entry import Expose, ServerEntry

DIRECT_TOOLS, DIRECT_TOKENS = 10, 2_000
"""Tools of one server, and tokens of their definitions, up to which an agent sees them without being asked for."""


def exposure(entry: ServerEntry, tools: Iterable[Tool]) -> Expose:
    """How an agent that may call these tools of a server gets to know them."""
    if entry.expose is not None:
        return entry.expose
    tools = tuple(tools)
    if len(tools) > DIRECT_TOOLS:
        return "search"
    size = sum(len(msgspec.json.encode(tool.spec)) for tool in tools)
    return "direct" if size <= DIRECT_TOKENS * CHARS_PER_TOKEN else "search"
