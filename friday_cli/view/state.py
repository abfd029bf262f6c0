"""Computes the view of a session from its events; the same for a live session and one read from disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import msgspec

from friday_cli.core.eventlog.agent_fold import fold_event
from friday_cli.core.eventlog.collecting import collecting_later
from friday_cli.core.eventlog.notices import NOTE, split_notes
from friday_cli.core.eventlog.rewind_marks import after_rewind, is_rewind_point
from friday_cli.core.protocol import events
from friday_cli.core.protocol.agent_path import parent_of
from friday_cli.core.protocol.events import LIVE, Envelope
from friday_cli.core.protocol.format import how_it_ended
from friday_cli.core.protocol.messages import Image, Thinking, Usage
from friday_cli.core.protocol.plan import INSTEAD
from friday_cli.core.protocol.run_result import ENDED
from friday_cli.core.text.skill_marks import folded_skills

from .event_notes import NOTES, WORKED, note_failure, settle_failure
from .follower import EventSource, SessionFollower
from .items import AgentView, DeniedCall, MessageItem, NoteItem, PendingAsk, ResultItem, ToolRun, rewind_text, tool_run


class SessionView(msgspec.Struct):
    """The view of a session: apply all envelopes in order, and read the fields. `seq` and `at` are the number and the
    time (Unix seconds) of the newest durable event. Live events change only what the next durable event replaces, so
    the result is the same as that of the log alone."""

    session: str = ""
    cwd: str = ""
    version: str = ""
    mode: str = ""
    seq: int = 0
    at: float = 0.0
    agents: dict[str, AgentView] = {}
    asks: dict[str, PendingAsk] = {}
    denials: list[DeniedCall] = []
    notices: list[tuple[str, NoteItem]] = []
    rules: list[events.RuleAdded] = []
    used_before: Usage = Usage()
    """What the session had used when the newest run of the main agent began."""

    @classmethod
    def of(cls, envelopes: Iterable[Envelope]) -> SessionView:
        """The view after `envelopes`."""
        state = cls()
        with collecting_later():
            for envelope in envelopes:
                state.apply(envelope)
        return state

    def apply(self, envelope: Envelope) -> tuple[str, ...]:
        """Apply one event; returns the paths of the agents whose view changed."""
        event, path = envelope.event, envelope.agent
        if envelope.seq is not None:
            self.seq, self.at = envelope.seq, envelope.at
        if isinstance(event, events.SessionStarted):
            self.session, self.cwd, self.version = event.session, event.cwd, event.version
            return ()
        agent = self.agents.get(path)
        if agent is None:
            if isinstance(event, (*LIVE, events.SubAgentsChosen)):
                return ()
            agent = self.agents[path] = AgentView(path)
        known = fold_event(agent, event, envelope.at)
        fold = _FOLDS.get(type(event))
        if fold is None:
            return (path,) if known else ()
        fold(self, agent, event, envelope.at)
        return (path, agent.parent) if isinstance(event, events.AgentStarted) and agent.parent else (path,)

    @property
    def root(self) -> AgentView | None:
        return self.agents.get("a")

    def usage_of(self, path: str) -> Usage:
        """The usage of an agent and all its descendants, with an estimate for replies that are being streamed; the cost is
        None if a price is unknown."""
        agent = self.agents[path]
        return sum(map(self.usage_of, agent.children), agent.usage_now)

    @property
    def totals(self) -> Usage:
        """The usage of the whole session."""
        return sum((agent.usage for agent in self.agents.values()), Usage())

    @property
    def working(self) -> list[AgentView]:
        """The agents that have started and have not ended."""
        return [agent for agent in self.agents.values() if agent.run and not agent.ended]

    @property
    def moves(self) -> bool:
        """Whether something goes on without a person."""
        return any(agent.status not in ("waiting_user", "waiting_child") for agent in self.working)


class EventFold:
    """The view of one session, kept up to date. `on_change` is called when the view has changed, or when an error ended that."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self.state = SessionView()
        self.dirty: set[str] = set()
        """Paths of the agents that have changed; the reader empties the set."""
        self._on_change = on_change
        self._follower: SessionFollower | None = None

    async def start(self, source: EventSource, *, lull_s: float) -> None:
        """Fold the events of `source`; `lull_s` is that of `Session.events`. Returns when those from before its opening are
        folded."""
        self._follower = SessionFollower(
            source, self._fold, after=self.state.seq, lull_s=lull_s, on_failure=self._on_change
        )
        await self._follower.caught_up.wait()

    async def stop(self, *, cancel: bool) -> None:
        """Wait until all events are folded; with `cancel` stop now, when the source does not end by itself."""
        if self._follower is not None:
            await (self._follower.cancel() if cancel else self._follower.until(lambda: False))

    @property
    def failure(self) -> BaseException | None:
        """The defect that ended the folding."""
        return self._follower.failure if self._follower is not None else None

    def _fold(self, envelope: Envelope, replayed: bool) -> None:
        self.dirty.update(self.state.apply(envelope) or ("a",))
        if not replayed:
            self._on_change()


