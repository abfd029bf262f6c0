"""The wire: everything that happens in a session, as flat typed events.

The same JSON is the log on disk, `--output-format stream-json` and the replay of a resumed session.
Durable events are numbered and never lost; live events (`LIVE`) may be merged or dropped.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from .displays import AnyDisplay
from .messages import Message, ResultStatus, Usage
from .receipt import FileChange, Finding, KeptFile, Receipt, ToolFacts
from .run_result import RunResult, Status, StopReason

SCHEMA = 1
"""Version of the events' form; stands in the first event of a session."""


class Event(msgspec.Struct, frozen=True, tag_field="kind", omit_defaults=True):
    """Something that happened to one agent."""


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as a model sees it: JSON Schema in `schema`."""

    name: str
    description: str
    schema: dict[str, Any]


# ---- durable events ----


class SessionStarted(Event, frozen=True, tag="session_started"):
    """First event of a session: `schema` is the version of this form, `session` its UUID, `cwd` its folder. `forked`
    names the session from which the events that follow were taken, up to number `taken`."""

    schema: int
    session: str
    cwd: str
    version: str
    forked: str = ""
    taken: int = 0


class AgentStarted(Event, frozen=True, tag="agent_started"):
    """A run of an agent begins; written before anything of it happens. `run` counts from 1. Budgets are what was
    granted: `tokens` and `cost_usd` for its life, `turns` and `time_s` (active seconds) for this run; 0 or None means
    no limit."""

    run: int
    profile: str
    task: str
    model: str
    parent: str = ""
    call_id: str = ""
    background: bool = False
    tools: tuple[str, ...] = ()
    mode: str = ""
    tokens: int = 0
    cost_usd: float | None = None
    turns: int = 0
    time_s: float = 0.0


class AgentFinished(Event, frozen=True, tag="agent_finished"):
    """A run ended; written exactly once per run. `limit_of` is the path whose limit it was.

    `usage` is the agent's own over its life; `tree_usage` has its descendants' in it. `duration_s` is active seconds
    of this run, `wall_s` seconds by the clock. `partial` marks a result that is not the agent's own last word.
    """

    run: int
    status: Status
    stop_reason: StopReason
    result: str = ""
    error: str = ""
    limit_of: str = ""
    partial: bool = False
    usage: Usage = Usage()
    tree_usage: Usage = Usage()
    duration_s: float = 0.0
    wall_s: float = 0.0
    receipt: Receipt = Receipt()
    findings: tuple[Finding, ...] = ()

    @property
    def success(self) -> bool:
        return self.status == "completed" and self.stop_reason == "done"

    @property
    def result_of_run(self) -> RunResult:
        """How the run ended, without what it used."""
        return RunResult(
            self.status, self.stop_reason, self.result, self.error,
            limit_of=self.limit_of, partial=self.partial, findings=self.findings,
        )  # fmt: skip


class Detached(Event, frozen=True, tag="detached"):
    """The agent goes on in the background: the call that waited for it was answered."""


class Prefix(Event, frozen=True, tag="prefix"):
    """The exact bytes that every request of the agent starts with, until the next one of these."""

    model: str
    system: str
    tools: tuple[ToolSpec, ...]


class TurnStarted(Event, frozen=True, tag="turn_started"):
    """A request to the model begins. `wrap_up` marks the last one, where no tool may run. `context` is the tokens it
    sends: those of the last reply, and an estimate of what came since; `window` the tokens that the model can hold."""

    turn: int
    wrap_up: bool = False
    context: int = 0
    window: int = 0


class TurnFinished(Event, frozen=True, tag="turn_finished"):
    """The reply of a turn is whole; its tools, if it called any, run now. `stop` is the provider's reason, `context` the
    tokens now in the context, `window` those that the model can hold."""

    turn: int
    usage: Usage
    stop: str = ""
    context: int = 0
    window: int = 0


class MessageAdded(Event, frozen=True, tag="message_added"):
    """A message joined the agent's history."""

    message: Message


class ToolStarted(Event, frozen=True, tag="tool_started"):
    """A call passed its permission and runs. `title` is one short line for people; `facts` hold from now on, even where
    it is cut off: that a command began."""

    call_id: str
    tool: str
    title: str = ""
    facts: ToolFacts = ToolFacts()


class ToolFinished(Event, frozen=True, tag="tool_finished"):
    call_id: str
    tool: str
    status: ResultStatus
    duration_s: float = 0.0
    display: AnyDisplay | None = None
    facts: ToolFacts = ToolFacts()


class StatusChanged(Event, frozen=True, tag="status_changed"):
    """An agent waits or works again; `detail` says for what (a child's path, the question's id, seconds)."""

    status: Status
    detail: str = ""


class InboxMessage(Event, frozen=True, tag="inbox_message"):
    """A message was handed to the agent; it joins the history at the next turn boundary. A `quiet` one is no reason for
    a turn: an agent that has nothing else to do is not woken by it."""

    text: str
    source: Literal["person", "parent", "harness"] = "person"
    quiet: bool = False


class PermissionAsked(Event, frozen=True, tag="permission_asked"):
    """A call waits for a person. `subject` is what exactly is to be done, in full."""

    id: str
    call_id: str
    tool: str
    subject: str
    reason: str = ""
    rule: str = ""
    """What "yes for this session" would add."""


class PermissionAnswered(Event, frozen=True, tag="permission_answered"):
    id: str
    decision: Literal["allow", "deny"]
    scope: Literal["once", "session", "always"] = "once"
    reason: str = ""
    by: Literal["person", "harness"] = "person"


