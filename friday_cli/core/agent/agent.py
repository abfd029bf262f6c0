"""One agent as plain data, and the world it lives in."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Literal

import msgspec

from ..eventlog.log import Log
from ..limits.budget import Budget
from ..limits.rate_limit import RateLimiter, SharedRateLimit
from ..limits.slots import RunSlot
from ..permissions.approvals import ApprovalQueue
from ..permissions.rules import Rules
from ..permissions.taint import TaintTracker
from ..protocol.events import AnyEvent, InboxMessage, ToolSpec
from ..protocol.messages import Message, Usage
from ..protocol.provider import Effort, Provider
from ..protocol.receipt import Receipt, ReceiptBuilder
from ..protocol.run_result import Status, StopReason
from ..protocol.tool import KnownFiles, Tool
from ..protocol.workspace import Workspace

Source = Literal["person", "parent", "harness"]


Supervision = Literal["unsupervised", "supervised", "supervised-human"]
"""Who looks at a child's result before its parent does: nobody, a model, or a model that may call a person."""


class Inbox:
    """Messages for an agent that join its history at the next turn boundary."""

    def __init__(self, path: str, log: Log) -> None:
        self._path = path
        self._log = log
        self._waiting: deque[InboxMessage] = deque()

    async def put(self, message: InboxMessage) -> None:
        """Hand over a message; it is in the log when this returns."""
        self._waiting.append(message)
        await self._log.emit(self._path, message)

    def restore(self, message: InboxMessage) -> None:
        """A message that is in the log already and was never read."""
        self._waiting.append(message)

    def empty(self) -> bool:
        """Whether nothing waits to be read."""
        return not self._waiting

    @property
    def calls(self) -> bool:
        """Whether a message waits that is a reason for a turn."""
        return any(not waiting.quiet for waiting in self._waiting)

    def news(self) -> list[InboxMessage]:
        """What the harness put in and nobody has read, taken out; the rest stays."""
        news = [waiting for waiting in self._waiting if waiting.source == "harness"]
        self._waiting = deque(waiting for waiting in self._waiting if waiting.source != "harness")
        return news

    def take(self) -> InboxMessage:
        """The oldest message; the caller puts it into the history."""
        return self._waiting.popleft()

    def take_call(self) -> InboxMessage:
        """The oldest message that is a reason for a turn; the caller puts it into the history."""
        message = next(waiting for waiting in self._waiting if not waiting.quiet)
        self._waiting.remove(message)
        return message


class Agent(msgspec.Struct, eq=False):
    """Everything one agent is. Tokens and cost count over its life, turns and time per run.

    `specs` is the frozen tool list that the model sees, `tools` what may really be dispatched.
    `supervision` says who looks at its result; `accept` returns a complaint about a final answer, "" when it is good.
    `subagent_notes` lists the sub-agents that it must not forget when it is compacted.
    `context` is the tokens of the conversation after the last reply, `sent` those of its prompt; `cold` tells that the
    provider's cache did not help it. Agents with the same `cache_key` share a prefix. `news` is told right after its
    next start.
    """

    path: str
    profile: str
    provider: Provider
    system: str
    specs: tuple[ToolSpec, ...]
    tools: dict[str, Tool]
    rules: Rules
    budget: Budget
    slot: RunSlot
    inbox: Inbox
    max_turns: int
    time_s: float
    workspace: Workspace
    cache_key: str = ""
    effort: Effort | None = None
    fallback: Provider | None = None
    supervision: Supervision = "unsupervised"
    accept: Callable[[str], str] = lambda text: ""
    history: list[Message] = []
    seen: KnownFiles = msgspec.field(default_factory=KnownFiles)
    parent: Agent | None = None
    subagent_notes: Callable[[], str] = lambda: ""
    usage: Usage = msgspec.field(default_factory=Usage)
    below: Usage = msgspec.field(default_factory=Usage)
    receipt_builder: ReceiptBuilder = msgspec.field(default_factory=ReceiptBuilder)
    run: int = 0
    turn: int = 0
    context: int = 0
    sent: int = 0
    cold: bool = False
    texts: list[str] = []
    streaming: str = ""
    news: list[AnyEvent] = []

    @property
    def model(self) -> str:
        return f"{self.provider.name}/{self.provider.model}"

    @property
    def receipt(self) -> Receipt:
        """What the harness saw it do, over its life."""
        return self.receipt_builder.receipt

    @property
    def tree_usage(self) -> Usage:
        """What this agent and all its descendants used."""
        return self.usage + self.below

    def account(self, usage: Usage) -> None:
        """Count `usage` here and for everyone above."""
        self.usage += usage
        above = self.parent
        while above is not None:
            above.below += usage
            above = above.parent

    @property
    def partial(self) -> str:
        """The best text of this run so far: everything said, the unfinished reply included."""
        return "\n\n".join(t for t in (*self.texts, self.streaming.strip()) if t)


class StopRun(Exception):
    """Ends a run at once with an outcome that is not a success; the partial text is added by who catches it."""

    def __init__(self, status: Status, stop_reason: StopReason, message: str) -> None:
        super().__init__(message)
        self.status: Status = status
        self.stop_reason: StopReason = stop_reason
        self.message = message


class Policy(msgspec.Struct, frozen=True):
    """Settings of the engine. Durations in seconds, sizes in tokens."""

    compact_at: float = 0.85
    max_output: int = 32_000
    wrap_up_s: float = 30.0
    max_depth: int = 3
    max_concurrent: int = 5
    max_agents: int = 200


class Services(msgspec.Struct, eq=False):
    """The services all agents of a session share. `supervisor` judges supervised results (None: the child's own model);
    `shared_rate_limit(lane)` reads what other processes report about a rate limit; `taint` records which untrusted content
    the agents have read, and must get every event of `log`."""

    log: Log
    approvals: ApprovalQueue
    workspace: Workspace
    policy: Policy
    rng: random.Random
    taint: TaintTracker
    rate_limiters: dict[str, RateLimiter] = {}
    supervisor: Provider | None = None
    shared_rate_limit: Callable[[str], SharedRateLimit | None] = lambda lane: None

    def rate_limiter(self, lane: str) -> RateLimiter:
        """The gate of a lane, made when first asked for."""
        if lane not in self.rate_limiters:
            self.rate_limiters[lane] = RateLimiter(self.rng, self.shared_rate_limit(lane))
        return self.rate_limiters[lane]
