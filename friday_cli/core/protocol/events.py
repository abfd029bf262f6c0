"""The events of a session, as flat typed structs: the same JSON is its log on disk and the output of `--output-format
stream-json`. Durable events are numbered and never lost; live events (`LIVE`) may be merged or dropped."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from .displays import AnyDisplay, DiffDisplay
from .external import ExternalSession as ExternalSession
from .forecast import Forecast
from .handover import Detached as Detached
from .handover import HandedBack as HandedBack
from .handover import TakenOver as TakenOver
from .live_events import LIVE as LIVE
from .live_events import CallDelta as CallDelta
from .live_events import Event as Event
from .live_events import TextDelta as TextDelta
from .live_events import ThinkingDelta as ThinkingDelta
from .live_events import ToolOutput as ToolOutput
from .messages import NO_USAGE, Image, Message, ResultStatus, Usage
from .profile_rights import ProfileRights
from .receipt import CommandRun, Finding, Receipt, ToolFacts
from .request_events import AttemptFailed as AttemptFailed
from .request_events import CacheRefreshed as CacheRefreshed
from .request_events import RepliesCollected as RepliesCollected
from .request_events import Requested as Requested
from .request_events import RequestSent as RequestSent
from .request_events import WorkspaceFound as WorkspaceFound
from .run_result import RESULT_CHARS, RunResult, Status, StopReason
from .tool_info import OF_ITEM
from .waiting import StatusChanged as StatusChanged
from .workspace_events import Checked as Checked
from .workspace_events import Checkpoint as Checkpoint
from .workspace_events import Reviewed as Reviewed
from .workspace_events import Rewound as Rewound
from .workspace_events import WorktreeChanged as WorktreeChanged

SCHEMA = 1
"""Version of the event format, written in the first event of a session."""


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as a model sees it. `schema` is the JSON Schema of its arguments."""

    name: str
    description: str
    schema: dict[str, Any]


class SessionStarted(Event, frozen=True, tag="session_started"):
    """First event of a session; `schema` is the format's version. A fork has events `1` to `taken` of session `forked`."""

    schema: int
    session: str
    cwd: str
    version: str
    forked: str = ""
    taken: int = 0


class AgentStarted(Event, frozen=True, tag="agent_started"):
    """First event of a run of an agent."""

    run: int
    """Counts from 1."""
    profile: str
    task: str
    model: str
    """Its service and name."""
    parent: str = ""
    """The path of the agent that it works for; a main agent has none."""
    call_id: str = ""
    """The call that started the run."""
    background: bool = False
    """The call did not wait for its end."""
    tools: tuple[str, ...] = ()
    mode: str = ""
    """The permission mode."""
    tokens: int = 0
    """The budget of all its runs; 0: no limit."""
    cost_usd: float | None = None
    """The same in US dollars."""
    turns: int = 0
    """The most of this run; 0: no limit."""
    time_s: float = 0.0
    """Active seconds of this run; 0: no limit."""
    max_depth: int | None = None
    """How deep agents may be nested below the main agent, which has depth 0."""
    result_chars: int = RESULT_CHARS
    """Characters of its result that its parent reads at once."""
    forecast: Forecast | None = None
    """What such a delegation usually uses; none for a main agent, a resumed run and in older logs."""
    traceparent: str = ""
    """The W3C trace context of the program that started the run of a main agent."""
    batch: str = ""
    """The call of `map_tasks` that it does an item for, the caller for `friday map`; older logs have it in `call_id` only."""
    rights: ProfileRights | None = None
    """What its profile lets it do; None: it has no profile, or the log is older."""

    def __post_init__(self) -> None:
        if not self.batch and OF_ITEM in self.call_id:
            msgspec.structs.force_setattr(self, "batch", self.call_id.rpartition(OF_ITEM)[0])


class AgentFinished(Event, frozen=True, tag="agent_finished"):
    """A run ended; written exactly once. `limit_of` is the path of the agent whose limit was reached. `usage` is the agent's
    own over all runs, `tree_usage` with descendants. `duration_s` is active seconds of this run, `wall_s` elapsed ones.
    `partial`: the agent did not finish the result. Older logs have no `profile` and no `success` (completed, done)."""

    run: int
    status: Status
    stop_reason: StopReason
    result: str = ""
    error: str = ""
    limit_of: str = ""
    partial: bool = False
    usage: Usage = NO_USAGE
    tree_usage: Usage = NO_USAGE
    duration_s: float = 0.0
    wall_s: float = 0.0
    receipt: Receipt = Receipt()
    findings: tuple[Finding, ...] = ()
    profile: str = ""
    success: bool | None = None

    def __post_init__(self) -> None:
        if self.success is None:
            msgspec.structs.force_setattr(self, "success", (self.status, self.stop_reason) == ("completed", "done"))

    @property
    def result_of_run(self) -> RunResult:
        """How the run ended, without what it used."""
        known = self.status, self.stop_reason, self.result, self.error, self.limit_of
        return RunResult(*known, partial=self.partial, findings=self.findings)


