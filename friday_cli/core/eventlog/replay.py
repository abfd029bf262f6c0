"""Replays a log into the records of its agents, for resuming, crash recovery and exports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

import msgspec

from ..protocol.agent_path import is_under, parent_of
from ..protocol.displays import DelegationDisplay
from ..protocol.events import (
    AgentFinished,
    AgentStarted,
    AnyEvent,
    Compacted,
    Envelope,
    InboxMessage,
    MessageAdded,
    Prefix,
    Rewound,
    RuleAdded,
    RuleRemoved,
    SkillLoaded,
    ToolFinished,
    ToolStarted,
    TurnFinished,
)
from ..protocol.messages import Message, ToolResult, closed, handed_in, open_calls, without_refused, without_thinking
from ..protocol.profile_rights import ProfileRights
from ..protocol.tool_info import TASK_RESULT
from .agent_fold import AgentState, fold_event
from .collecting import collecting_later
from .notices import pending_end_notice, same_end
from .rewind_marks import after_rewind, is_rewind_point

CUT = (
    "The process ended while this call ran. The log has these sub-agents of it; an interrupted one can be continued. A task "
    "without a report was not started."
)
NEVER_RUN = "The process ended before this call was run."


class Mark(msgspec.Struct, frozen=True):
    """A conversation at one moment: the first `count` of `messages`, a list that only grows."""

    messages: list[Message]
    count: int
    context: int
    prefix: Prefix | None
    inbox: tuple[InboxMessage, ...]


class AgentRecord(AgentState):
    """The state of an agent in the log that resuming it needs. Order follows the numbers of events, because clocks can be
    set."""

    started: float = 0.0
    """The start of its newest run, in Unix seconds."""
    seen_at: float = 0.0
    """The time of its last event, in Unix seconds."""
    seq: int = 0
    """The number of its last event."""
    begun: int = 0
    """The number of the event that started its newest run."""
    calls: dict[str, int] = msgspec.field(default_factory=dict)
    """By the id of a call that started it: the number of that start."""
    marks: dict[int, Mark] = msgspec.field(default_factory=dict)
    """The conversation right before each rewind point, by event number."""
    history: list[Message] = msgspec.field(default_factory=list)
    """What may be sent to a provider next: folded from MessageAdded and Compacted, every call closed, without thinking of
    another model."""
    prefix: Prefix | None = None
    rules: list[RuleAdded] = msgspec.field(default_factory=list)
    rights: list[ProfileRights] = msgspec.field(default_factory=list)
    """What its profile let it do in its runs, each once, since it has this profile."""
    rights_of: str = ""
    """The profile that `rights` are of."""
    skills: dict[str, SkillLoaded] = msgspec.field(default_factory=dict)
    """The skills that still restrict it, by name."""
    open: dict[str, ToolStarted] = msgspec.field(default_factory=dict)
    """The running calls, by id."""
    turn_seq: int = 0
    """The event number of its newest reply."""
    results: dict[str, ToolResult] = msgspec.field(default_factory=dict)
    """The results of calls of that reply that have ended and not yet joined the history, by id."""
    inbox: list[InboxMessage] = msgspec.field(default_factory=list)
    """The messages that never joined the history."""
    unreported: list[InboxMessage] = msgspec.field(default_factory=list)
    """Ends that an agent above must be told of and was not."""
    reported: dict[str, list[InboxMessage]] = msgspec.field(default_factory=dict)
    """By call id: those ends that a call reports whose result has not joined the history."""
    text: str = ""
    """The newest text of the model in this run, or the result that it handed in."""

    @property
    def task(self) -> str:
        return self.newest_start.task

    @property
    def active_s(self) -> float:
        """Active seconds of the newest run."""
        return self.clock.read(self.seen_at)


class Reporter(Protocol):
    """Makes the report on a sub-agent for its parent's model. `records` are all agents by path."""

    def __call__(self, record: AgentRecord, records: Mapping[str, AgentRecord]) -> str: ...


def status_only(record: AgentRecord, records: Mapping[str, AgentRecord]) -> str:
    """The report on a sub-agent where nobody reads it."""
    return f"{record.path} ({record.profile}): {record.status}"


def replay(envelopes: Iterable[Envelope], report: Reporter = status_only) -> dict[str, AgentRecord]:
    """The agents of a log by path, in the order of their start. Events of agents without a start are ignored. `report`
    makes the results of delegation calls that their process did not survive."""
    records: dict[str, AgentRecord] = {}
    with collecting_later():
        for _ in step_by_step(envelopes, records, report):
            pass
        for record in records.values():
            _close_turn(records, record, report)
            record.history = closed(record.history)
    return records