class Denied(Event, frozen=True, tag="denied"):
    """A call was refused without asking anybody: by a rule, a mode, or because nobody can answer here."""

    call_id: str
    tool: str
    subject: str
    reason: str


class QuestionAsked(Event, frozen=True, tag="question_asked"):
    """An agent asks a person; `choices` may be empty."""

    id: str
    call_id: str
    question: str
    choices: tuple[str, ...] = ()


class QuestionAnswered(Event, frozen=True, tag="question_answered"):
    id: str
    answer: str


class AskWithdrawn(Event, frozen=True, tag="ask_withdrawn"):
    """A permission or question died with its asker."""

    id: str
    why: str = ""


class ModeChanged(Event, frozen=True, tag="mode_changed"):
    mode: str


class RuleAdded(Event, frozen=True, tag="rule_added"):
    """A rule joined the session's. `decision` is allow, ask or deny."""

    rule: str
    decision: Literal["allow", "ask", "deny"]


class RuleRemoved(Event, frozen=True, tag="rule_removed"):
    """A person took what they had allowed back: no such rule is the session's any more."""

    rule: str
    decision: Literal["allow", "ask", "deny"]


class AttemptFailed(Event, frozen=True, tag="attempt_failed"):
    """A request failed; `retry_s` is the wait before the next try, None when there is none."""

    attempt: int
    error: str
    message: str
    retry_s: float | None = None
    usage: Usage = Usage()
    partial: str = ""


class Compacted(Event, frozen=True, tag="compacted"):
    """The history was replaced by `messages`, a new prefix; all that came before stays in the log. `before` and `after`
    are tokens of the context, `usage` what the summary took."""

    messages: tuple[Message, ...]
    before: int
    after: int
    usage: Usage = Usage()


class IntentStated(Event, frozen=True, tag="intent_stated"):
    """What a supervised agent said it would do, before it did anything. `usage` is what saying it took."""

    text: str
    usage: Usage = Usage()


class Verdict(Event, frozen=True, tag="verdict"):
    """A look at a supervised result. `reasons` is where intent, task and receipt part; `usage` what a model's look took."""

    verdict: Literal["accept", "redo", "pause"]
    by: Literal["harness", "model", "person"]
    reason: str = ""
    reasons: tuple[str, ...] = ()
    usage: Usage = Usage()


class WorktreeChanged(Event, frozen=True, tag="worktree"):
    """How the git worktree of an agent stands: opened for its run; changed or unchanged at its end; then applied, discarded,
    or kept as a branch. `base` is the commit it started from, `files` what differs (`seen`: "new", "deleted", "binary")."""

    state: Literal["opened", "changed", "unchanged", "applied", "discarded", "kept"]
    branch: str
    folder: str
    base: str
    files: tuple[FileChange, ...] = ()


class Checkpoint(Event, frozen=True, tag="checkpoint"):
    """Files are about to be changed, by a `tool` or by a `person` who rewinds or puts back, or were seen changed after a
    `command`; what each held before is kept."""

    files: tuple[KeptFile, ...]
    by: Literal["tool", "command", "person"] = "tool"


class Rewound(Event, frozen=True, tag="rewound"):
    """A person went back to how things were right before event number `to`; what came since stays in the log. `undo`:
    that event is an earlier one of these, which is taken back. Files were changed for it after event number `since`."""

    to: int
    what: Literal["files", "conversation", "both"]
    undo: bool = False
    since: int = 0


class Reviewed(Event, frozen=True, tag="reviewed"):
    """A person accepted what the agents changed in these files so far."""

    paths: tuple[str, ...]


class Notice(Event, frozen=True, tag="notice"):
    """Something a person should know."""

    text: str
    level: Literal["info", "warning", "error"] = "info"


# ---- live events: deltas with attempt and offset, never stored ---------------


class TextDelta(Event, frozen=True, tag="text_delta"):
    """Text of the reply being written; `offset` counts characters within the attempt."""

    turn: int
    attempt: int
    offset: int
    text: str


class ThinkingDelta(Event, frozen=True, tag="thinking_delta"):
    turn: int
    attempt: int
    offset: int
    text: str


class CallDelta(Event, frozen=True, tag="call_delta"):
    """A tool call is being written: `chars` of its arguments have come."""

    turn: int
    attempt: int
    index: int
    tool: str
    chars: int


class ToolOutput(Event, frozen=True, tag="tool_output"):
    """Output of a running tool."""

    call_id: str
    offset: int
    text: str


LIVE = (TextDelta, ThinkingDelta, CallDelta, ToolOutput)

AnyEvent = (
    SessionStarted | AgentStarted | AgentFinished | Detached | Prefix | TurnStarted | TurnFinished | MessageAdded
    | ToolStarted | ToolFinished | StatusChanged | InboxMessage | PermissionAsked | PermissionAnswered | Denied
    | QuestionAsked | QuestionAnswered | AskWithdrawn | ModeChanged | RuleAdded | RuleRemoved | AttemptFailed
    | Compacted | IntentStated | Verdict | WorktreeChanged | Checkpoint | Rewound | Reviewed | Notice
    | TextDelta | ThinkingDelta | CallDelta | ToolOutput
)  # fmt: skip


class Envelope(msgspec.Struct, frozen=True):
    """An event with its place: `seq` within the session (None for live ones), `at` in Unix seconds, `agent` the path."""

    seq: int | None
    at: float
    agent: str
    event: AnyEvent


encode = msgspec.json.Encoder().encode
"""An event or envelope as JSON bytes."""


def kind(event: Event) -> str:
    """The event's `kind`, as in its JSON."""
    return str(type(event).__struct_config__.tag)
