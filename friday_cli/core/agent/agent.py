"""The data of one agent, its inbox, and the services that all agents of a session share, hooks among them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from ..eventlog.log import Log
from ..eventlog.requests import RequestDigests
from ..limits.budget import Budget
from ..limits.input_counts import InputCounts
from ..limits.ledger import Ledger
from ..limits.rate_limit import RateLimiter
from ..limits.retry import OFFLINE_S
from ..limits.shared_prefix import SharedPrefixes
from ..limits.slots import RunSlot
from ..permissions.approvals import ApprovalQueue
from ..permissions.rule import Rule, RuleInput
from ..permissions.rules import Rules
from ..permissions.taint import TaintTracker
from ..protocol.code_check import CodeCheck
from ..protocol.events import AnyEvent, MessageAdded, ToolSpec
from ..protocol.limits import Limits, lowest
from ..protocol.messages import Message, ToolCall, ToolResult, Usage
from ..protocol.profile_rights import ProfileRights
from ..protocol.provider import Effort, Provider
from ..protocol.receipt import Receipt
from ..protocol.receipt_builder import ReceiptBuilder
from ..protocol.run_result import RESULT_CHARS, RunResult, StopReason
from ..protocol.tool import KnownFiles, Output, Tool
from ..protocol.workspace import Workspace
from .inbox import Inbox
from .prefix_check import LastRequest

if TYPE_CHECKING:
    from .takeover import Takeover

Source = Literal["person", "parent", "harness"]


Supervision = Literal["unsupervised", "supervised", "supervised-human"]
"""Who checks a sub-agent's result before its parent reads it: no one, a model, or a model that may ask a person."""


class Conversation(msgspec.Struct, eq=False):
    """The conversation of an agent with a model, and how its requests are made."""

    provider: Provider
    system: str
    specs: tuple[ToolSpec, ...]
    """The tool list that the model sees; it does not change within a prefix."""
    tools: dict[str, Tool]
    """The tools that may be called."""
    cache_key: str
    """Equal for agents whose requests begin alike, also in other sessions."""
    effort: Effort | None = None
    temperature: float | None = None
    fallback: Provider | None = None
    """The model that answers if the first one does not."""
    history: list[Message] = []
    context: int = 0
    """Tokens of the conversation after the last reply."""
    sent: int = 0
    """Tokens of the prompt of the last reply."""
    task_left: int = 0
    """Tokens that were left of its budget when its history was compacted; 0: it was not."""
    cache_missed: bool = False
    """Whether the service did not use its cache for the last reply."""
    last_request: LastRequest | None = None
    """What the next request is compared with."""
    told_broken_prefix: int = 0
    """The run in which the person was told that the service did not use its cache."""
    provider_state: dict[str, Any] = {}
    """What the provider keeps of the conversation."""
    digests: RequestDigests = msgspec.field(default_factory=RequestDigests)
    """The digests of its requests, for the log."""

    @property
    def model(self) -> str:
        return f"{self.provider.name}/{self.provider.model}"

    def begin_again(self, history: list[Message], *, context: int = 0) -> None:
        """Continue with another history, of `context` tokens (0: unknown)."""
        self.history, self.context, self.sent = history, context, 0

    def send_to(self, provider: Provider) -> None:
        """Let `provider` answer from now on."""
        self.provider = provider

    def hand_over(self, history: list[Message], provider: Provider, effort: Effort | None) -> None:
        """Let a model that knows nothing of the requests so far continue with this history."""
        self.begin_again(history)
        self.provider, self.effort = provider, effort
        self.last_request, self.provider_state = None, {}

    def offer(self, system: str, specs: tuple[ToolSpec, ...], tools: dict[str, Tool]) -> bool:
        """Begin the next requests with this prompt and these tools. Returns whether that is a new prefix."""
        before, self.tools = (self.system, self.specs), tools
        self.system, self.specs = system, specs
        return (system, specs) != before


