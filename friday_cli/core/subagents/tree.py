"""The tree of agents: starts, resumes, waits for, messages and stops them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, Protocol

from ..agent.agent import Agent, Services, Source
from ..agent.task_stop import stop
from ..eventlog import notices
from ..limits.budget import LimitReached
from ..limits.clock import Clock
from ..protocol.agent_path import depth_of, is_under, parent_of
from ..protocol.errors import ToolError
from ..protocol.events import Detached, InboxMessage
from ..protocol.messages import Message, user
from ..protocol.run_result import StopReason
from .driver import Driver
from .node import (
    AgentRun,
    AgentSummary,
    ChildNumbers,
    KnownAgents,
    Phase,
    SpawnEstimate,
    SubagentTask,
    require_text,
    stopped_with,
)
from .notifier import ParentNotifier
from .resumer import AgentResumer
from .run import run


class AgentHost(Protocol):
    """Makes the agents of a tree and is told when they end. It exists before the tree, so each method gets that."""

    def build(self, tree: SubagentTree, parent: Agent, spec: SubagentTask, path: str) -> tuple[Agent, Message]:
        """A new child and its first message. Raises ToolError, with a message for the parent's model, or LimitReached."""

    async def restore(self, tree: SubagentTree, parent: Agent, path: str, spec: SubagentTask) -> Agent:
        """An ended agent as the log has it. Raises ToolError, LimitReached."""

    def driver(self, agent: Agent) -> Driver:
        """What does the work of an agent in its next run."""

    async def before_run(self, tree: SubagentTree, agent: Agent) -> None:
        """Prepare an agent for a run, before its first event."""

    async def run_ended(self, tree: SubagentTree, path: str) -> None:
        """The run of a child has ended, or it was not resumed after all. Called before any agent is notified. Never
        raises."""


