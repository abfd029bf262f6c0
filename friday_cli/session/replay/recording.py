"""A log read for its replay: what each agent was answered, what people did, and where one process ended and the next began."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from friday_cli.core.eventlog.recorded_requests import requests_of
from friday_cli.core.protocol import events
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.events import Envelope, Requested, SessionStarted, WorkspaceFound
from friday_cli.core.protocol.messages import Message, Usage
from friday_cli.core.protocol.provider import Request
from friday_cli.core.tool_catalog import CANCEL_SUB_AGENT
from friday_cli.tools.delegate.report import report_from_log

NOT_RECORDED = "Its log has no requests: it was made by an earlier version of Friday."


class RecordedRequest(msgspec.Struct):
    """A request of an agent and what came of it, at the time `at`. `number` counts the requests of the agent from 1, `turn` its turns. `event` is
    None for one that was interrupted, `request` where no conversation has it. `reply` is None for a failed one, `failure` for an answered one."""

    agent: str
    number: int
    turn: int
    model: str
    event: Requested | None
    at: float
    seq: int
    """The number of its event, or of the one before which it was interrupted."""
    request: Request | None = None
    reply: Message | None = None
    stop: str = ""
    usage: Usage = Usage()
    failure: events.AttemptFailed | None = None


class RecordedCall(msgspec.Struct):
    """A tool call that ran. `seq` is the number of its event. `finished` is None if its process did not survive it. `ended`: when it did."""

    started: events.ToolStarted
    seq: int
    finished: events.ToolFinished | None = None
    ended: float = 0.0


class RecordedAsk(msgspec.Struct):
    """A question to a person. `answer` is None if it was withdrawn. `answered`: when it was answered."""

    answer: events.PermissionAnswered | events.QuestionAnswered | None = None
    answered: float = 0.0


class PersonAct(msgspec.Struct, frozen=True):
    """An act of a person: `event` at `path`, at the time `at`, after the `count`-th event of kind `after` of agent `agent`."""

    path: str
    event: events.AnyEvent
    agent: str
    after: str
    count: int
    at: float


class PersonPrompt(msgspec.Struct, frozen=True):
    """A message of a person that began a run of the main agent, at the time `at`."""

    start: events.AgentStarted
    message: Message
    at: float


class RecordedProcess(msgspec.Struct):
    """The part of a recording that one process did. `history` are the events before it. `killed`: it died while agents were running."""

    history: Sequence[Envelope]
    first: int
    last: int
    """The numbers of its first and its last event."""
    found: WorkspaceFound
    start: events.AgentStarted
    """That of its main agent."""
    effort: str
    prompts: list[PersonPrompt] = msgspec.field(default_factory=list)
    acts: list[PersonAct] = msgspec.field(default_factory=list)
    began: float = 0.0
    ended: float = 0.0
    killed: bool = False
    after: Sequence[Envelope] = ()
    """What the log has of its death."""
    stops_at: str = ""
    """Why only the part before was read; "" if all of it was."""


class Recording(msgspec.Struct):
    """A session as it was recorded. `requests`, `calls`, `asks`, `hooks` and `ends` are by agent; calls and asks also by the id of the call,
    which the next model of a ladder may use again."""

    session: str
    cwd: str
    envelopes: Sequence[Envelope]
    processes: list[RecordedProcess]
    requests: dict[str, list[RecordedRequest]] = msgspec.field(default_factory=dict)
    calls: dict[tuple[str, str], list[RecordedCall]] = msgspec.field(default_factory=dict)
    asks: dict[tuple[str, str], list[RecordedAsk]] = msgspec.field(default_factory=dict)
    hooks: dict[str, list[events.HookRan]] = msgspec.field(default_factory=dict)
    ends: dict[str, list[tuple[int, events.AgentFinished]]] = msgspec.field(default_factory=dict)
    """With the numbers of the events."""
    profiles: dict[str, str] = msgspec.field(default_factory=dict)
    """The profile of each agent."""

    @property
    def seconds(self) -> float:
        """How long the recorded processes worked."""
        return sum(process.ended - process.began for process in self.processes)


def read_recording(envelopes: Sequence[Envelope]) -> Recording:
    """The recording that a log is. Raises UsageError for a log without one."""
    first = envelopes[0].event if envelopes else None
    if not isinstance(first, SessionStarted):
        raise UsageError("This log has no beginning, so it cannot be replayed.")
    processes = list(_processes(envelopes))
    if not processes:
        raise UsageError(f"Session {first.session[:8]} cannot be replayed. {NOT_RECORDED}")
    found = Recording(first.session, first.cwd, envelopes, processes)
    found.requests = _requests(envelopes)
    _read_answers(found)
    return found


# ---- answers ------------------------------------------------------------------------------------------------------


def _read_answers(found: Recording) -> None:
    asked: dict[str, RecordedAsk] = {}
    for envelope in found.envelopes:
        path, event, at = envelope.agent, envelope.event, envelope.at
        match event:
            case events.AgentStarted():
                found.profiles[path] = event.profile
            case events.ToolStarted():
                found.calls.setdefault((path, event.call_id), []).append(RecordedCall(event, envelope.seq or 0))
            case events.ToolFinished() if (calls := found.calls.get((path, event.call_id))) is not None:
                calls[-1].finished, calls[-1].ended = event, at
            case events.PermissionAsked() | events.QuestionAsked():
                asked[event.id] = RecordedAsk()
                found.asks.setdefault((path, event.call_id), []).append(asked[event.id])
            case events.PermissionAnswered() | events.QuestionAnswered() if event.id in asked:
                asked[event.id].answer, asked[event.id].answered = event, at
            case events.HookRan():
                found.hooks.setdefault(path, []).append(event)
            case events.AgentFinished():
                found.ends.setdefault(path, []).append((envelope.seq or 0, event))


def _requests(envelopes: Sequence[Envelope]) -> dict[str, list[RecordedRequest]]:
    """The requests of each agent, in order, with what came of them."""
    reader = _RequestReader({envelope.seq: request for envelope, request in requests_of(envelopes, report_from_log)})
    for envelope in envelopes:
        reader.read(envelope)
    return dict(reader.found)


class _RequestReader:
    """Finds the requests of a log. `made` are those of conversations, by the number of their event."""

    def __init__(self, made: Mapping[int | None, Request | None]) -> None:
        self.found: dict[str, list[RecordedRequest]] = defaultdict(list)
        self._made, self._seq = made, 0
        self._turns: dict[str, int] = defaultdict(int)
        self._models: dict[str, str] = {}
        self._sent: set[str] = set()
        """Agents with a request under way."""
        self._open: dict[str, RecordedRequest] = {}
        """The newest ended request of each agent, while it is not known what came of it."""

    def read(self, envelope: Envelope) -> None:
        path, event = envelope.agent, envelope.event
        self._seq = envelope.seq or 0
        match event:
            case events.Prefix():
                self._models[path] = event.model
            case events.TurnStarted():
                self._interrupted(path)
                self._turns[path] = event.turn
                self._sent.add(path)
            case events.AgentFinished():
                self._interrupted(path)
            case Requested():
                self._sent.discard(path)
                one = self._add(path, event, envelope.at)
                one.request = self._made.get(envelope.seq)
                one.reply, one.stop, one.usage = event.reply, event.stop, event.usage
                self._open[path] = one
            case _ if path in self._open:
                self._outcome(self._open[path], event)

    def _add(self, path: str, event: Requested | None, at: float) -> RecordedRequest:
        one = RecordedRequest(
            path,
            len(self.found[path]) + 1,
            self._turns[path],
            model=self._models.get(path, ""),
            event=event,
            at=at,
            seq=self._seq,
        )
        self.found[path].append(one)
        return one

    def _interrupted(self, path: str) -> None:
        """A request that was under way has no end: its agent was stopped, or its process died."""
        if path in self._sent:
            self._sent.discard(path)
            self._add(path, None, 0.0)

    def _outcome(self, one: RecordedRequest, event: events.AnyEvent) -> None:
        match event:
            case events.AttemptFailed():
                one.failure, one.reply = event, None
                del self._open[one.agent]
                if event.retry_s is not None:
                    self._sent.add(one.agent)
            case events.MessageAdded() if event.message.role == "assistant":
                one.reply = event.message
            case events.TurnFinished():
                one.usage, one.stop = event.usage, event.stop
                del self._open[one.agent]
            case events.IntentStated():
                one.usage, one.stop = event.usage, "end_turn"
                del self._open[one.agent]


# ---- processes ------------------------------------------------------------------------------------------------------


def _processes(envelopes: Sequence[Envelope]) -> Iterable[RecordedProcess]:
    """The processes of a session: each writes a `workspace` event after its first start of the main agent."""
    starts = [index for index, e in enumerate(envelopes) if isinstance(e.event, WorkspaceFound)]
    begins = [max((n for n in range(index) if _starts_root(envelopes[n])), default=-1) for index in starts]
    if -1 in begins or sorted({*begins}) != begins:
        raise UsageError("This log cannot be replayed: not each of its processes has a beginning.")
    for number, (at, begin) in enumerate(zip(starts, begins, strict=True)):
        until = begins[number + 1] if number + 1 < len(begins) else len(envelopes)
        found, start = envelopes[at].event, envelopes[begin].event
        assert isinstance(found, WorkspaceFound)
        assert isinstance(start, events.AgentStarted)
        part = envelopes[begin:until]
        effort = next((e.event.effort for e in part if isinstance(e.event, Requested) and e.agent == "a"), "")
        history = envelopes[
            : begin if any(map(_starts_root, envelopes[:begin])) else 0
        ]  # the first one begins the session
        process = RecordedProcess(
            history,
            (history[-1].seq or 0) + 1 if history else 0,
            part[-1].seq or 0,
            found,
            start,
            effort,
        )
        _read_process(process, part)
        yield process


def _starts_root(envelope: Envelope) -> bool:
    return envelope.agent == "a" and isinstance(envelope.event, events.AgentStarted)


_PERSON = (events.InboxMessage, events.ModeChanged, events.Detached)
_ENDS_REPLAY = (events.Rewound, events.TakenOver, events.SubAgentsChosen)
_ANCHORS = (
    events.AgentStarted, events.TurnStarted, events.TurnFinished, events.ToolStarted, events.ToolFinished,
    events.PermissionAsked, events.QuestionAsked,
)  # fmt: skip


def _read_process(process: RecordedProcess, part: Sequence[Envelope]) -> None:
    """The prompts and acts of a person in `part`, in order."""
    counts: dict[tuple[str, str], int] = defaultdict(int)
    anchor: dict[str, tuple[str, int, float]] = {}
    start: events.AgentStarted | None = None
    wraps: dict[str, tuple[dict[str, tuple[str, int, float]], float]] = {}
    process.began = part[0].at
    for index, envelope in enumerate(part):
        path, event, at = envelope.agent, envelope.event, envelope.at
        if isinstance(event, events.TurnStarted) and event.wrap_up and path not in wraps:
            wraps[path] = dict(anchor), at
        if isinstance(event, _ANCHORS):
            kind = events.kind(event)
            counts[path, kind] += 1
            anchor[path] = kind, counts[path, kind], at
        match event:
            case events.AgentStarted():
                start = event if path == "a" else start
            case events.MessageAdded() if path == "a" and start is not None and event.message.role == "user":
                if event.message.source == "person":
                    process.prompts.append(PersonPrompt(start, event.message, at))
                start = None if event.message.source == "person" else start
            case events.AgentFinished():
                if event.stop_reason == "process":
                    process.killed, process.after = True, part[index:]
                    break
                if event.stop_reason in ("aborted", "cancelled") and not _by_agent(part[:index], path):
                    before, asked = wraps.pop(path, (anchor, at)) if event.stop_reason == "cancelled" else (anchor, at)
                    process.acts.append(_act(msgspec.structs.replace(envelope, at=asked), before))
            case _ if isinstance(event, _ENDS_REPLAY):
                process.stops_at = (
                    f"event {envelope.seq} ({events.kind(event)}) is an act of a person that is not replayed"
                )
                break
            case _ if isinstance(event, _PERSON) and _is_act(event, part, index):
                process.acts.append(_act(envelope, anchor))
        process.ended = at


def _is_act(event: events.AnyEvent, part: Sequence[Envelope], index: int) -> bool:
    """Whether a person did it, and not the engine."""
    if isinstance(event, events.InboxMessage):
        return event.source == "person"
    if isinstance(event, events.ModeChanged):  # the answer to a plan changes it, too
        return not any(isinstance(e.event, events.QuestionAnswered) for e in part[max(0, index - 3) : index])
    return True


def _by_agent(before: Sequence[Envelope], path: str) -> bool:
    """Whether an agent stopped `path` by a call, or what is above it was stopped."""
    for envelope in reversed(before):
        event = envelope.event
        if isinstance(event, events.ToolStarted) and event.tool == CANCEL_SUB_AGENT:
            return path.startswith(f"{envelope.agent}.")
        if envelope.agent == path and isinstance(event, events.AgentStarted):
            return False
    return False


def _act(envelope: Envelope, anchor: dict[str, tuple[str, int, float]]) -> PersonAct:
    path = envelope.agent
    if path not in anchor:
        path = max(anchor, key=lambda name: anchor[name][2])
    after, count, _ = anchor[path]
    return PersonAct(envelope.agent, envelope.event, path, after, count, at=envelope.at)
