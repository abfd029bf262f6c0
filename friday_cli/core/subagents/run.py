"""Runs an agent once: writes its first event, drives the loop, and writes its final event exactly once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Literal, Protocol, TypeVar

import msgspec

from ..agent.agent import Services
from ..agent.loop import close_calls, may_continue, save_partial_reply, wrap_up
from ..agent.supervision import run_supervised
from ..agent.tool_calls import stop
from ..limits.budget import LimitReached
from ..protocol.agent_path import parent_of
from ..protocol.claims import audit
from ..protocol.events import AgentFinished, AgentStarted, AnyEvent, Compacted, MessageAdded, Notice, Prefix
from ..protocol.messages import Message, estimate_message
from ..protocol.receipt import checked
from ..protocol.run_result import RunResult
from .node import AgentRun

log = logging.getLogger(__name__)
T = TypeVar("T")


class RunHost(Protocol):
    """What a run needs of the tree of agents."""

    services: Services

    def request_wrap_up(self, node: AgentRun, reason: Literal["cancelled", "time"]) -> None: ...

    async def stop_children(self, node: AgentRun, *, stopped: bool) -> None:
        """Stop the sub-agents that must end with `node`."""

    async def on_run_ended(self, node: AgentRun) -> None:
        """The final event of `node` is written."""


async def run(tree: RunHost, node: AgentRun, message: Message | None) -> None:
    """One run of an agent. Cancelling its task aborts it. Raises only CancelledError."""
    node.begun = True
    agent = node.agent
    begun = asyncio.get_running_loop().time()
    try:
        try:
            await tree.services.before_run(agent)
        finally:  # its first event is written in any case
            await _announce(tree, node, message)
        if node.why:
            raise asyncio.CancelledError
        await agent.slot.start()
        agent.budget.begin_run()
        if agent.time_s:
            agent.slot.clock.alarm(agent.time_s, lambda: tree.request_wrap_up(node, "time"))
        if node.spec.timeout_s:
            agent.slot.subtree_clock.alarm(node.spec.timeout_s, lambda: tree.request_wrap_up(node, "time"))
        outcome = await _at_work(tree, node)
        while outcome.stop_reason == "done" and may_continue(agent):  # a message came after the last turn
            outcome = await _at_work(tree, node)
    except asyncio.CancelledError:
        outcome = RunResult("cancelled", node.why or "aborted", agent.partial, partial=True)
    except Exception as error:
        log.exception("agent %s", agent.path)
        words = f"Friday itself failed: {type(error).__name__}: {error}"
        outcome = RunResult("interrupted", "process", agent.partial, words, partial=True)
    node.ending = True
    await finish_despite_cancel(_end(tree, node, outcome, begun))


async def _announce(tree: RunHost, node: AgentRun, message: Message | None) -> None:
    agent, spec = node.agent, node.spec
    prefix = Prefix(agent.model, agent.system, agent.specs)
    started = AgentStarted(
        run=agent.run,
        profile=agent.profile,
        task=spec.task,
        model=agent.model,
        parent=parent_of(agent.path),
        call_id=spec.call_id,
        background=spec.background,
        tools=tuple(agent.tools),
        mode=agent.rules.effective_mode,
        tokens=int(agent.budget.tokens.limit or 0),
        cost_usd=agent.budget.cost.limit,
        turns=agent.max_turns,
        time_s=agent.time_s,
        max_depth=agent.max_depth,
        result_chars=agent.result_chars,
    )
    events: list[AnyEvent] = [started, prefix] if agent.run == 1 else [started]
    events += agent.start_events
    agent.start_events.clear()
    if node.spec.fork and agent.run == 1:
        given = tuple(agent.history[:-1])
        events.append(Compacted(given, 0, sum(map(estimate_message, given))))
    if message:
        events.append(MessageAdded(message))
    await tree.services.log.emit(agent.path, *events)


async def _at_work(tree: RunHost, node: AgentRun) -> RunResult:
    agent, services = node.agent, tree.services
    work = node.work = asyncio.create_task(run_supervised(agent, services, node.spec.task), name=f"work {agent.path}")
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
        raise asyncio.CancelledError  # cancelled from outside the tree, at shutdown
    node.wrapping = True
    agent.slot.silence()
    await agent.slot.resume_single()
    return await wrap_up(agent, services, why, whose=whose)


async def _end(tree: RunHost, node: AgentRun, outcome: RunResult, begun: float) -> None:
    """Clean up after the run, then write its final event. Never cancelled before its last line."""
    agent, services = node.agent, tree.services
    agent.slot.silence()
    agent.slot.release()
    await tree.stop_children(node, stopped=outcome.status == "cancelled")
    await save_partial_reply(agent, services)
    await close_calls(agent, services)
    try:
        warnings = await agent.workspace.release(agent.path)
        if warnings:
            await services.log.emit(agent.path, *(Notice(text, "warning") for text in warnings))
    except Exception as error:  # the final event must be written in any case
        log.exception("processes of %s", agent.path)
        await services.log.emit(agent.path, Notice(f"Processes of {agent.path} may be left: {error}", "error"))
    agent.budget.close_reserve()
    needed = [] if node.spec.self_contained else [tool.info for tool in agent.tools.values()]
    root, failed = agent.path == "a", outcome.stop_reason == "reported" and not outcome.error
    agent.receipt_builder.warn(
        *audit(agent.receipt_builder, outcome.text, outcome.claims, needed, root=root, reports_failure=failed)
    )
    end = node.outcome = msgspec.structs.replace(outcome, findings=checked(outcome.findings, agent.receipt))
    finished = AgentFinished(
        run=agent.run,
        status=end.status,
        stop_reason=end.stop_reason,
        result=end.text,
        error=end.error,
        limit_of=end.limit_of,
        partial=end.partial,
        usage=agent.usage,
        tree_usage=agent.tree_usage,
        duration_s=agent.slot.clock.elapsed,
        wall_s=asyncio.get_running_loop().time() - begun,
        receipt=agent.receipt,
        findings=end.findings,
        profile=agent.profile,
    )
    await services.log.emit(agent.path, finished, durable=not node.waiter)
    node.ended = True
    await tree.on_run_ended(node)


async def finish_despite_cancel(work: Awaitable[T]) -> T:
    """Await `work` to its end, also when this task is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
