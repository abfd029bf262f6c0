"""A session that another program drives: its main agent sends no request to a model, the program's calls are its replies."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator

import msgspec

from friday_cli.core.limits.budget import Budget
from friday_cli.core.protocol.format import CALLER
from friday_cli.core.protocol.messages import Message, Text, ToolCall, Usage
from friday_cli.core.protocol.provider import Chunk, Provider, ReplyDone, Request

WINDOW = 10_000_000
"""Tokens of context: so many that the main agent's history is never compacted."""


class Caller(msgspec.Struct, eq=False):
    """A program that drives a session. `budget` is what all sub-agents of its sessions may use together. `calls` are the
    tool calls that the main agent makes next, one in each reply. `work`: while it is not done, the run of the main agent does
    not end."""

    name: str
    budget: Budget
    calls: deque[ToolCall] = msgspec.field(default_factory=deque)
    work: asyncio.Future[None] | None = None


class CallerProvider:
    """Implements `Provider` for the main agent. `model_below` is the model that its sub-agents inherit."""

    def __init__(self, caller: Caller, model_below: Provider) -> None:
        self.name = self.rate_limit_key = CALLER
        self.model = re.sub(r"[^A-Za-z0-9._-]+", "-", caller.name)[:60] or "unknown"
        self.window, self.max_output = WINDOW, 1
        self.badge = model_below.badge
        self.model_below = model_below
        self._calls, self._caller = caller.calls, caller

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """The next call of the program; without one the end of the run."""
        if self._caller.work is not None and not self._calls:
            await asyncio.shield(self._caller.work)
        if self._calls:
            yield ReplyDone(Message("assistant", (self._calls.popleft(),)), Usage(), "tool_use")
        else:
            yield ReplyDone(Message("assistant", (Text(f"Returned to {self.model}."),)), Usage(), "end_turn")

    def cost(self, usage: Usage) -> float | None:
        """Always 0: nothing is sent."""
        return 0.0


def model_below(provider: Provider) -> Provider:
    """The model that the children of an agent with `provider` inherit."""
    return provider.model_below if isinstance(provider, CallerProvider) else provider
