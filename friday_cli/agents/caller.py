"""Runs of the main agent that another program drives: they send no request to a model, the program's calls are the replies."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator

import msgspec

from friday_cli.core.agent.agent import Agent
from friday_cli.core.limits.budget import Budget
from friday_cli.core.protocol.format import CALLER
from friday_cli.core.protocol.messages import Image, Message, Text, ToolCall, Usage
from friday_cli.core.protocol.provider import Chunk, Provider, ReplyDone, Request
from friday_cli.core.text.sanitize import sanitize_line

WINDOW = 10_000_000
"""Tokens of context: so many that the main agent's history is never compacted."""


class Caller(msgspec.Struct, eq=False):
    """A program that drives a session. `budget` is what all sub-agents that its calls start may use together; None: what the
    main agent has left. `calls` are the tool calls that the main agent makes next, one in each reply. `alone`: the main agent
    has no prompts for a model between these calls. `work`: while it is not done, the run of the main agent does not end."""

    name: str
    budget: Budget | None
    calls: deque[ToolCall] = msgspec.field(default_factory=deque)
    alone: bool = True
    work: asyncio.Future[None] | None = None
    images: tuple[Image, ...] = ()
    """What the first message of a sub-agent has that its next call starts, beside the task."""


class CallerProvider:
    """Implements `Provider` for the main agent. `model_below` is the model that its sub-agents inherit. The log names that one
    for a main agent that has prompts for it, too."""

    def __init__(self, caller: Caller, model_below: Provider) -> None:
        self._name = re.sub(r"[^A-Za-z0-9._-]+", "-", caller.name)[:60] or "unknown"
        self.rate_limit_key = CALLER
        self.name, self.model = (CALLER, self._name) if caller.alone else (model_below.name, model_below.model)
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
            yield ReplyDone(
                Message("assistant", (Text(f"The result was returned to {sanitize_line(self._caller.name, 60)}."),)),
                Usage(),
                "end_turn",
            )

    def cost(self, usage: Usage) -> float | None:
        """Always 0: nothing is sent."""
        return 0.0


def model_below(provider: Provider) -> Provider:
    """The model that the children of an agent with `provider` inherit."""
    return provider.model_below if isinstance(provider, CallerProvider) else provider


def budget_below(parent: Agent, caller: Caller | None) -> Budget:
    """What the children of `parent` use up. `caller` is the program that makes the calls of the main agent."""
    return caller.budget if caller and caller.budget and parent.path == "a" else parent.budget


def with_images(first: Message, parent: Agent, caller: Caller | None) -> Message:
    """The first message of a child of `parent`, with the images that the program gives it."""
    images = caller.images if caller and parent.path == "a" else ()
    return msgspec.structs.replace(first, parts=(*first.parts, *images)) if images else first
