"""A life: from the first event of a run to its end, which is written in one place and once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Literal, Protocol, TypeVar

import msgspec

from .agent import Agent, Outcome, World
from .budget import LimitReached
from .calls import stop
from .events import AgentFinished, AgentStarted, AnyEvent, Compacted, MessageAdded, Notice, Prefix, parent_of
from .loop import close_calls, keep_partial, may_go_on, wrap_up
from .messages import Message, estimate_message
from .node import Node
from .receipt import OWN, audit, checked
from .supervision import run_supervised

log = logging.getLogger(__name__)
T = TypeVar("T")


class Home(Protocol):
    """What a life needs of the tree it is lived in."""

    world: World

    def soften(self, node: Node, reason: Literal["cancelled", "time"]) -> None: ...

    async def leave(self, node: Node, *, stopped: bool) -> None:
        """Stop what must not outlive `node`."""
        ...

    async def gone(self, node: Node) -> None:
        """The end of `node` is written."""
        ...


async def live(home: Home, node: Node, message: Message | None) -> None:
    """One run of an agent. Only a defect could escape; cancelling its task is an abort."""
    node.begun = True
    agent = node.agent
    begun = asyncio.get_running_loop().time()
    try:
        await _announce(home, node, message)
        if node.why:
            raise asyncio.CancelledError
        await agent.presence.begin()
        if agent.time_s:
            agent.presence.clock.alarm(agent.time_s, lambda: home.soften(node, "time"))
        outcome = await _at_work(home, node)
        while outcome.stop_reason == "done" and may_go_on(agent):  # it came after the last look into the inbox
            outcome = await _at_work(home, node)
    except asyncio.CancelledError:
        outcome = Outcome("cancelled", node.why or "aborted", agent.partial, partial=True)
    except Exception as error:
        log.exception("agent %s", agent.path)
        words = f"Friday itself failed: {type(error).__name__}: {error}"
        outcome = Outcome("interrupted", "process", agent.partial, words, partial=True)
    node.ending = True
    await to_the_end(_end(home, node, outcome, begun))


async def _announce(home: Home, node: Node, message: Message | None) -> None:
    agent, spec = node.agent, node.spec
    started = AgentStarted(
        agent.run, agent.profile, spec.task, agent.model, parent_of(agent.path), spec.call_id, spec.background,
        tuple(agent.tools), agent.rules.effective_mode, int(agent.budget.tokens.limit or 0), agent.budget.cost.limit,
        agent.max_turns, agent.time_s,
    )  # fmt: skip
    prefix = Prefix(agent.model, agent.system, agent.specs)
    events: list[AnyEvent] = [started, prefix] if agent.run == 1 else [started]
    events += agent.news
    agent.news.clear()
    if node.spec.fork and agent.run == 1:
        given = tuple(agent.history[:-1])
        events.append(Compacted(given, 0, sum(map(estimate_message, given))))
    if message:
        events.append(MessageAdded(message))
    await home.world.log.emit(agent.path, *events)


async def _at_work(home: Home, node: Node) -> Outcome:
    agent, world = node.agent, home.world
    work = node.work = asyncio.create_task(run_supervised(agent, world, node.spec.task), name=f"work {agent.path}")
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


async def _end(home: Home, node: Node, outcome: Outcome, begun: float) -> None:
    """Leave nothing of the run behind, then write its end. Runs to its last line whatever happens."""
    agent, world = node.agent, home.world
    agent.presence.clock.silence()
    agent.presence.end()
    await home.leave(node, stopped=outcome.status == "cancelled")
    await keep_partial(agent, world)
    await close_calls(agent, world)
    await _release(world, agent)
    agent.budget.close_reserve()
    able = not node.spec.told and bool(agent.tools.keys() - OWN)
    agent.tally.warn(*audit(agent.tally, outcome.result, able=able))
    node.outcome = msgspec.structs.replace(outcome, findings=checked(outcome.findings, agent.receipt))
    wall = asyncio.get_running_loop().time() - begun
    await world.log.emit(
        agent.path,
        AgentFinished(
            agent.run, outcome.status, outcome.stop_reason, outcome.result, outcome.error, outcome.limit_of,
            outcome.partial, agent.usage, agent.tree_usage, agent.presence.clock.elapsed, wall, agent.receipt,
            node.outcome.findings,
        ),
        durable=agent.path == "a",
    )  # fmt: skip
    node.ended = True
    await home.gone(node)


async def _release(world: World, agent: Agent) -> None:
    try:
        await agent.workspace.release(agent.path)
    except Exception as error:  # an end must be written whatever the machine says
        log.exception("processes of %s", agent.path)
        await world.log.emit(agent.path, Notice(f"Processes of {agent.path} may be left: {error}", "error"))


async def to_the_end(work: Awaitable[T]) -> T:
    """Await `work` to its end even if this task is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