# ---- runs -------------------------------------------------------------------------------------------------------


def _agent_started(state: SessionView, agent: AgentView, event: events.AgentStarted, at: float) -> None:
    agent.started = agent.started or at
    parent = state.agents.get(above) if (above := parent_of(agent.path)) else None
    if parent is not None and agent.path not in parent.children:
        parent.children.append(agent.path)
    if parent is not None and event.call_id in parent.calls:
        parent.calls[event.call_id].agents.append(agent.path)
    if event.run == 1 or event.call_id or not event.parent:  # a message of the user to a sub-agent is not its task
        agent.task = event.task
    agent.finished = None
    agent.denied_before = agent.receipt.denied
    if not event.parent:
        state.used_before = state.totals
        state.mode = event.mode or state.mode


def _agent_finished(state: SessionView, agent: AgentView, event: events.AgentFinished, at: float) -> None:
    agent.finished = at
    for run in agent.open.values():
        run.status, run.output = "cancelled", None
    agent.open.clear()
    state.asks = {ask_id: ask for ask_id, ask in state.asks.items() if ask.agent != agent.path}
    agent.close_reply()
    settle_failure(agent.transcript, "")
    if not event.success:
        ended = how_it_ended(event.status, event.stop_reason)
        level: Literal["error", "warning"] = "error" if event.status == "failed" else "warning"
        agent.transcript.append(NoteItem(f"{ended}: {event.error}".rstrip(": "), level, at))
    if agent.parent or agent.receipt.warnings:
        agent.transcript.append(ResultItem(agent.unshown_result, at, event.findings, agent.receipt))
    _update_clocks(state.agents, state.agents.get(agent.parent), at)


def _status_changed(state: SessionView, agent: AgentView, event: events.StatusChanged, at: float) -> None:
    if not agent.ended and event.status not in ENDED:
        _update_clocks(state.agents, agent, at)


# ---- turns and messages -----------------------------------------------------------------------------------------


def _turn_started(state: SessionView, agent: AgentView, event: events.TurnStarted, at: float) -> None:
    agent.turns, agent.context, agent.request = agent.turns + 1, event.context or agent.context, event
    agent.writing, agent.attempt, agent.reply, agent.window = True, 1, None, event.window or agent.window


def _turn_finished(state: SessionView, agent: AgentView, event: events.TurnFinished, at: float) -> None:
    agent.window = event.window or agent.window
    agent.close_reply()


def _attempt_failed(state: SessionView, agent: AgentView, event: events.AttemptFailed, at: float) -> None:
    agent.attempt, agent.reply = event.attempt + 1, None
    note_failure(agent.transcript, event, at)