class SubagentTree:
    """All agents of a session by path: an `AgentRun` for each running one, an `AgentSummary` for each ended one. `host`
    makes its agents, `make_root` the main one. `left` are those that the conversation of the main agent does not include since
    it was rewound. `wakes`: messages start the idle main agent; if not, it reads them in its next run."""

    def __init__(
        self,
        services: Services,
        host: AgentHost,
        make_root: Callable[[SubagentTree], Agent],
        *,
        known: KnownAgents,
        left: frozenset[str] = frozenset(),
        wakes: bool = True,
    ) -> None:
        self.services = services
        self.slots = asyncio.Semaphore(services.policy.max_concurrent)
        self.started_now: list[SpawnEstimate] = []
        """The sub-agents started since the last prompt of the user."""
        self.closed = False
        self._left, self._wakes = left, wakes
        self._host = host
        self._known = known
        self._nodes, self._summaries = known.runs, known.summaries
        self._notifying: set[AgentRun] = set()  # ended runs whose parents are not notified yet
        self._numbers = ChildNumbers(self._summaries)
        self.before_run = partial(host.before_run, self)
        self.notifier = ParentNotifier(self._nodes, self)
        self.resumer = AgentResumer(
            self, self.notifier, restore=partial(host.restore, self), not_resumed=partial(host.run_ended, self)
        )
        self.root = make_root(self)

    def rewound(self, left: frozenset[str]) -> None:
        """The conversation of the main agent was rewound, and does not include these any more."""
        self._left = left

    def let_wake(self, yes: bool) -> None:
        """Whether messages start the idle main agent from now on."""
        self._wakes = yes

    def node(self, path: str) -> AgentRun:
        """The run of a running agent, or the newest one of the main agent. Raises KeyError."""
        return self._nodes[path]

    def known(self, path: str) -> AgentSummary | None:
        """The summary of an agent, of this process or an earlier one; None for an unknown path."""
        return self._known.get(path)

    def below(self, path: str) -> list[AgentSummary]:
        """All descendants of an agent, in the order of their first start."""
        return [known for p in self._summaries if p != path and is_under(p, path) and (known := self.known(p))]

    def running(self, path: str) -> list[AgentRun]:
        """The runs at and below `path` that have not ended."""
        return [n for n in self._nodes.values() if is_under(n.path, path) and not n.ended]

    def spawn(self, parent: str, spec: SubagentTask) -> AgentRun:
        """Start a sub-agent. Raises ToolError when a limit forbids it."""
        policy, node = self.services.policy, self.living_parent(parent)
        require_text(spec.task)
        if depth_of(parent) >= (deepest := min(node.agent.max_depth, spec.max_depth or node.agent.max_depth)):
            raise ToolError(f"Agents may be nested {deepest} deep; you are at {depth_of(parent)}.")
        if not spec.forget and (count := self._counted()) >= policy.max_agents:
            raise ToolError(f"This session has had {count} agents, which is its limit. Do the work yourself.")
        path = self._numbers.next_path(parent)
        try:
            agent, message = self._host.build(self, node.agent, spec, path)
        except LimitReached as limit:
            raise ToolError(f"No agent was started: the {limit.limit} budget of {limit.whose} is used up.") from None
        self.started_now.append(SpawnEstimate(node.agent.conversation.provider, spec.profile, spec.limits.tokens))
        return self.run(agent, spec, message)

    def _counted(self) -> int:
        """The agents that count for the limit of a session: those of the items of a batch, which is as wide as the person says, do not."""
        return len(self._summaries) - sum(run.spec.forget for run in self._nodes.values())

    def living_parent(self, parent: str) -> AgentRun:
        """The run of an agent that may start others. Raises ToolError when it is being stopped or ends."""
        node = self._nodes[parent]
        if node.leaving:
            raise ToolError("You are being stopped: no new agents.")
        return node

    def run(self, agent: Agent, spec: SubagentTask, message: Message | None = None) -> AgentRun:
        """Start a run of an agent, which reads `message`."""
        for limiter in self.services.rate_limiters.values():
            limiter.new_run()
        before, driver = self._summaries.get(agent.path), self._host.driver(agent)
        node = self._nodes[agent.path] = AgentRun(agent, driver, spec, before.kept if before else None)
        if depth_of(agent.path):
            self._numbers.add(agent.path)
            self._summaries.setdefault(agent.path, node.summary)
            self._left -= {agent.path}
        agent.run += 1
        agent.turn, agent.streaming = 0, ""
        agent.texts.clear()
        agent.receipt_builder.begin()
        if spec.with_person:
            from .takeover import begin_takeover  # few agents are taken over

            agent.log_at_start(begin_takeover(agent, self.services.log))
        node.task = asyncio.create_task(run(self, node, message), name=f"agent {agent.path}")
        return node

    def run_root(self, task: str, message: Message, accept: Callable[[str], str] | None = None) -> AgentRun:
        """Start a run of the main agent. `accept` is that of a new prompt of the user, as in `Agent`; None: the run has none."""
        if self.root.run:
            self.root.renew_slot(self.services.log)
        if accept is not None:
            self.root.accept, self.started_now = accept, []
        return self.run(self.root, SubagentTask(self.root.profile, task), message)

    def wake(self, path: str = "a") -> None:
        """Start a run if `path` is the main agent, it is idle, and a message that needs a run is in its inbox."""
        last = self._nodes[self.root.path]
        if path == self.root.path and last.ended and self._wakes and not self.closed and self.root.inbox.needs_turn:
            waiting = self.root.inbox.take_turn_message()
            task = waiting.text if waiting.source == "person" else last.spec.task
            self.run_root(task, user(waiting.text, source=waiting.source))

    async def wait(self, parent: str, nodes: Sequence[AgentRun]) -> None:
        """Wait until all `nodes` ended or went to the background. When the waiting call is cancelled, they are stopped."""
        waiter = self._nodes[parent].agent
        try:
            async with waiter.slot.waiting("waiting_child", agents=tuple(n.path for n in nodes), resume=False):
                await asyncio.gather(*(_finished_or_background(node, waiter.slot.subtree_clock) for node in nodes))
        except asyncio.CancelledError:
            mine = [n for n in nodes if not n.background]
            for node in mine:
                self._mark_stopped(node.path, "parent")
            for node in mine:
                await self.stop(node.path, why="parent")
            raise

    async def detach(self, path: str) -> bool:
        """Send a sub-agent to the background. False when it is not running or is there already."""
        if (node := self._nodes.get(path)) is None or node.background or node.ending or depth_of(path) == 0:
            return False
        node.background = True
        await self.services.log.emit(path, Detached())
        node.detached.set()
        return True

    def in_background(self) -> list[AgentRun]:
        """The running background runs, and ended runs whose parents are not notified yet."""
        return [*(n for n in self._nodes.values() if n.background and not n.ended), *self._notifying]

    async def send(self, path: str, text: str, source: Source) -> None:
        """Send a message to a running agent, which reads it at its next turn. Raises ToolError when it is not running."""
        require_text(text)
        node = self._nodes.get(path)
        if node is not None and node.phase is Phase.STARTED:
            await asyncio.sleep(0)  # its start must be logged before the message
        if node is None or node.leaving or (node.phase is Phase.WRAPPING_UP and depth_of(path)):
            raise ToolError(f"{path} is not at work.", hint="Continue it with a new task instead.")
        await node.agent.inbox.put(InboxMessage(text, source))
        if source == "person" and node.agent.takeover is not None:
            node.agent.takeover.say(text)
        if source == "person":
            await self.notifier.notify_parent(path, notices.steered(path, node.agent.profile, text))

    async def stop(
        self, path: str, *, level: Literal["cancel", "abort"] = "abort", why: StopReason = "aborted", keep: bool = False
    ) -> int:
        """Stop an agent and its descendants, and wait for them. Returns the number of runs that were stopped. `abort`
        stops all at once; with `keep` its own background sub-agents continue. `cancel` gives the named agent one wrap-up
        turn, its descendants none."""
        if (node := self._nodes.get(path)) is not None:
            node.keeps_background = keep
        count = len(stopped_with(node, self.running(path)))
        if level == "cancel" and node is not None and not node.ended:
            for child in self._children(path):
                self._mark_stopped(child, "parent")
            self.request_wrap_up(node, "cancelled")
            assert node.task
            await asyncio.wait([node.task])
            while doomed := [n.task for n in self.running(path) if n.why and n.task]:  # its wrap-up may be over
                await asyncio.wait(doomed)
            return count
        while ending := stopped_with(node, self.running(path)):  # a child may start while its parent is stopped
            if node is not None and self._nodes.get(path, node) is not node and not self.closed:
                break  # it has ended, and was started again since
            self._mark_stopped(path, why)
            await asyncio.wait([n.task for n in ending if n.task])
        while notifying := [n.task for n in self._notifying if n.task and is_under(n.path, path)]:
            await asyncio.wait(notifying)
        return count

    async def close(self) -> None:
        """Stop all agents; none is woken by messages afterwards."""
        self.closed = True
        await self.stop(self.root.path)

    def _mark_stopped(self, path: str, why: StopReason) -> None:
        for node in stopped_with(self._nodes.get(path), self.running(path)):
            node.why = node.why or (why if node.path == path else "parent")
            if Phase.STARTED < node.phase < Phase.ENDING and node.task:
                stop(node.task)

    def request_wrap_up(self, node: AgentRun, reason: Literal["cancelled", "time"]) -> None:
        """Ask a run to end with a wrap-up turn. No effect on a run that ends already."""
        if node.phase >= Phase.WRAPPING_UP or node.soft or node.why:
            return
        node.soft = reason
        if node.work is None:
            self._mark_stopped(node.path, "cancelled")  # it did not begin, so it has no result
        else:
            stop(node.work)

    def _children(self, path: str) -> list[str]:
        """The nearest running descendants of an agent."""
        below = [p for p in self._nodes if p != path and is_under(p, path)]
        return [p for p in below if parent_of(p) == path or parent_of(p) not in self._nodes]

    async def stop_children(self, node: AgentRun, *, stopped: bool) -> None:
        """Stop the children of a run that ends: if it is stopped itself those it does not keep, else those it waited for."""
        for path in self._children(node.path):
            child = self._nodes.get(path)  # it may have ended while another was stopped
            if child and (not node.keeps(child) if stopped else child.waiter == node.path and not child.background):
                await self.stop(path, why="parent")

    async def on_run_ended(self, node: AgentRun) -> None:
        """Keep only the summary of an ended sub-agent, and notify its parent. The log has the rest."""
        if not depth_of(node.path):
            if node.agent.inbox.needs_turn and node.outcome.status != "cancelled":
                self.wake()
            return
        above = parent_of(node.path)
        while depth_of(above) and above not in self._nodes:
            above = parent_of(above)
        agent = self._nodes[above].agent if depth_of(above) else self.root
        agent.receipt_builder.add_others(node.agent.receipt_builder.observed(whole=False))
        self._summaries[node.path] = node.summary
        if node.spec.forget:
            for path in [path for path in self._summaries if is_under(path, node.path)]:
                del self._summaries[path]
        del self._nodes[node.path]
        self._notifying.add(node)
        try:
            await self._host.run_ended(self, node.path)
            if node.why != "parent":  # otherwise its parent is being stopped too
                await self.notifier.report_end(node)
        finally:
            self._notifying.discard(node)

    def notes(self, path: str) -> list[str]:
        """One line for each agent below `path` that its conversation includes: what a compacted agent must not forget."""
        known = (k for k in self.below(path) if k.path not in self._left)
        return [f"{k.path} ({k.profile}): {k.status}. Task: {' '.join(k.task.split())[:120]}" for k in known]


async def _finished_or_background(node: AgentRun, clock: Clock) -> None:
    """Wait until a run ended or went to the background. Meanwhile `clock` runs while the subtree clock of its agent does."""
    with clock.following(node.agent.slot.subtree_clock):
        await node.finished()


async def stop_for(tree: SubagentTree, by: str, path: str, level: Literal["cancel", "abort"]) -> int:
    """`SubagentTree.stop` for the agent `by`, which reads the result in its call and gets no notice."""
    node = next((run for run in tree.running(path) if run.path == path), None)
    try:
        if node is not None:
            node.reports_to = by
        return await tree.stop(path, level=level, why="cancelled" if level == "cancel" else "aborted")
    except asyncio.CancelledError:
        if node is not None:
            node.reports_to = ""  # its call will return nothing
        raise