class Agent(msgspec.Struct, eq=False):
    """One agent, whoever makes its calls. Tokens and cost count over its life; `max_turns` and `time_s`
    (active seconds) are per run."""

    path: str
    profile: str
    conversation: Conversation
    rules: Rules
    budget: Budget
    slot: RunSlot
    inbox: Inbox
    workspace: Workspace
    max_turns: int
    time_s: float
    max_depth: int
    """How deep the agents below it may be nested; the main agent is 0."""
    supervision: Supervision = "unsupervised"
    """Who checks its result."""
    profile_rights: ProfileRights | None = None
    """What its profile lets it do; None without one."""
    accept: Callable[[str], str] = lambda text: ""
    """Returns what is wrong with a final answer, "" for nothing."""
    seen: KnownFiles = msgspec.field(default_factory=KnownFiles)
    told_problems: Counter[tuple[str, str, str]] = msgspec.field(default_factory=Counter)
    """How often it read of a problem in its code, by `CodeProblem.key`."""
    parent: Agent | None = None
    subagent_notes: Callable[[], str] = lambda: ""
    """Lists its sub-agents for its compacted history."""
    usage: Usage = msgspec.field(default_factory=Usage)
    below: Usage = msgspec.field(default_factory=Usage)
    """The usage of its descendants."""
    usage_doubted: bool = False
    """Whether the person was told of a reported usage that is not possible."""
    receipt_builder: ReceiptBuilder = msgspec.field(default_factory=ReceiptBuilder)
    run: int = 0
    turn: int = 0
    texts: list[str] = []
    """The replies of this run."""
    streaming: str = ""
    """The text of an unfinished reply."""
    start_events: list[AnyEvent] = []
    """Logged right after its next start."""
    on_read: dict[str, Callable[[], AnyEvent]] = {}
    """What is done, and logged, when it reads a message with a text."""
    result_chars: int = RESULT_CHARS
    """Characters of its result that its parent reads at once."""
    takeover: Takeover | None = None
    """While a person works with it in place of its parent."""

    @property
    def model(self) -> str:
        return self.conversation.model

    def reading(self, message: Message, *, withheld: bool = False) -> list[AnyEvent]:
        """The events to log when it reads `message`; none if hooks withheld it."""
        acts = [self.on_read.pop(text) for text in list(self.on_read) if text in message.text]
        return [] if withheld else [*(act() for act in acts), MessageAdded(message)]

    def when_read(self, text: str, act: Callable[[], AnyEvent]) -> None:
        """Do `act`, and log what it returns, when it reads a message with `text`."""
        self.on_read[text] = act

    def lower_limits(self, limits: Limits) -> None:
        """Lower its limits to these, of which tokens and US dollars count from now on; none is raised."""
        self.max_turns = lowest(self.max_turns, limits.turns) or self.max_turns
        self.time_s = lowest(self.time_s or None, limits.time_s) or 0.0
        for pool, more in zip(self.budget.pools, (limits.tokens, limits.cost), strict=True):
            pool.lower(more)

    def renew_slot(self, log: Log) -> None:
        """Get a slot for what the main agent, which is idle, does next."""
        self.slot = RunSlot(self.path, log=log, slots=None)

    def forget_receipt(self) -> None:
        """Begin an empty receipt: others keep what it saw so far."""
        self.receipt_builder = ReceiptBuilder()

    def log_at_start(self, event: AnyEvent) -> None:
        """Log `event` right after its next start."""
        self.start_events.append(event)

    @contextmanager
    def in_conversation(self, conversation: Conversation) -> Iterator[Agent]:
        """The agent in another conversation, such as a search. It pays for that, and knows nothing of it afterwards."""
        other = msgspec.structs.replace(self, conversation=conversation, usage=Usage())
        try:
            yield other
        finally:
            self.usage += other.usage

    @property
    def receipt(self) -> Receipt:
        """What the harness saw it do, over its life."""
        return self.receipt_builder.receipt

    @property
    def tree_usage(self) -> Usage:
        """The usage of this agent and all its descendants."""
        return self.usage + self.below

    def account(self, usage: Usage) -> None:
        """Add `usage` to this agent and to all its ancestors."""
        self.usage += usage
        above = self.parent
        while above is not None:
            above.below += usage
            above = above.parent

    @property
    def partial(self) -> str:
        """All text of this run so far, with the unfinished reply."""
        return "\n\n".join(t for t in (*self.texts, self.streaming.strip()) if t)


class StopRun(Exception):
    """The run fails at once. The code that catches it adds the partial text."""

    def __init__(self, stop_reason: StopReason, message: str) -> None:
        super().__init__(message)
        self.stop_reason: StopReason = stop_reason
        self.message = message


class HookOutcome(msgspec.Struct, frozen=True):
    """The combined decision of the hooks of one event."""

    decision: Literal["", "allow", "ask", "deny"] = ""
    reason: str = ""
    """For the model and the person, with the hook's name."""
    grant: Rule | None = None
    """The rule that an `allow` counts as."""
    context: str = ""
    """Text for the model, marked with its origin."""
    stop: str = ""
    """Why the run ends; "" if it continues."""
    arguments: dict[str, Any] | None = None
    """They replace those of the call, understood as its tool does."""
    rewritten: str = ""
    """Names the change of the arguments for the receipt."""
    note: str = ""
    """Names the change of the arguments for the model."""
    output: str | None = None
    """Replaces the text of the result."""
    limits: Limits = Limits()
    """They can lower those of a run that begins."""


class HookedCall(msgspec.Struct, frozen=True):
    """A call that hooks see. `wanted`: what it would do."""

    call: ToolCall
    tool: Tool
    arguments: dict[str, Any]
    wanted: RuleInput


