"""The way back from a log to agents: what resume, reconciling and exports read."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from ..protocol.agent_path import is_under
from ..protocol.displays import DelegationDisplay
from ..protocol.events import (
    ENDED,
    AgentFinished,
    AgentStarted,
    AskWithdrawn,
    AttemptFailed,
    Compacted,
    Detached,
    Envelope,
    InboxMessage,
    IntentStated,
    MessageAdded,
    ModeChanged,
    PermissionAnswered,
    PermissionAsked,
    Prefix,
    QuestionAnswered,
    QuestionAsked,
    Rewound,
    RuleAdded,
    RuleRemoved,
    Status,
    StatusChanged,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    Verdict,
    WorktreeChanged,
)
from ..protocol.messages import Message, Usage, closed, without_thinking
from ..protocol.receipt import Receipt, ReceiptBuilder
from .notices import pending_end_notice


class Mark(msgspec.Struct, frozen=True):
    """How a conversation stood at one moment: the first `count` of `messages`, which has only been added to since."""

    messages: list[Message]
    count: int
    context: int
    prefix: Prefix | None
    inbox: tuple[InboxMessage, ...]


ACTIVE: frozenset[str] = frozenset(("running", "waiting_child"))
"""The states in which an agent's own clock runs."""


class ActiveTime(msgspec.Struct):
    """Active seconds of one run, as far as the changes of its status tell. Times in Unix seconds."""

    active: float = 0.0
    since: float = 0.0
    runs: bool = False

    def begin(self, at: float, *, runs: bool = True) -> None:
        self.active, self.since, self.runs = 0.0, at, runs

    def turn(self, status: Status, at: float) -> None:
        """The agent's status is `status` from `at` on."""
        self.go(status in ACTIVE, at)

    def go(self, runs: bool, at: float) -> None:
        """Its clock runs from `at` on, or stands still."""
        self.active, self.since, self.runs = self.read(at), at, runs

    def read(self, at: float) -> float:
        """Active seconds until `at`."""
        return self.active + (max(0.0, at - self.since) if self.runs else 0.0)


class AgentRecord(msgspec.Struct):
    """All that the log says of one agent. `open` are the calls that run, by their ids.

    `end` is how its last run ended, None while a run is open. `history` is what a provider may be sent next: folded
    from MessageAdded and Compacted, every call closed, without the thinking of a model that it was taken from. `usage`
    and `receipt` are its own over its life. `asks` are the questions without an answer, `inbox` the messages that were
    handed over and never joined the history, `granted` the start of the current run with its budgets, `worktree` how
    its worktree stood last. `untold` are ends that somebody above must be told of and was not, `reported` those of them
    that a call tells of whose result has not joined the history. `seen_at` is the time of its last event, `seq` its
    number, `begun` that of the start of its newest run: order is told by numbers, for clocks are set. `marks` has how
    the conversation stood right before each message of a person and each rewind.
    """

    path: str
    granted: AgentStarted
    end: AgentFinished | None = None
    started: float = 0.0
    seen_at: float = 0.0
    seq: int = 0
    begun: int = 0
    marks: dict[int, Mark] = {}
    status: Status = "running"
    history: list[Message] = []
    prefix: Prefix | None = None
    usage: Usage = Usage()
    turn: int = 0
    context: int = 0
    mode: str = ""
    rules: list[RuleAdded] = []
    asks: dict[str, PermissionAsked | QuestionAsked] = {}
    open: dict[str, ToolStarted] = {}
    inbox: list[InboxMessage] = []
    untold: list[InboxMessage] = []
    reported: dict[str, list[InboxMessage]] = {}
    background: bool = False
    text: str = ""
    worktree: WorktreeChanged | None = None
    tally: ReceiptBuilder = msgspec.field(default_factory=ReceiptBuilder)
    watch: ActiveTime = msgspec.field(default_factory=ActiveTime)

    @property
    def run(self) -> int:
        """The number of its newest run, from 1."""
        return self.granted.run

    @property
    def profile(self) -> str:
        return self.granted.profile

    @property
    def task(self) -> str:
        return self.granted.task

    @property
    def receipt(self) -> Receipt:
        return self.tally.receipt

    @property
    def active_s(self) -> float:
        """Active seconds of the newest run."""
        return self.end.duration_s if self.end else self.watch.read(self.seen_at)


