"""The tree of agents: starting, waiting, stopping, and the one place where a run's end is written."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Literal, TypeVar

import msgspec

from .agent import Agent, Outcome, World
from .budget import LimitReached
from .calls import stop
from .errors import ToolError
from .events import (
    AgentFinished,
    AgentStarted,
    MessageAdded,
    Notice,
    Prefix,
    Status,
    StopReason,
    depth_of,
    is_under,
    parent_of,
)
from .loop import close_calls, keep_partial, run_agent, wrap_up
from .messages import Message, Usage
from .receipt import Receipt, audit

log = logging.getLogger(__name__)
T = TypeVar("T")


class Spec(msgspec.Struct, frozen=True):
    """What a child is asked to do. Limits only lower what the profile grants; None leaves it. `timeout_s` in active seconds."""

    profile: str
    task: str
    context: str = ""
    max_tokens: int | None = None
    max_turns: int | None = None
    max_cost: float | None = None
    timeout_s: float | None = None
    call_id: str = ""
    background: bool = False


class Known(msgspec.Struct, frozen=True):
    """An agent as its relatives may know it: what it was asked, how it stands, what it brought."""

    path: str
    profile: str
    task: str
    status: Status
    stop_reason: StopReason | None = None
    result: str = ""
    error: str = ""
    limit_of: str = ""
    usage: Usage = Usage()
    duration_s: float = 0.0
    receipt: Receipt = Receipt()


class Node:
    """One run of one agent."""

    def __init__(self, agent: Agent, spec: Spec) -> None:
        self.agent = agent
        self.spec = spec
        self.task: asyncio.Task[None] | None = None
        self.work: asyncio.Task[Outcome] | None = None
        self.begun = self.wrapping = self.ending = self.ended = False
        self.why: StopReason | None = None
        self.soft: Literal["cancelled", "time"] | None = None
        self.outcome = Outcome("queued", "done", "")

    @property
    def path(self) -> str:
        return self.agent.path

    @property
    def known(self) -> Known:
        """This agent as of now."""
        agent = self.agent
        about = Known(agent.path, agent.profile, self.spec.task, agent.presence.status, usage=agent.tree_usage)
        if not self.ended:
            return msgspec.structs.replace(about, duration_s=agent.presence.clock.elapsed)
        end = self.outcome
        return msgspec.structs.replace(
            about, status=end.status, stop_reason=end.stop_reason, result=end.result, error=end.error,
            limit_of=end.limit_of, duration_s=agent.presence.clock.elapsed, receipt=agent.receipt,
        )  # fmt: skip


class Tree:
    """All agents of a session by path.

    `build(parent, spec, path)` makes a child and its first message; it raises ToolError when there may be no such child.
    """

    def __init__(
        self, world: World, *, build: Callable[[Agent, Spec, str], tuple[Agent, Message]], known: Sequence[Known] = ()
    ) -> None:
        self.world = world
        self.slots = asyncio.Semaphore(world.policy.max_concurrent)
        self.started_now = 0
        self._build = build
        self._nodes: dict[str, Node] = {}
        self._past = {k.path: k for k in known}
        world.remember = self._remember

    # ---- looking ---------------------------------------------------------------

    def node(self, path: str) -> Node:
        """The newest run of an agent of this process. Raises KeyError."""
        return self._nodes[path]

    def known(self, path: str) -> Known | None:
        """What is known of an agent, of this process or an earlier one."""
        node = self._nodes.get(path)
        return node.known if node else self._past.get(path)

    def below(self, path: str) -> list[Known]:
        """All descendants of an agent, in order of their birth."""
        paths = {p: None for p in (*self._past, *self._nodes) if p != path and is_under(p, path)}
        return [known for p in paths if (known := self.known(p))]

    def living(self, path: str) -> list[Node]:
        """The runs at and below `path` that have not ended."""
        return [n for n in self._nodes.values() if is_under(n.path, path) and not n.ended]

    # ---- starting and waiting --------------------------------------------------

    def start(self, parent: str, spec: Spec) -> Node:
        """Start a child; it is queued when all places are taken. Raises ToolError when a limit forbids it."""
        policy, node = self.world.policy, self._nodes[parent]
        if node.why or node.soft or node.ending:
            raise ToolError("You are being stopped: no new agents.")
        if depth_of(parent) + 1 > policy.max_depth:
            raise ToolError(f"Agents may be nested {policy.max_depth} deep; you are at {depth_of(parent)}.")
        count = len({p for p in (*self._past, *self._nodes) if depth_of(p) > 0})
        if count >= policy.max_agents:
            raise ToolError(f"This session has had {count} agents, which is its limit. Do the work yourself.")
        path = f"{parent}.{1 + max((_number(p) for p in (*self._past, *self._nodes) if parent_of(p) == parent), default=0)}"
        try:
            agent, message = self._build(node.agent, spec, path)
        except LimitReached as limit:
            raise ToolError(f"No agent was started: the {limit.limit} budget of {limit.whose} is used up.") from None
        self.started_now += 1
        return self.run(agent, spec, message)

    def run(self, agent: Agent, spec: Spec, message: Message | None = None) -> Node:
        """Begin a run of an agent, with `message` as the newest of its history."""
        node = self._nodes[agent.path] = Node(agent, spec)
        agent.run += 1
        agent.turn = 0
        agent.texts.clear()
        agent.streaming = ""
        agent.budget.keep_reserve()
        if message is not None:
            agent.history.append(message)
        node.task = asyncio.create_task(self._life(node, message), name=f"agent {agent.path}")
        return node

    async def wait(self, parent: str, nodes: Sequence[Node]) -> None:
        """Returns when all `nodes` have ended. If the waiting call is stopped, so are they."""
        waiter = self._nodes[parent].agent
        clocks = [n.agent.presence.clock for n in nodes]
        try:
            paths = " ".join(n.path for n in nodes)
            async with waiter.presence.waiting("waiting_child", paths, on=clocks, resume=False):
                await asyncio.wait([n.task for n in nodes if n.task])
        except asyncio.CancelledError:
            for node in nodes:
                self._doom(node.path, "parent")
            for node in nodes:
                await self.stop(node.path, why="parent")
            raise

    # ---- stopping: the only doors ----------------------------------------------

    async def stop(self, path: str, *, level: Literal["cancel", "abort"] = "abort", why: StopReason = "aborted") -> int:
        """End an agent and all below it; returns how many runs that ended, when nothing of them is left.

        `abort` ends everything now. `cancel` gives the named agent one wrap-up turn, its descendants none.
        """
        count = len(self.living(path))
        if level == "cancel" and path in self._nodes and not self._nodes[path].ended:
            node = self._nodes[path]
            for child in self._children(path):
                self._doom(child, "parent")
            self._soften(node, "cancelled")
            assert node.task
            await asyncio.wait([node.task])
            return count
        while self.living(path):  # a child may be born while its parent is being stopped
            self._doom(path, why)
            await asyncio.wait([n.task for n in self.living(path) if n.task])
        return count

    def _doom(self, path: str, why: StopReason) -> None:
        for node in self.living(path):
            node.why = node.why or (why if node.path == path else "parent")
            if node.begun and not node.ending and node.task:
                stop(node.task)

    def _soften(self, node: Node, reason: Literal["cancelled", "time"]) -> None:
        """Ask a run to end with a wrap-up; without effect where it is ending already."""
        if node.ended or node.ending or node.wrapping or node.soft or node.why:
            return
        node.soft = reason
        if node.work is None:
            self._doom(node.path, "cancelled")  # not at work yet: there is nothing to hand back
        else:
            stop(node.work)

    def _children(self, path: str) -> Iterator[str]:
        return (p for p in list(self._nodes) if parent_of(p) == path)

    # ---- a life ----------------------------------------------------------------

    async def _life(self, node: Node, message: Message | None) -> None:
        node.begun = True
        agent = node.agent
        begun = asyncio.get_running_loop().time()
        try:
            await self._announce(node, message)
            if node.why:
                raise asyncio.CancelledError
            await agent.presence.begin()
            if agent.time_s:
                agent.presence.clock.alarm(agent.time_s, lambda: self._soften(node, "time"))
            outcome = await self._at_work(node)
        except asyncio.CancelledError:
            outcome = Outcome("cancelled", node.why or "aborted", agent.partial, partial=True)
        except Exception as error:
            log.exception("agent %s", agent.path)
            words = f"Friday itself failed: {type(error).__name__}: {error}"
            outcome = Outcome("interrupted", "process", agent.partial, words, partial=True)
        node.ending = True
        await _to_the_end(self._end(node, outcome, begun))

    async def _announce(self, node: Node, message: Message | None) -> None:
        agent, spec = node.agent, node.spec
        started = AgentStarted(
            agent.run, agent.profile, spec.task, agent.model, parent_of(agent.path), spec.call_id, spec.background,
            tuple(agent.tools), agent.rules.effective_mode, int(agent.budget.tokens.limit or 0), agent.budget.cost.limit,
            agent.max_turns, agent.time_s,
        )  # fmt: skip
        prefix = Prefix(agent.model, agent.system, agent.specs)
        events = [started, prefix] if agent.run == 1 else [started]
        await self.world.log.emit(agent.path, *events, *([MessageAdded(message)] if message else []))

    async def _at_work(self, node: Node) -> Outcome:
        agent, world = node.agent, self.world
        work = node.work = asyncio.create_task(run_agent(agent, world), name=f"work {agent.path}")
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError:
            stop(work)
            await asyncio.wait([work])
            raise
        why, whose = str(node.soft), agent.path if node.soft == "time" else ""
        if not work.cancelled():
            error = work.exception()
            if error is None:
                return work.result()
            if not isinstance(error, LimitReached):
                raise error
            why, whose = error.limit, error.whose
        elif node.soft is None:
            raise asyncio.CancelledError  # stopped from outside the tree, at shutdown
        node.wrapping = True
        agent.presence.clock.silence()
        await agent.presence.join(hurry=True)  # its seconds are counted: it does not queue behind others
        return await wrap_up(agent, world, why, whose=whose)

    async def _end(self, node: Node, outcome: Outcome, begun: float) -> None:
        """Leave nothing of the run behind, then write its end. Runs to its last line whatever happens."""
        agent, world = node.agent, self.world
        agent.presence.clock.silence()
        agent.presence.end()
        for child in self._children(agent.path):
            await self.stop(child, why="parent")
        await keep_partial(agent, world)
        await close_calls(agent, world)
        await self._release(agent.path)
        agent.budget.close_reserve()
        agent.receipt = agent.receipt.warn(*audit(agent.receipt, outcome.result, able=bool(agent.tools)))
        node.outcome = outcome
        wall = asyncio.get_running_loop().time() - begun
        await world.log.emit(
            agent.path,
            AgentFinished(
                agent.run, outcome.status, outcome.stop_reason, outcome.result, outcome.error, outcome.limit_of,
                outcome.partial, agent.usage, agent.tree_usage, agent.presence.clock.elapsed, wall, agent.receipt,
            ),
        )  # fmt: skip
        node.ended = True

    async def _release(self, path: str) -> None:
        try:
            await self.world.workspace.release(path)
        except Exception as error:  # an end must be written whatever the machine says
            log.exception("processes of %s", path)
            await self.world.log.emit(path, Notice(f"Processes of {path} may be left: {error}", "error"))

    def _remember(self, path: str) -> str:
        lines = []
        for known in self.below(path):
            task = " ".join(known.task.split())[:120]
            lines.append(f"{known.path} ({known.profile}): {known.status}. Task: {task}")
        return "\n".join(lines)


def _number(path: str) -> int:
    return int(path.rpartition(".")[2])


async def _to_the_end(work: Awaitable[T]) -> T:
    """Await `work` to its end even if this task is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
