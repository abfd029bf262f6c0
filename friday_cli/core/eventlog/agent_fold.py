"""The fold of an agent's events that replay and the view share."""

from __future__ import annotations

import msgspec

from ..protocol import events
from ..protocol.handover import PersonPart
from ..protocol.messages import NO_USAGE, Usage
from ..protocol.receipt import Receipt
from ..protocol.receipt_builder import ReceiptBuilder
from ..protocol.run_result import ENDED, RunResult, Status


class ActiveTime(msgspec.Struct):
    """Active seconds of an agent, from the changes of its status. `earlier` has those of its earlier runs, `active` those of
    its newest run up to `since`. Times in Unix seconds."""

    active: float = 0.0
    since: float = 0.0
    runs: bool = False
    earlier: float = 0.0

    def begin(self, at: float, *, runs: bool) -> None:
        """A new run begins."""
        self.earlier += self.active
        self.active, self.since, self.runs = 0.0, at, runs

    def set_running(self, runs: bool, at: float) -> None:
        """Start or stop the clock."""
        self.active, self.since, self.runs = self.read(at), at, runs

    def finish(self, active: float) -> None:
        """The run ended after `active` seconds, as the agent measured them."""
        self.active, self.runs = active, False

    def read(self, at: float) -> float:
        """Active seconds of the newest run until `at`."""
        return self.active + (max(0.0, at - self.since) if self.runs else 0.0)

    def total(self, at: float) -> float:
        """Active seconds of all runs until `at`."""
        return self.earlier + self.read(at)


class AgentState(msgspec.Struct):
    """The state of one agent, as the log tells it."""

    path: str
    newest_start: events.AgentStarted = events.AgentStarted(0, "", "", "")
    """The start of its newest run, with its budgets."""
    end: RunResult | None = None
    """How that run ended; None while it is open."""
    kept: RunResult | None = None
    """The newest good result of all its runs."""
    status: Status = "queued"
    waiting: events.StatusChanged = events.StatusChanged("queued")
    """The newest change of its status: with a waiting `status`, what it waits for."""
    model: str = ""
    mode: str = ""
    background: bool = False
    """Whether nobody waits for the end of its newest run."""
    turn: int = 0
    """The number of the newest request of its newest run, from 1."""
    context: int = 0
    """Tokens of its conversation."""
    sent: Usage = Usage()
    """An estimate for a request without a reply yet."""
    marked: bool = False
    """Whether its log has each request that was sent."""
    usage: Usage = Usage()
    """Its own over its life."""
    tree_usage: Usage = Usage()
    """The same with its descendants, from the end of a run."""
    asks: dict[str, events.PermissionAsked | events.QuestionAsked] = {}
    """Its open questions, by id."""
    worktree: events.WorktreeChanged | None = None
    """The newest change of its worktree."""
    taken_over: bool = False
    """Whether a person works with it in place of its parent."""
    receipt_builder: ReceiptBuilder = msgspec.field(default_factory=ReceiptBuilder)
    clock: ActiveTime = msgspec.field(default_factory=ActiveTime)

    def add_usage(self, usage: Usage) -> None:
        """A request of the agent ended."""
        self.usage += usage
        if self.marked:
            self.sent = Usage()

    @property
    def ended(self) -> bool:
        """Whether its newest run ended."""
        return self.end is not None

    @property
    def earlier(self) -> RunResult | None:
        """The result of an earlier run, if the newest one has none as good."""
        return self.kept if self.kept != self.end else None

    @property
    def run(self) -> int:
        """The number of its newest run, from 1; 0 before the first."""
        return self.newest_start.run

    @property
    def parent(self) -> str:
        return self.newest_start.parent

    @property
    def profile(self) -> str:
        return self.newest_start.profile

    @property
    def receipt(self) -> Receipt:
        """What the harness saw it do, over its life."""
        return self.receipt_builder.receipt


_UNUSED = frozenset(
    (events.MessageAdded, events.ToolStarted, events.TextDelta, events.ThinkingDelta, events.ToolOutput)
)


def fold_event(state: AgentState, event: events.AnyEvent, at: float) -> bool:
    """Update `state` by an event of its agent, which happened at `at` in Unix seconds. False when it says nothing of it."""
    if type(event) in _UNUSED:  # most events of a log
        return False
    match event:  # the most frequent ones first
        case events.ToolFinished():
            state.receipt_builder.add(event.tool, event.status, event.facts)
            if event.usage is not NO_USAGE:
                state.add_usage(event.usage)
        case events.TurnStarted():
            state.turn, state.sent = event.turn, Usage() if event.marked else event.request
            state.marked = event.marked
        case events.RequestSent():
            state.sent = event.request
        case events.TurnFinished():
            state.sent = Usage()
            state.usage += event.usage
            state.context = event.context or state.context
        case events.StatusChanged():
            if state.end is None and event.status not in ENDED:
                state.status, state.waiting = event.status, event
                waits_for_child = event.status == "waiting_child" and not state.parent  # it counts for the root only
                state.clock.set_running(event.status == "running" or waits_for_child, at)
        case events.AgentStarted():
            _started(state, event, at)
        case events.AgentFinished():
            _finished(state, event)
        case events.PermissionAsked() | events.QuestionAsked():
            state.asks[event.id] = event
        case events.PermissionAnswered() | events.QuestionAnswered() | events.AskWithdrawn():
            state.asks.pop(event.id, None)
        case events.AttemptFailed() | events.CacheRefreshed() | events.IntentStated() | events.Verdict():
            state.add_usage(event.usage)
        case events.Compacted():
            state.add_usage(event.usage)
            state.context = event.after
        case events.Prefix():
            state.model = event.model
        case events.ModeChanged():
            state.mode = event.mode
        case events.WorktreeChanged():
            state.worktree = event
        case events.Detached():
            state.background = True
        case events.TakenOver():
            state.taken_over = True
            state.receipt_builder.add_person(PersonPart(event.since))
        case events.HandedBack():
            state.taken_over = False
            state.receipt_builder.add_person(event.part)
        case events.PersonCommand():
            state.receipt_builder.add_others(Receipt(commands=(event.run,)))
        case events.SkillLoaded():
            state.receipt_builder.add_skill(event.name, event.sha256)
        case _:
            return False
    return True


def _started(state: AgentState, event: events.AgentStarted, at: float) -> None:
    state.newest_start, state.end, state.model = event, None, event.model
    state.status = "queued" if event.parent else "running"
    state.mode, state.background, state.turn = event.mode or state.mode, event.background, 0
    state.receipt_builder.begin()
    state.clock.begin(at, runs=not event.parent)


def _finished(state: AgentState, event: events.AgentFinished) -> None:
    state.end, state.status = event.result_of_run, event.status
    state.kept = event.result_of_run.to_keep(state.kept)
    state.tree_usage, state.sent = event.tree_usage, Usage()
    if event.usage != Usage():
        state.usage = event.usage
    if event.receipt != Receipt():
        state.receipt_builder.reset(event.receipt)
    state.taken_over = False
    state.asks.clear()
    state.clock.finish(event.duration_s)
