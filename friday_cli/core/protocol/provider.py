"""The interface to a model: one request in, a stream of chunks out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Literal, Protocol, TypeGuard, get_args

import msgspec

from .events import ToolSpec
from .messages import Message, Usage, estimate_message, estimate_tokens

Stop = Literal["end_turn", "tool_use", "max_tokens", "pause_turn", "refusal", "context", "unfinished", "other"]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
EFFORTS: tuple[Effort, ...] = get_args(Effort)
"""All levels of effort, in ascending order."""
ServiceTier = Literal["standard", "flex", "fast"]
TIERS: tuple[ServiceTier, ...] = get_args(ServiceTier)
"""How a service serves a request: as usual; when it has time, for about half the price; faster, for about twice the price."""
AskedTier = ServiceTier | Literal[""]
"""The tier that a request asks for; "": none, which leaves the choice to the vendor's settings of the project."""


ENVIRONMENT = "\n\n# Environment\n\n"
"""Begins the part of a system text that differs between folders and days."""


NO_TOOLS = "Tools are disabled now."
"""Where the harness asks for an answer in text, its words begin so."""


class Request(msgspec.Struct, frozen=True):
    """One request. `agent` is the path of the agent; `cache_key` is equal for agents whose system texts and tools
    begin alike, in all sessions. A model that
    takes no `temperature` does not get it. A provider keeps in `provider_state` what it needs for the next request of
    the same conversation."""

    agent: str
    system: str
    tools: tuple[ToolSpec, ...]
    messages: tuple[Message, ...]
    max_output: int
    tool_choice: Literal["auto", "none"] = "auto"
    effort: Effort | None = None
    cache_key: str = ""
    temperature: float | None = None
    task_tokens: int = 0
    """Tokens that the agent may use for its task in all its requests; 0: no limit."""
    task_left: int = 0
    """What was left of them when the history was compacted; 0: it was not."""
    provider_state: dict[str, Any] = {}

    @property
    def text_only(self) -> bool:
        """Whether an answer in text is asked for: by `tool_choice`, or by the words of the harness."""
        last = self.messages[-1] if self.messages else None
        return self.tool_choice == "none" or (
            last is not None and last.source == "harness" and last.role == "user" and NO_TOOLS in last.text
        )


class TextChunk(msgspec.Struct, frozen=True):
    text: str


class ThinkingChunk(msgspec.Struct, frozen=True):
    text: str


class CallChunk(msgspec.Struct, frozen=True):
    """Progress of the `index`-th tool call of the reply: `chars` of its arguments were received so far."""

    index: int
    name: str
    chars: int


class RestartChunk(msgspec.Struct, frozen=True):
    """The service begins the reply again: what it sent before is not part of it."""


class NoteChunk(msgspec.Struct, frozen=True):
    """A remark of the provider for people: what it left out of the request, and why."""

    text: str


class UsageChunk(msgspec.Struct, frozen=True):
    """The usage that the service reported so far: the input, while the output is still streamed."""

    usage: Usage


class ServerSearch(msgspec.Struct, frozen=True):
    """A web search that the service ran during a reply. `pages` are its results, (title, URL) as plain text; `error` says
    why it failed."""

    id: str
    query: str
    pages: tuple[tuple[str, str], ...] = ()
    error: str = ""


class ReplyDone(msgspec.Struct, frozen=True):
    """The last chunk: the whole assistant message, its usage, and why the model stopped. `note` is a remark for people,
    such as the reason of a refusal."""

    message: Message
    usage: Usage
    stop: Stop
    note: str = ""
    searches: tuple[ServerSearch, ...] = ()


Chunk = TextChunk | ThinkingChunk | CallChunk | RestartChunk | UsageChunk | NoteChunk | ReplyDone


class Provider(Protocol):
    """A model of a service. `name` and `model` make up `provider/model`; `window` and `max_output` are tokens.
    `rate_limit_key` is equal for providers that share a rate limit (same service, same key). `badge` is shown wherever
    the model is named ("demo: scripted, no AI model"); "" for a real model."""

    name: str
    model: str
    window: int
    max_output: int
    rate_limit_key: str
    badge: str

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Stream a reply. The last chunk is a `ReplyDone`. Raises only ProviderError and CancelledError."""

    def cost(self, usage: Usage) -> float | None:
        """US dollars for `usage`; None for an unknown price."""


class TokenCounter(Provider, Protocol):
    """A provider whose service counts the tokens of a request before it is sent."""

    async def count_tokens(self, request: Request) -> int:
        """Input tokens of `request`. Raises ProviderError."""


class DeferredProvider(Provider, Protocol):
    """A provider whose replies take hours: they are waited for before `stream`, outside of the active time and the rate limit."""

    async def prepare(self, request: Request) -> None:
        """Wait until the reply is there. Raises ProviderError."""


class CacheRefresher(Provider, Protocol):
    """A provider whose service can be asked to keep the prefix of a request in its cache without a reply. `cache_kept_s`: for how many
    seconds it is kept after the begin of a request; 0: the service cannot be asked."""

    cache_kept_s: float

    async def refresh_cache(self, request: Request) -> Usage:
        """Use the cache of `request` again, which was sent before. Returns what is charged for it. Raises ProviderError."""


def counts_tokens(provider: Provider) -> TypeGuard[TokenCounter]:
    """Whether it has what a `TokenCounter` has. These three are asked in every request, and `isinstance` takes long for protocols."""
    return hasattr(provider, "count_tokens")


def is_deferred(provider: Provider) -> TypeGuard[DeferredProvider]:
    """Whether it has what a `DeferredProvider` has."""
    return hasattr(provider, "prepare")


def refreshes_cache(provider: Provider) -> TypeGuard[CacheRefresher]:
    """Whether it has what a `CacheRefresher` has."""
    return hasattr(provider, "refresh_cache")


def clamp(effort: Effort, accepted: Sequence[Effort]) -> Effort:
    """The level of `accepted` nearest to `effort`, the lower one of two. `effort` when `accepted` is empty."""
    want = EFFORTS.index(effort)
    return min(accepted, key=lambda level: (abs(EFFORTS.index(level) - want), EFFORTS.index(level)), default=effort)


def estimate_request(request: Request) -> int:
    """An estimate of the input tokens of a request: system, tools and messages."""
    own = estimate_tokens(request.system) + sum(map(estimate_message, request.messages))
    return own + _tool_tokens(request.tools)


_counted: tuple[tuple[ToolSpec, ...], int] = ((), 0)
"""The tools that were estimated last, which the next request of an agent has again, and their tokens."""


def _tool_tokens(tools: tuple[ToolSpec, ...]) -> int:
    global _counted
    if tools is not _counted[0]:
        _counted = tools, estimate_tokens("".join(t.name + t.description + str(t.schema) for t in tools))
    return _counted[1]