class Prefix(Event, frozen=True, tag="prefix"):
    """The exact bytes at the start of every request of the agent, until the next event of this kind."""

    model: str
    system: str
    tools: tuple[ToolSpec, ...]


class TurnStarted(Event, frozen=True, tag="turn_started"):
    """A request begins. `wrap_up` marks the last one of a stopped run, without tools. `context` and `window` are its tokens,
    partly estimated, and the most. `request` estimates its usage without the reply; `output_usd` is a reply token's price.
    `marked`: it costs nothing before its `request_sent`."""

    turn: int
    wrap_up: bool = False
    context: int = 0
    window: int = 0
    request: Usage = Usage()
    output_usd: float | None = None
    marked: bool = False


class TurnFinished(Event, frozen=True, tag="turn_finished"):
    """The reply is complete; its calls run next. `stop` is the provider's reason, `context` the tokens, `window` the most."""

    turn: int
    usage: Usage
    stop: str = ""
    context: int = 0
    window: int = 0


class MessageAdded(Event, frozen=True, tag="message_added"):
    """A message was added to the agent's history."""

    message: Message


class ToolStarted(Event, frozen=True, tag="tool_started"):
    """A permitted call runs; it may be `read_only`. `title` is for people; `facts` hold if cancelled."""

    call_id: str
    tool: str
    title: str = ""
    facts: ToolFacts = ToolFacts()
    read_only: bool = msgspec.field(default=False, name="looks")


class ToolFinished(Event, frozen=True, tag="tool_finished"):
    """A tool call ended. The model reads `text` (None in older logs and for a call that its process did not survive) and
    `images`. `usage` is that of its own requests. `duration_s`: seconds without the wait for a permission."""

    call_id: str
    tool: str
    status: ResultStatus
    duration_s: float = 0.0
    display: AnyDisplay | None = None
    facts: ToolFacts = ToolFacts()
    text: str | None = None
    images: tuple[Image, ...] = ()
    usage: Usage = NO_USAGE


class InboxMessage(Event, frozen=True, tag="inbox_message"):
    """A message was sent to the agent, for its next turn boundary. A `quiet` message does not wake an idle agent."""

    text: str
    source: Literal["person", "parent", "harness"] = "person"
    quiet: bool = False


class PermissionAsked(Event, frozen=True, tag="permission_asked"):
    """A call waits for a person's permission. `subject`: all of what it would do; `rule`: what "for this session" adds,
    `allows`: what that lets through; `change`: of its file; `mode`: lets this pass. `arguments`: as the tool understands them."""

    id: str
    call_id: str
    tool: str
    subject: str
    reason: str = ""
    rule: str = ""
    arguments: dict[str, Any] | None = None
    change: DiffDisplay | None = None
    mode: Literal["", "edits"] = ""
    allows: str = ""


class PermissionAnswered(Event, frozen=True, tag="permission_answered"):
    """A permission was granted or denied. `command` is wanted in place of the one that was asked about."""

    id: str
    decision: Literal["allow", "deny"]
    scope: Literal["once", "session", "always"] = "once"
    reason: str = ""
    by: Literal["person", "harness"] = "person"
    command: str = ""


class Denied(Event, frozen=True, tag="denied"):
    """A call was denied without asking. `unasked`: only because nobody can be asked here; older logs do not say so."""

    call_id: str
    tool: str
    subject: str
    reason: str
    unasked: bool = False


class HookRan(Event, frozen=True, tag="hook_ran"):
    """A hook ran on `event`. `decision` is what it asked for, `problem` why its answer does not count, `source` whose it is."""

    event: str
    hook: str
    ms: float = 0.0
    decision: Literal["", "allow", "ask", "deny", "rewrite", "replace", "block", "context", "stop"] = ""
    reason: str = ""
    problem: str = ""
    source: Literal["user", "project"] = "user"
    call_id: str = ""