def _message_added(state: SessionView, agent: AgentView, event: events.MessageAdded, at: float) -> None:
    message = event.message
    if message.role == "assistant":
        settle_failure(agent.transcript, WORKED)
    if message.role == "tool":
        for result in message.results:
            if (run := agent.calls.get(result.call_id)) is not None:
                run.text, run.status, run.output = result.text, result.status, None
                agent.open.pop(result.call_id, None)
        return
    thinking = "".join([part.text for part in message.parts if isinstance(part, Thinking)])
    images = len([part for part in message.parts if isinstance(part, Image)])
    if is_rewind_point(agent.path, message):
        agent.marks[state.seq] = agent.transcript, len(agent.transcript)
    text = message.text.removeprefix(NOTE).lstrip() if message.source == "harness" else message.text
    if message.role == "user" and message.source == "person":
        notes, text = split_notes(message)
        agent.transcript += [NoteItem(note.replace(INSTEAD, ""), "info", at) for note in notes]
    if text or thinking or images:
        text = folded_skills(text) if message.role == "user" else text
        agent.transcript.append(MessageItem(message.role, text, at, thinking, message.source, images))
    if message.role == "assistant":
        agent.close_reply()
        for call in message.calls:
            run = agent.calls[call.id] = agent.open[call.id] = tool_run(call.id, call.name, call.arguments)
            agent.transcript.append(run)
    elif agent.queued:
        agent.queued = [waiting for waiting in agent.queued if waiting.text not in message.text]


def _compacted(state: SessionView, agent: AgentView, event: events.Compacted, at: float) -> None:
    agent.attempt, agent.reply = 1, None
    text = f"The context was compacted: {event.before:,} -> {event.after:,} tokens."
    more = event.messages[0].text.partition("\n\n")[2] if event.messages else ""  # the part after its header
    if not event.before:
        text, more = f"Started as a fork of its parent, with {event.after:,} tokens of its conversation.", ""
    agent.transcript.append(NoteItem(text, "info", at, more))


def _rewound(state: SessionView, agent: AgentView, event: events.Rewound, at: float) -> None:
    now = agent.transcript, len(agent.transcript)
    mark = after_rewind(agent.marks, state.seq, event, now)
    if mark is not now:
        agent.transcript, agent.context, agent.queued = mark[0][: mark[1]], 0, []
    agent.transcript.append(NoteItem(rewind_text(event), "info", at))


def _verdict(state: SessionView, agent: AgentView, event: events.Verdict, at: float) -> None:
    if event.verdict != "accept" or event.reasons:
        reasons = "; ".join(reason for reason in (event.reason, *event.reasons) if reason)
        level: Literal["info", "warning"] = "info" if event.verdict == "accept" else "warning"
        text = f"Supervision: {event.verdict} (by {event.by}): {reasons}".rstrip(": ")
        agent.transcript.append(NoteItem(text, level, at))


def _notice(state: SessionView, agent: AgentView, event: events.Notice, at: float) -> None:
    note = NoteItem(event.text, event.level, at, topic=event.topic)
    agent.transcript.append(note)
    state.notices.append((agent.path, note))


def _noted(state: SessionView, agent: AgentView, event: Any, at: float) -> None:
    agent.transcript.append(NoteItem(NOTES[type(event)](event), "info", at))


# ---- waiting ----------------------------------------------------------------------------------------------------


def awaited_children(agents: Mapping[str, AgentView], agent: AgentView) -> list[AgentView]:
    """The children that an agent in status `waiting_child` waits for. With parallel calls the status names only one."""
    found = {*agent.waiting.agents, *agent.children} & agents.keys()
    children = (agents[path] for path in sorted(found, key=lambda path: (len(path), path)))
    return [child for child in children if not child.ended and not child.background]


def _update_clocks(agents: Mapping[str, AgentView], agent: AgentView | None, at: float) -> None:
    """Start or stop, at time `at`, the clock of the main agent, when it waits for children. Meanwhile it runs while one of
    `agent` and the others below it runs."""
    root = agent
    while root is not None and (above := parent_of(root.path)) and above in agents:
        root = agents[above]
    if root is not None and root.status == "waiting_child":
        root.clock.set_running(_children_run(agents, root), at)


def _children_run(agents: Mapping[str, AgentView], agent: AgentView) -> bool:
    """Whether one of the agents runs that an agent in status `waiting_child` waits for."""
    live = awaited_children(agents, agent)
    return not live or any(
        _children_run(agents, child) if child.status == "waiting_child" else child.clock.runs for child in live
    )


# ---- tools and questions ----------------------------------------------------------------------------------------


def _tool_started(state: SessionView, agent: AgentView, event: events.ToolStarted, at: float) -> None:
    run = agent.calls.get(event.call_id)
    if run is None:  # no message has such a call: the model service ran this tool
        run = agent.calls[event.call_id] = ToolRun(event.call_id, event.tool, {})
        agent.transcript.append(run)
    else:
        agent.open.pop(event.call_id, None)
        agent.open[event.call_id] = run  # to the end: the newest running call is the last
    run.status, run.title, run.started = "running", event.title, at