class Hooks(Protocol):
    """Runs the hooks of a session: programs that see events of every agent and may decide about them. No method raises anything but CancelledError."""

    async def before_call(self, agent: Agent, seen: HookedCall) -> HookOutcome:
        """PreToolUse: a call was understood and is not judged yet."""

    async def permission(self, agent: Agent, seen: HookedCall) -> HookOutcome:
        """PermissionRequest: a person would be asked about the call."""

    async def after_call(self, agent: Agent, seen: HookedCall, output: Output, took_s: float) -> HookOutcome:
        """PostToolUse, or PostToolUseFailure if the output is an error."""

    async def after_batch(
        self, agent: Agent, calls: Mapping[str, ToolCall], results: tuple[ToolResult, ...]
    ) -> HookOutcome:
        """PostToolBatch: all calls of a reply have results. Only `context` and `stop` count."""

    async def run_started(self, agent: Agent, task: str, *, background: bool) -> HookOutcome:
        """SubagentStart, or UserPromptSubmit for the main agent: a run begins on `task`. `limits` can lower those of the
        run. `background`: nobody waits for its result."""

    async def run_ended(self, agent: Agent, end: RunResult, *, sent_back: int) -> HookOutcome:
        """SubagentStop, or Stop for the main agent, StopFailure if its run failed. With `deny` the agent continues to work
        on `reason`; `sent_back` counts how often it did."""

    async def message(self, agent: Agent, text: str) -> HookOutcome:
        """UserPromptSubmit: a running agent is about to read a message of the person."""

    async def compaction(self, agent: Agent, *, requested: bool, instructions: str) -> HookOutcome:
        """PreCompact: the history is about to be replaced by a summary."""

    async def compacted(self, agent: Agent, *, requested: bool, summary: str) -> HookOutcome:
        """PostCompact, and SessionStart with the source `compact` for the main agent."""

    async def session_started(self, agent: Agent, source: Literal["startup", "resume", "fork", "compact"]) -> str:
        """SessionStart: returns context for the main agent's model."""

    async def worktree(
        self, event: Literal["WorktreeCreate", "WorktreeRemove"], agent: Agent, name: str, path: str
    ) -> None:
        """A sub-agent's worktree was created or removed."""

    async def close(self, agent: Agent) -> None:
        """SessionEnd. Nothing of a hook runs when this returns."""


class ChangeChecks(Protocol):
    """Says what the changes of agents did to the code. No method raises anything but CancelledError."""

    async def checked(self, agent: Agent) -> Sequence[CodeCheck]:
        """What the changes since the last call did, and what was not known then. Waits a moment."""

    async def settled(self, agent: Agent) -> Sequence[CodeCheck]:
        """The rest, at the end of a run. Waits longer."""

    async def close(self) -> None:
        """End the servers."""


class Policy(msgspec.Struct, frozen=True):
    """Settings of the engine. Durations in seconds, sizes in tokens. `offline_s`: see `OFFLINE_S`."""

    compact_at: float | None = None
    max_output: int = 32_000
    wrap_up_s: float = 30.0
    offline_s: float = OFFLINE_S
    keep_warm_s: float = 0.0
    """For how long the cache of a conversation is kept while a person is waited for."""
    patient: bool = False
    """Whether requests wait as long as a limit of the service lasts."""
    max_depth: int = 3
    max_concurrent: int = 5
    max_agents: int = 200


class Services(msgspec.Struct, eq=False):
    """The services that all agents of a session share."""

    log: Log
    approvals: ApprovalQueue
    workspace: Workspace
    policy: Policy
    rng: random.Random
    taint: TaintTracker
    """Tracks the untrusted text that the agents read; it must get every event of `log`."""
    ledger: Ledger | None = None
    """What all sessions of the person use; None: nothing is counted."""
    rate_limiters: dict[str, RateLimiter] = {}
    make_rate_limiter: Callable[[str], RateLimiter] | None = None
    """Makes the rate limiter of a key; None: one that only this session knows."""
    prefixes: SharedPrefixes = msgspec.field(default_factory=SharedPrefixes)
    input_counts: InputCounts = msgspec.field(default_factory=InputCounts)
    supervisor: Provider | None = None
    """Checks supervised results; None: the sub-agent's own model does."""
    hooks: Hooks | None = None
    """Run programs of the person on events; None: none are configured."""
    code: ChangeChecks | None = None
    """Checks what changes did; None: it is not checked."""
    traceparent: str = ""
    """The trace context of the program that started this one."""
    trace: Callable[[str, str], str] | None = None
    """Returns the trace context of an agent's call or request, by path and call; None: no telemetry."""

    def rate_limiter(self, key: str) -> RateLimiter:
        """The rate limiter of a `rate_limit_key`, created at first use."""
        if key not in self.rate_limiters:
            make = self.make_rate_limiter
            self.rate_limiters[key] = make(key) if make else RateLimiter(self.rng)
        return self.rate_limiters[key]