class QuestionAsked(Event, frozen=True, tag="question_asked"):
    """An agent asks a person a question. `choices` may be empty. An empty choice is the place of an answer in words."""

    id: str
    call_id: str
    question: str
    choices: tuple[str, ...] = ()


class QuestionAnswered(Event, frozen=True, tag="question_answered"):
    """A question was answered."""

    id: str
    answer: str


class AskWithdrawn(Event, frozen=True, tag="ask_withdrawn"):
    """A permission or question was cancelled, because its agent was stopped."""

    id: str
    why: str = ""


class ModeChanged(Event, frozen=True, tag="mode_changed"):
    """The permission mode of an agent changed."""

    mode: str


class SubAgentsChosen(Event, frozen=True, tag="sub_agents_chosen"):
    """A person chose the only profiles that the main agent may delegate to."""

    profiles: tuple[str, ...]


class RuleAdded(Event, frozen=True, tag="rule_added"):
    """A permission rule was added to the session."""

    rule: str
    decision: Literal["allow", "ask", "deny"]


class RuleRemoved(Event, frozen=True, tag="rule_removed"):
    """A permission rule was removed from the session."""

    rule: str
    decision: Literal["allow", "ask", "deny"]


class Compacted(Event, frozen=True, tag="compacted"):
    """`messages` replaced the history; the log keeps it. `before`, `after`: tokens of the context; `usage`: the summary's."""

    messages: tuple[Message, ...]
    before: int
    after: int
    usage: Usage = NO_USAGE


class IntentStated(Event, frozen=True, tag="intent_stated"):
    """The plan of a supervised agent, before it did anything. `usage` is that of the request."""

    text: str
    usage: Usage = NO_USAGE


class Verdict(Event, frozen=True, tag="verdict"):
    """The verdict on a supervised result. `reasons`: differences of intent, task and receipt; `usage`: the supervisor's."""

    verdict: Literal["accept", "redo", "pause"]
    by: Literal["harness", "model", "person"]
    reason: str = ""
    reasons: tuple[str, ...] = ()
    usage: Usage = NO_USAGE


class PersonCommand(Event, frozen=True, tag="person_command"):
    """A command that a person ran in the session's folder ended. The main agent may report how."""

    run: CommandRun


class SkillLoaded(Event, frozen=True, tag="skill_loaded"):
    """An agent got the instructions of a skill: by its own call, from the person, or with its task (`preload`). `sha256` is that
    of the file SKILL.md in `folder`. `project`: it comes from the project, so it is text of others."""

    name: str
    sha256: str
    folder: str = ""
    project: bool = False
    how: Literal["call", "person", "preload"] = "call"
    tools: tuple[str, ...] | None = None
    """The only tools while it runs; None: all."""
    only: tuple[str, ...] = ()
    """Rules that limit these tools to some calls."""


class Notice(Event, frozen=True, tag="notice"):
    """A message for people."""

    text: str
    level: Literal["info", "warning", "error"] = "info"
    topic: Literal["", "cache"] = ""
    """"cache": it says why a request was not read from the service's cache."""


AnyEvent = (
    SessionStarted | AgentStarted | AgentFinished | Detached | Prefix | TurnStarted | TurnFinished | MessageAdded
    | ToolStarted | ToolFinished | StatusChanged | InboxMessage | PermissionAsked | PermissionAnswered | Denied
    | QuestionAsked | Compacted | QuestionAnswered | AskWithdrawn | ModeChanged | RuleAdded | RuleRemoved
    | AttemptFailed | CacheRefreshed | IntentStated | Verdict | Notice | HookRan | WorktreeChanged | Checkpoint
    | Rewound | Reviewed | SubAgentsChosen | PersonCommand | SkillLoaded | TextDelta | ThinkingDelta | CallDelta
    | ToolOutput | TakenOver | HandedBack | Requested | WorkspaceFound | RequestSent | ExternalSession
    | RepliesCollected | Checked
)  # fmt: skip

WITH_USAGE = (TurnFinished, ToolFinished, AttemptFailed, Compacted, CacheRefreshed, IntentStated, Verdict)
"""Events with the `usage` of an agent itself, without those below it."""


class Envelope(msgspec.Struct, frozen=True):
    """An event with its number within the session (`seq`, None if live), time (`at`, Unix seconds) and path of its agent."""

    seq: int | None
    at: float
    agent: str
    event: AnyEvent


encode = msgspec.json.Encoder().encode  # an event or envelope as JSON bytes


def kind(event: Event) -> str:
    """The event's `kind`, as in its JSON."""
    return str(type(event).__struct_config__.tag)