def _tool_finished(state: SessionView, agent: AgentView, event: events.ToolFinished, at: float) -> None:
    run = agent.calls.get(event.call_id)
    if run is not None:
        run.status, run.duration_s, run.display, run.output = event.status, event.duration_s, event.display, None
        run.images = len(event.images)
        run.text = run.text if event.text is None else event.text


def _denied(state: SessionView, agent: AgentView, event: events.Denied, at: float) -> None:
    denial = DeniedCall(
        agent.path, event.call_id, event.tool, event.subject, event.reason, "harness", unasked=event.unasked
    )
    state.denials.append(denial)
    if event.call_id in agent.calls:
        agent.calls[event.call_id].status = "denied"


def _asked(
    state: SessionView, agent: AgentView, event: events.PermissionAsked | events.QuestionAsked, at: float
) -> None:
    state.asks[event.id] = PendingAsk(agent.path, agent.profile, agent.task, at, event)
    run = agent.calls.get(event.call_id)
    if run is not None:
        run.status = "waiting"


def _permission_answered(state: SessionView, agent: AgentView, event: events.PermissionAnswered, at: float) -> None:
    ask = state.asks.pop(event.id, None)
    if ask is None or not isinstance(ask.event, events.PermissionAsked):
        return
    asked, run = ask.event, agent.calls.get(ask.event.call_id)
    if event.decision == "deny":
        state.denials.append(DeniedCall(ask.agent, asked.call_id, asked.tool, asked.subject, event.reason, event.by))
    if run is not None:
        run.status = "denied" if event.decision == "deny" else "running" if run.started else "pending"


def _settled(
    state: SessionView, agent: AgentView, event: events.QuestionAnswered | events.AskWithdrawn, at: float
) -> None:
    ask = state.asks.pop(event.id, None)
    if ask is not None and isinstance(ask.event, events.QuestionAsked) and (run := agent.calls.get(ask.event.call_id)):
        run.status = "running"


def _mode_changed(state: SessionView, agent: AgentView, event: events.ModeChanged, at: float) -> None:
    if not agent.parent:
        state.mode = event.mode


def _rule_removed(state: SessionView, agent: AgentView, event: events.RuleRemoved, at: float) -> None:
    gone = event.rule, event.decision
    state.rules = [added for added in state.rules if (added.rule, added.decision) != gone]


_DELTAS = (events.TextDelta, events.ThinkingDelta, events.CallDelta)
_FOLDS: dict[type, Callable[[SessionView, AgentView, Any, float], None]] = {
    events.AgentStarted: _agent_started,
    events.AgentFinished: _agent_finished,
    events.StatusChanged: _status_changed,
    events.TurnStarted: _turn_started,
    events.TurnFinished: _turn_finished,
    events.AttemptFailed: _attempt_failed,
    events.MessageAdded: _message_added,
    events.Compacted: _compacted,
    events.Rewound: _rewound,
    events.Verdict: _verdict,
    events.Detached: lambda state, agent, event, at: _update_clocks(state.agents, state.agents.get(agent.parent), at),
    events.InboxMessage: lambda state, agent, event, at: agent.queued.append(event),
    **dict.fromkeys(NOTES, _noted),
    events.Notice: _notice,
    events.ToolStarted: _tool_started,
    events.ToolFinished: _tool_finished,
    events.Denied: _denied,
    events.PermissionAsked: _asked,
    events.QuestionAsked: _asked,
    events.PermissionAnswered: _permission_answered,
    events.QuestionAnswered: _settled,
    events.AskWithdrawn: _settled,
    events.ModeChanged: _mode_changed,
    events.RuleAdded: lambda state, agent, event, at: state.rules.append(event),
    events.RuleRemoved: _rule_removed,
    # live events: the next durable one replaces what they change
    **dict.fromkeys(_DELTAS, lambda state, agent, event, at: agent.put_delta(event)),
    events.ToolOutput: lambda state, agent, event, at: agent.put_output(event),
}
