"""Events about requests to models: how each was made, which failed, and the files that steered; a replay needs them."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from .live_events import Event
from .messages import NO_USAGE, Message, Usage

Purpose = Literal["turn", "wrap_up", "compaction", "intent", "verdict", "search"]
"""What a request to a model is for."""


class Requested(Event, frozen=True, tag="requested"):
    """A request to a model ended, with a reply or a failure. `digest`: sha256 of its system text, tools and messages.
    `no_tools`: the model may call none. `service`: API and host, in the first request of a prefix. `reply`, `stop` and `usage` are
    those of a reply that joins no conversation, such as a summary or a verdict."""

    digest: str
    max_output: int
    purpose: Purpose = "turn"
    effort: str = ""
    temperature: float | None = None
    no_tools: bool = False
    service: str = ""
    first_token_s: float | None = None
    reply: Message | None = None
    stop: str = ""
    usage: Usage = NO_USAGE


class RequestSent(Event, frozen=True, tag="request_sent"):
    """A request is sent next: each one, also a repeated one, of an agent whose turns are `marked` (an item of a batch). `request` and
    `output_usd` as in `turn_started`. Without an event with its usage it counts as the input and a usual reply."""

    request: Usage = Usage()
    output_usd: float | None = None


class AttemptFailed(Event, frozen=True, tag="attempt_failed"):
    """A request to the model failed. `retry_s` is seconds until the retry, None for none. `partial` is the received text."""

    attempt: int
    error: str
    message: str
    retry_s: float | None = None
    usage: Usage = NO_USAGE
    partial: str = ""


class CacheRefreshed(Event, frozen=True, tag="cache_refreshed"):
    """The service is asked to keep its cache of the conversation while the agent waits; logged before that. `usage`: its cost."""

    usage: Usage = NO_USAGE


class RepliesCollected(Event, frozen=True, tag="replies_collected"):
    """What all replies of a service's batch cost that came so far. `batch` is Friday's own name of it: a newer event of that name, also in
    another session, replaces this one. `usage` counts here, and not in the turns of the agents that read the replies."""

    batch: str
    profile: str
    model: str
    usage: Usage


class WorkspaceFound(Event, frozen=True, tag="workspace"):
    """What the folder had when a process began to work in it. `commit`: of its git repository, "" for none. `steering`: the first
    12 digits of the sha256 of each file and setting that steers agents, by name. `attended`: a person can answer. `allow`, `deny`: rules
    and `flags`: settings of the command line; `folders`: others that were opened."""

    commit: str = ""
    steering: dict[str, str] = msgspec.field(default_factory=dict)
    attended: bool = False
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    flags: dict[str, Any] = msgspec.field(default_factory=dict)