@contextmanager
def collecting_later() -> Iterator[None]:
    """Put the search for reference cycles off while a whole log is read: it has none, and searching takes as long again."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def replay(envelopes: Iterable[Envelope]) -> dict[str, AgentRecord]:
    """The agents of a log by path, in the order they started. Events of an agent that never started are passed over."""
    records: dict[str, AgentRecord] = {}
    with collecting_later():
        for envelope in envelopes:
            _fold(records, envelope)
        for record in records.values():
            record.history = closed(record.history)
    return records


def _fold(records: dict[str, AgentRecord], envelope: Envelope) -> None:
    event = envelope.event
    if isinstance(event, AgentStarted):
        _start(records, envelope, event)
        return
    record = records.get(envelope.agent)
    if record is not None:
        record.seen_at, record.seq = envelope.at, envelope.seq or 0
        if isinstance(event, InboxMessage) and event.source == "harness":
            _pass_on(records, record.path, event.text)
        elif isinstance(event, ToolFinished) and isinstance(event.display, DelegationDisplay):
            record.reported[event.call_id] = [
                n for p in event.display.agents if p in records for n in records[p].untold
            ]
        elif isinstance(event, MessageAdded) and event.message.role == "tool" and record.reported:
            _read(records, record, event.message)
        fold = _FOLDS.get(type(event))
        if fold is not None:
            fold(record, event)


def _pass_on(records: dict[str, AgentRecord], path: str, text: str) -> None:
    """News that an agent did not live to read goes on to one above it: it is in one inbox at a time. What was put into
    one is told."""
    for record in records.values():
        if record.path != path and is_under(record.path, path):
            if record.inbox:
                record.inbox = [waiting for waiting in record.inbox if waiting.text != text]
            if told := next((news for news in record.untold if news.text == text), None):
                record.untold.remove(told)


def _read(records: dict[str, AgentRecord], record: AgentRecord, message: Message) -> None:
    """An end that stands in the result of a call need not be told to who made that call."""
    for result in message.results:
        news = record.reported.pop(result.call_id, [])
        for other in records.values() if news and result.status != "cancelled" else ():
            other.untold = [waiting for waiting in other.untold if waiting not in news]


def _start(records: dict[str, AgentRecord], envelope: Envelope, event: AgentStarted) -> None:
    record = records.get(envelope.agent)
    if record is None:
        record = records[envelope.agent] = AgentRecord(envelope.agent, event)
    record.granted, record.end, record.status = event, None, "queued" if event.parent else "running"
    record.started, record.begun = envelope.at, envelope.seq or 0
    record.seen_at, record.seq = envelope.at, record.begun
    record.turn, record.text = 0, ""
    record.mode = event.mode or record.mode
    record.background = event.background
    record.tally.begin()
    record.watch.begin(envelope.at, runs=not event.parent)


def _finish(record: AgentRecord, event: AgentFinished) -> None:
    record.end, record.status = event, event.status
    if event.usage != Usage():
        record.usage = event.usage
    if event.receipt != Receipt():
        record.tally.reset(event.receipt)
    record.asks.clear()
    if news := pending_end_notice(record.path, record.granted, event, background=record.background):
        record.untold.append(news)


def _detached(record: AgentRecord, event: Detached) -> None:
    record.background = True


def _status(record: AgentRecord, event: StatusChanged) -> None:
    if record.end is None and event.status not in ENDED:
        record.status = event.status
        record.watch.turn(event.status, record.seen_at)


def _message(record: AgentRecord, event: MessageAdded) -> None:
    message = event.message
    if is_point(record.path, message):
        _mark(record)
    record.history.append(message)
    if message.role == "assistant":
        record.text = message.text or record.text
    elif message.role == "user" and record.inbox:
        text = message.text
        joined = next((waiting for waiting in record.inbox if waiting.text == text), None)
        record.inbox = [waiting for waiting in record.inbox if waiting is not joined]


def _turn_started(record: AgentRecord, event: TurnStarted) -> None:
    record.turn = event.turn


def _turn_finished(record: AgentRecord, event: TurnFinished) -> None:
    record.usage = record.usage + event.usage
    record.context = event.context or record.context


def _spent(record: AgentRecord, event: AttemptFailed | IntentStated | Verdict) -> None:
    record.usage = record.usage + event.usage


def _worktree(record: AgentRecord, event: WorktreeChanged) -> None:
    record.worktree = event


def _compacted(record: AgentRecord, event: Compacted) -> None:
    record.history = list(event.messages)
    record.context = event.after
    record.usage = record.usage + event.usage


def is_point(path: str, message: Message) -> bool:
    """Whether a message is one that a person said to the main agent: there the conversation can go back to."""
    return path == "a" and message.role == "user" and message.source == "person"


def _mark(record: AgentRecord) -> None:
    history = record.history
    record.marks[record.seq] = Mark(history, len(history), record.context, record.prefix, tuple(record.inbox))


def _rewound(record: AgentRecord, event: Rewound) -> None:
    _mark(record)
    mark = record.marks.get(event.to)
    if event.what == "files" or mark is None:
        return
    record.history, record.context = closed(mark.messages[: mark.count]), mark.context
    record.inbox, record.text = list(mark.inbox), ""
    if mark.prefix != record.prefix:  # thinking is bound to the bytes before it
        record.history, record.context = [without_thinking(m) for m in record.history], 0


def left_behind(envelopes: Iterable[Envelope]) -> frozenset[str]:
    """The agents that the conversation knows nothing of: all their runs began in a part of it that a rewind left."""
    left: dict[int, tuple[int, int]] = {}
    """What each rewind left, by its number: the events between two numbers."""
    begun: dict[str, list[int]] = {}
    for envelope in envelopes:
        event, seq = envelope.event, envelope.seq or 0
        if isinstance(event, AgentStarted) and envelope.agent != "a":
            begun.setdefault(envelope.agent, []).append(seq)
        elif isinstance(event, Rewound) and event.what != "files":
            if event.undo:
                left.pop(event.to, None)
            left[seq] = event.to, seq
    return frozenset(p for p, at in begun.items() if all(any(a < n < b for a, b in left.values()) for n in at))


def _prefix(record: AgentRecord, event: Prefix) -> None:
    if record.prefix and record.prefix.model != event.model:  # no other model could read it
        record.history = [without_thinking(message) for message in record.history]
    record.prefix = event


def _mode(record: AgentRecord, event: ModeChanged) -> None:
    record.mode = event.mode


def _rule_removed(record: AgentRecord, event: RuleRemoved) -> None:
    gone = event.rule, event.decision
    record.rules = [added for added in record.rules if (added.rule, added.decision) != gone]


def _tool_started(record: AgentRecord, event: ToolStarted) -> None:
    record.open[event.call_id] = event


def _tool_finished(record: AgentRecord, event: ToolFinished) -> None:
    record.open.pop(event.call_id, None)
    record.tally.add(event.tool, event.status, event.facts)


def _asked(record: AgentRecord, event: PermissionAsked | QuestionAsked) -> None:
    record.asks[event.id] = event


def _settled(record: AgentRecord, event: PermissionAnswered | QuestionAnswered | AskWithdrawn) -> None:
    record.asks.pop(event.id, None)


_FOLDS: dict[type, Callable[[AgentRecord, Any], None]] = {
    AgentFinished: _finish,
    Detached: _detached,
    StatusChanged: _status,
    MessageAdded: _message,
    TurnStarted: _turn_started,
    TurnFinished: _turn_finished,
    AttemptFailed: _spent,
    IntentStated: _spent,
    Verdict: _spent,
    Compacted: _compacted,
    Prefix: _prefix,
    Rewound: _rewound,
    ModeChanged: _mode,
    RuleAdded: lambda record, event: record.rules.append(event),
    RuleRemoved: _rule_removed,
    WorktreeChanged: _worktree,
    InboxMessage: lambda record, event: record.inbox.append(event),
    ToolStarted: _tool_started,
    ToolFinished: _tool_finished,
    PermissionAsked: _asked,
    QuestionAsked: _asked,
    PermissionAnswered: _settled,
    QuestionAnswered: _settled,
    AskWithdrawn: _settled,
}