def step_by_step(
    envelopes: Iterable[Envelope], records: dict[str, AgentRecord], report: Reporter = status_only
) -> Iterator[Envelope]:
    """Fold `envelopes` into `records`, and yield each before its own change is made. What is open at the end stays open."""
    for envelope in envelopes:
        if type(envelope.event) in (AgentStarted, Rewound):
            above = envelope.agent
            while above:  # of the agents above it, too: a new run must not change what a dead call reports
                if (record := records.get(above)) and (record.ended or above == envelope.agent):
                    _close_turn(records, record, report)
                above = parent_of(above)
        yield envelope
        _fold(records, envelope)


def _close_turn(records: dict[str, AgentRecord], record: AgentRecord, report: Reporter) -> None:
    """Give each call of a turn that the process did not survive the result that the log has of it."""
    if calls := open_calls(record.history):
        results = tuple(_result_of(call.id, record, records, report) for call in calls)
        message = Message("tool", results, "harness")
        _read(records, record, message)
        record.history.append(message)


def _result_of(call_id: str, record: AgentRecord, records: Mapping[str, AgentRecord], report: Reporter) -> ToolResult:
    """The result of a call: the one that was logged at its end, else the reports on the sub-agents that it started."""
    ended = record.results.get(call_id)
    if ended is not None and ended.status != "cancelled":
        return ended
    if started := [other for other in records.values() if _was_started_by(other, call_id, record, records)]:
        return ToolResult(call_id, "\n\n".join([CUT, *(report(other, records) for other in started)]), "cancelled")
    return ended or ToolResult(call_id, NEVER_RUN, "cancelled")


def _was_started_by(other: AgentRecord, call_id: str, record: AgentRecord, records: Mapping[str, AgentRecord]) -> bool:
    """Whether a call of the newest turn of `record` started a run of `other`, which may be a sub-agent of a sub-agent that it
    resumed. An agent between them can have a call with the same id."""
    if other.calls.get(call_id, 0) <= record.turn_seq or not is_under(other.path, record.path):
        return False
    between = parent_of(other.path)
    while between != record.path and is_under(between, record.path):
        if any(call.id == call_id for message in records[between].history for call in message.calls):
            return False
        between = parent_of(between)
    return other.path != record.path


def _fold(records: dict[str, AgentRecord], envelope: Envelope) -> None:
    event, path = envelope.event, envelope.agent
    kind = type(event)
    record = records.get(path)
    if record is None:
        if not isinstance(event, AgentStarted):
            return
        record = records[path] = AgentRecord(path)
    record.seen_at, record.seq = envelope.at, envelope.seq or 0
    if kind in _OF_OTHERS:
        _fold_others(records, record, event)
    fold_event(record, event, envelope.at)
    fold = _FOLDS.get(kind)
    if fold is not None:
        fold(record, event)
    if kind is AgentFinished and (above := _nearest_running(records, parent_of(path))):
        above.receipt_builder.add_others(record.receipt_builder.observed(whole=False))


_OF_OTHERS = frozenset((InboxMessage, ToolFinished, MessageAdded))


def _fold_others(records: dict[str, AgentRecord], record: AgentRecord, event: AnyEvent) -> None:
    """What an event of an agent says of the ends of other agents."""
    if isinstance(event, InboxMessage):
        if event.source == "harness":
            _pass_on(records, record.path, event.text)
    elif isinstance(event, ToolFinished):
        if isinstance(event.display, DelegationDisplay):
            record.reported[event.call_id] = [
                n for p in event.display.agents if p in records for n in records[p].unreported
            ]
    elif isinstance(event, MessageAdded) and event.message.role == "tool" and record.reported:
        _read(records, record, event.message)


def _nearest_running(records: dict[str, AgentRecord], path: str) -> AgentRecord | None:
    """The agent that gets what a sub-agent did: `path`, or its nearest ancestor that has not ended; the main agent last."""
    while parent_of(path) and (path not in records or records[path].ended):
        path = parent_of(path)
    return records.get(path)


def _pass_on(records: dict[str, AgentRecord], path: str, text: str) -> None:
    """A notice in the inbox of an agent counts as reported. When its descendant had the same notice unread, it is the
    same one, passed on, so it is removed there."""
    for record in records.values():
        if record.path != path and is_under(record.path, path):
            if record.inbox:
                record.inbox = [waiting for waiting in record.inbox if waiting.text != text]
            if reported := next((notice for notice in record.unreported if same_end(notice.text, text)), None):
                record.unreported.remove(reported)


