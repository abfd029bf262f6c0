"""One run of one agent, its task, and the summary of it for other agents."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from enum import IntEnum
from typing import Any, Literal

import msgspec

from ..agent.agent import Agent
from ..limits.budget import Budget
from ..protocol.agent_path import is_under, parent_of
from ..protocol.errors import ToolError
from ..protocol.forecast import Forecast
from ..protocol.limits import Limits
from ..protocol.messages import Usage
from ..protocol.profile_rights import ProfileRights
from ..protocol.provider import Provider
from ..protocol.receipt import Receipt
from ..protocol.run_result import RESULT_CHARS, RunResult, Status, StopReason
from .driver import Driver

Verify = Callable[[Agent, RunResult], Awaitable[str]]
"""Checks the result of an agent. Returns what the agent must correct, "" for nothing."""


def require_text(text: str) -> None:
    """Raises ToolError for a task or message of blanks: services refuse it."""
    if not text.strip():
        raise ToolError("The text is empty.", hint="Say what the sub-agent should do.")


class SubagentTask(msgspec.Struct, frozen=True):
    """The task of a sub-agent."""

    profile: str
    task: str
    context: str = ""
    limits: Limits = Limits()
    """They can only lower those of its profile. `time_s` counts for it and for the sub-agents that it waits for."""
    max_depth: int | None = None
    """How deep agents may be nested at and below it; the main agent is 0."""
    call_id: str = ""
    batch: str = ""
    """As in `AgentStarted`."""
    background: bool = False
    """Its parent does not wait for it."""
    fork: bool = False
    """It starts with its parent's conversation."""
    schema: dict[str, Any] | None = None
    """A JSON Schema that the result must match."""
    workspace: Any = None
    """A separate Workspace; None: its parent's."""
    self_contained: bool = False
    """The task includes all input, so a result without tool calls is not suspicious."""
    skill: Any = None
    """A LoadedSkill that it carries out."""
    forecast: Forecast | None = None
    """What such a delegation usually uses."""
    budget: Budget | None = None
    """Pays for it instead of its parent's."""
    verify: Verify | None = None
    """Checks its result before its run ends; the agent corrects what it returns."""
    forget: bool = False
    """Once it has ended, only the log knows it and what it started, for a parent of very many."""
    with_person: bool = False
    """A person has taken it over from its start."""
    earlier_rights: Sequence[ProfileRights] = ()
    """What its profile let it do in earlier runs; it gets no more."""


class SpawnEstimate(msgspec.Struct, frozen=True):
    """The facts on which the price of a sub-agent depends: its parent's provider, its profile, its token limit."""

    above: Provider
    profile: str
    max_tokens: int | None


class AgentSummary(msgspec.Struct, frozen=True):
    """The facts about an agent that other agents may know."""

    path: str
    profile: str
    task: str
    status: Status
    end: RunResult | None = None
    """How its newest run ended; None while it is open."""
    usage: Usage = Usage()
    """With that of its descendants."""
    duration_s: float = 0.0
    """Active seconds of that run."""
    receipt: Receipt = Receipt()
    model: str = ""
    kept: RunResult | None = None
    """The newest good result of all its runs."""
    result_chars: int = RESULT_CHARS
    """Characters of its result that its parent reads at once."""

    @property
    def earlier(self) -> RunResult | None:
        """The result of an earlier run, if the newest one has none as good."""
        return self.kept if self.kept != self.end else None