def _read(records: dict[str, AgentRecord], record: AgentRecord, message: Message) -> None:
    """An end that the result of a call reports needs no separate notice."""
    for result in message.results:
        notices = record.reported.pop(result.call_id, [])
        for other in records.values() if notices and result.status != "cancelled" else ():
            other.unreported = [waiting for waiting in other.unreported if waiting not in notices]


def _start(record: AgentRecord, event: AgentStarted) -> None:
    record.started, record.begun, record.text = record.seen_at, record.seq, ""
    if event.call_id:
        record.calls[event.call_id] = record.seq
    if event.profile != record.rights_of:  # a person gave the main agent another profile
        record.rights, record.rights_of = [], event.profile
    if event.rights is not None and event.rights not in record.rights:
        record.rights.append(event.rights)


def _finish(record: AgentRecord, event: AgentFinished) -> None:
    if notice := pending_end_notice(
        record.path, record.newest_start, event, earlier=record.earlier, background=record.background
    ):
        record.unreported.append(notice)
    if event.stop_reason != "process":  # a skill that it loaded itself restricts it until it ends
        record.skills = {name: one for name, one in record.skills.items() if one.how == "preload"}


def _turn_finished(record: AgentRecord, event: TurnFinished) -> None:
    if event.stop == "refusal":
        record.history = without_refused(record.history)


def _message(record: AgentRecord, event: MessageAdded) -> None:
    message = event.message
    if is_rewind_point(record.path, message):
        record.marks[record.seq] = _mark(record)
    record.history.append(message)
    if message.role == "assistant":
        record.text = message.text or record.text
        record.turn_seq, record.results = record.seq, {}
    elif message.role == "user" and record.inbox:
        text = message.text
        joined = next((waiting for waiting in record.inbox if waiting.text == text), None)
        record.inbox = [waiting for waiting in record.inbox if waiting is not joined]


def _compacted(record: AgentRecord, event: Compacted) -> None:
    record.history = list(event.messages)


def _mark(record: AgentRecord) -> Mark:
    history = record.history
    return Mark(history, len(history), record.context, record.prefix, tuple(record.inbox))


def _rewound(record: AgentRecord, event: Rewound) -> None:
    now = _mark(record)
    mark = after_rewind(record.marks, record.seq, event, now)
    if mark is now:
        return
    record.history, record.context = closed(mark.messages[: mark.count]), mark.context
    record.inbox, record.text = list(mark.inbox), ""
    if mark.prefix != record.prefix:  # thinking is bound to the bytes before it
        record.history, record.context = [without_thinking(m) for m in record.history], 0


def _prefix(record: AgentRecord, event: Prefix) -> None:
    if record.prefix and record.prefix.model != event.model:  # no other model could read it
        record.history = [without_thinking(message) for message in record.history]
    record.prefix = event


def _skill_loaded(record: AgentRecord, event: SkillLoaded) -> None:
    if event.tools is not None:
        record.skills[event.name] = event


def _rule_removed(record: AgentRecord, event: RuleRemoved) -> None:
    gone = event.rule, event.decision
    record.rules = [added for added in record.rules if (added.rule, added.decision) != gone]


def _tool_started(record: AgentRecord, event: ToolStarted) -> None:
    record.open[event.call_id] = event


def _tool_finished(record: AgentRecord, event: ToolFinished) -> None:
    record.open.pop(event.call_id, None)
    if event.text is not None:
        result = ToolResult(event.call_id, event.text, event.status, event.images)
    else:
        how = "It was running" if event.status == "cancelled" else f"It had ended ({event.status})"
        result = ToolResult(event.call_id, f"{how} when its process ended. Its result is not known.", "cancelled")
    record.results[event.call_id] = result
    if event.tool == TASK_RESULT and event.status == "ok" and record.history:
        record.text = handed_in(record.history[-1]) or record.text


_FOLDS: dict[type, Callable[[AgentRecord, Any], None]] = {
    AgentStarted: _start,
    AgentFinished: _finish,
    MessageAdded: _message,
    TurnFinished: _turn_finished,
    Compacted: _compacted,
    Prefix: _prefix,
    Rewound: _rewound,
    RuleAdded: lambda record, event: record.rules.append(event),
    RuleRemoved: _rule_removed,
    SkillLoaded: _skill_loaded,
    InboxMessage: lambda record, event: record.inbox.append(event),
    ToolStarted: _tool_started,
    ToolFinished: _tool_finished,
}