class ChildNumbers:
    """The highest number of a child by parent. `paths` are those of the agents so far."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._highest: dict[str, int] = {}
        for path in paths:
            self.add(path)

    def add(self, path: str) -> None:
        """An agent has this path."""
        parent, _, number = path.rpartition(".")
        self._highest[parent] = max(int(number), self._highest.get(parent, 0))

    def next_path(self, parent: str) -> str:
        """The path of the next child."""
        return f"{parent}.{1 + self._highest.get(parent, 0)}"


class Phase(IntEnum):
    """The phases of a run, in order."""

    STARTED = 0
    """Nothing of it is logged."""
    WORKING = 1
    WRAPPING_UP = 2
    """It may only hand back what it has: a limit was reached, or it was asked to."""
    ENDING = 3
    """Its result is known; its sub-agents and processes are being stopped."""
    ENDED = 4
    """Its final event is logged."""


class AgentRun:
    """One run of one agent."""

    def __init__(self, agent: Agent, driver: Driver, spec: SubagentTask, kept: RunResult | None = None) -> None:
        self.agent = agent
        self.driver = driver
        """What does its work."""
        self.spec = spec
        self.kept = kept
        """The newest good result of its earlier runs."""
        self.phase = Phase.STARTED
        self.task: asyncio.Task[None] | None = None
        """The whole run."""
        self.work: asyncio.Task[RunResult] | None = None
        """What the driver does now."""
        self.background = spec.background
        self.waiter = parent_of(agent.path)
        """The agent that started it, "" for a person."""
        self.reports_to = ""
        """The agent whose call stops it and returns its result."""
        self.detached = asyncio.Event()
        self.why: StopReason | None = None
        """The reason of an abort."""
        self.soft: Literal["cancelled", "time"] | None = None
        """The reason of a requested wrap-up."""
        self.keeps_background = False
        """Whether its own background sub-agents continue when it is stopped."""
        self.outcome = RunResult("queued", "done", "")

    @property
    def path(self) -> str:
        return self.agent.path

    @property
    def ending(self) -> bool:
        """Whether its result is known."""
        return self.phase >= Phase.ENDING

    @property
    def ended(self) -> bool:
        """Whether its final event is logged."""
        return self.phase is Phase.ENDED

    @property
    def leaving(self) -> bool:
        """Whether it is being stopped or ends, so that it may start no sub-agents."""
        return bool(self.why or self.soft or self.ending)

    def keeps(self, child: AgentRun) -> bool:
        """Whether a child continues when this run is stopped."""
        return self.keeps_background and child.background and parent_of(child.path) == self.path

    async def finished(self) -> None:
        """Wait until the run ended or was sent to the background."""
        assert self.task
        left = asyncio.ensure_future(self.detached.wait())
        try:
            await asyncio.wait([self.task, left], return_when=asyncio.FIRST_COMPLETED)
        finally:
            left.cancel()

    @property
    def summary(self) -> AgentSummary:
        """The agent as it is now."""
        agent = self.agent
        end = self.outcome if self.ended else None
        return AgentSummary(
            agent.path,
            agent.profile,
            self.spec.task,
            end.status if end else agent.slot.status,
            end,
            usage=agent.tree_usage,
            duration_s=agent.slot.clock.elapsed,
            receipt=agent.receipt,
            model=agent.model,
            kept=end.to_keep(self.kept) if end else self.kept,
            result_chars=agent.result_chars,
        )


class KnownAgents:
    """What is known of the agents of a session. `earlier` are those of earlier processes, in the order of their start."""

    def __init__(self, earlier: Iterable[AgentSummary] = ()) -> None:
        self.runs: dict[str, AgentRun] = {}
        """The run of each running agent, and the newest one of the main agent."""
        self.summaries = {known.path: known for known in earlier}
        """All sub-agents in the order of their first start; those that run as they were then."""

    def get(self, path: str) -> AgentSummary | None:
        """An agent as it is now; None for an unknown path."""
        run = self.runs.get(path)
        return run.summary if run else self.summaries.get(path)


def stopped_with(node: AgentRun | None, running: Iterable[AgentRun]) -> list[AgentRun]:
    """The runs that end when `node` is stopped, of those that are `running` at and below it. An ended run keeps children too."""
    found = list(running)
    kept = [child.path for child in found if node is not None and node.keeps(child)]
    return [run for run in found if not any(is_under(run.path, path) for path in kept)]
