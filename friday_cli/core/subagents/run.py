"""Runs an agent once: writes its first event, drives the loop, and writes its final event exactly once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Literal, Protocol, TypeVar

import msgspec

from ..agent.agent import Agent, Services
from ..agent.loop import may_continue
from ..agent.task_stop import stop
from ..eventlog.notices import NOTE
from ..limits.budget import LimitReached
from ..protocol.agent_path import parent_of
from ..protocol.claims import audit
from ..protocol.errors import limit_words
from ..protocol.events import AgentFinished, AgentStarted, AnyEvent, Compacted, Notice, Prefix
from ..protocol.evidence import checked
from ..protocol.messages import Message, estimate_message, user
from ..protocol.run_result import RunResult
from .node import AgentRun, Phase

log = logging.getLogger(__name__)
T = TypeVar("T")

SENT_BACK = 3
"""How often hooks and the check of a result can send an agent back to work in one run."""


class RunHost(Protocol):
    """The part of the tree of agents that a run needs."""

    services: Services

    def request_wrap_up(self, node: AgentRun, reason: Literal["cancelled", "time"]) -> None: ...

    async def before_run(self, agent: Agent) -> None:
        """Prepare an agent for a run, before its first event."""

    async def stop_children(self, node: AgentRun, *, stopped: bool) -> None:
        """Stop the sub-agents that must end with `node`."""

    async def on_run_ended(self, node: AgentRun) -> None:
        """The final event of `node` is written."""


async def run(tree: RunHost, node: AgentRun, message: Message | None) -> None:
    """One run of an agent. Cancelling its task aborts it. Raises only CancelledError."""
    node.phase = Phase.WORKING
    agent = node.agent
    begun = asyncio.get_running_loop().time()
    try:
        outcome = await _begin(tree, node, message)
        if node.why:
            raise asyncio.CancelledError
        if outcome is None:
            outcome = await _work_until_done(tree, node)
    except asyncio.CancelledError:
        outcome = RunResult("cancelled", node.why or "aborted", agent.partial, partial=True)
    except Exception as error:
        if not (words := limit_words(error)):
            log.exception("agent %s", agent.path)
            words = f"Friday itself failed: {type(error).__name__}: {error}"
        outcome = RunResult("interrupted", "process", agent.partial, words, partial=True)
    node.phase = Phase.ENDING
    await finish_despite_cancel(_end(tree, node, outcome, begun))


async def _work_until_done(tree: RunHost, node: AgentRun) -> RunResult:
    """All work of a run. Raises CancelledError."""
    agent = node.agent
    await agent.slot.start()
    agent.budget.begin_run()
    if agent.time_s:
        agent.slot.clock.alarm(agent.time_s, lambda: tree.request_wrap_up(node, "time"))
    if node.spec.limits.time_s:
        agent.slot.subtree_clock.alarm(node.spec.limits.time_s, lambda: tree.request_wrap_up(node, "time"))
    sent_back = 0
    while True:
        outcome = await _at_work(node)
        while outcome.stop_reason == "done" and may_continue(agent):  # a message came after the last turn
            outcome = await _at_work(node)
        if node.spec.verify is not None and (complaint := await node.spec.verify(agent, outcome)):
            if sent_back >= SENT_BACK or node.leaving:
                return RunResult("failed", "reported", outcome.text, complaint)
            await node.driver.send(f"{NOTE} Your result is not accepted. {complaint}")
        elif tree.services.hooks is None or not await _sent_back(tree, node, outcome, sent_back):
            return outcome
        sent_back += 1


async def _begin(tree: RunHost, node: AgentRun, message: Message | None) -> RunResult | None:
    """Write the first events of a run. Returns its result if a hook refuses it."""
    agent, hooks = node.agent, tree.services.hooks
    withheld = False
    try:
        await tree.before_run(agent)
        withheld = hooks is not None  # a hook may withhold the message
    finally:  # the first event is written in any case
        _announce(tree, node, None if withheld else message)
    if hooks is None:
        return None
    await tree.services.log.flush()
    if agent.parent is None and (message is None or message.source == "harness"):
        hooked = None  # no prompt of the person
    else:
        try:
            hooked = await hooks.run_started(agent, node.spec.task, background=node.background)
        except asyncio.CancelledError:
            if message is not None:
                await _read(tree, agent, message)
            raise
    if hooked is not None:
        agent.lower_limits(hooked.limits)
    refused = hooked is not None and hooked.decision == "deny"
    added = [user(hooked.context, source="harness")] if hooked is not None and hooked.context else []
    if message is not None:
        if refused:
            agent.reading(message, withheld=True)
            message = user(f"{NOTE} A hook withheld the message that was here.", source="harness")
        added.append(message)
    await _read(tree, agent, *added)
    return RunResult("failed", "hook", "", hooked.reason) if refused and hooked else None


async def _read(tree: RunHost, agent: Agent, *messages: Message) -> None:
    agent.conversation.history += messages
    if messages:
        await tree.services.log.emit(agent.path, *(event for one in messages for event in agent.reading(one)))


async def _sent_back(tree: RunHost, node: AgentRun, outcome: RunResult, times: int) -> bool:
    """Whether a hook sends the agent back to work: it has a note that says why then."""
    agent, hooks = node.agent, tree.services.hooks
    assert hooks is not None
    hooked = await hooks.run_ended(agent, outcome, sent_back=times)
    done = (outcome.status, outcome.stop_reason) == ("completed", "done")
    if hooked.decision != "deny" or not done or times >= SENT_BACK or node.leaving:
        return False
    await node.driver.send(f"{NOTE} Your work is not finished. {hooked.reason}")
    return True


def _announce(tree: RunHost, node: AgentRun, message: Message | None) -> None:
    agent, spec = node.agent, node.spec
    conversation = agent.conversation
    prefix = Prefix(agent.model, conversation.system, conversation.specs)
    started = AgentStarted(
        run=agent.run,
        profile=agent.profile,
        task=spec.task,
        model=agent.model,
        parent=parent_of(agent.path),
        call_id=spec.call_id,
        batch=spec.batch,
        background=spec.background,
        tools=tuple(conversation.tools),
        mode=agent.rules.effective_mode,
        tokens=int(agent.budget.tokens.limit or 0),
        cost_usd=agent.budget.cost.limit,
        turns=agent.max_turns,
        time_s=agent.time_s,
        max_depth=agent.max_depth,
        result_chars=agent.result_chars,
        forecast=spec.forecast if agent.run == 1 else None,
        traceparent="" if agent.parent else tree.services.traceparent,
        rights=agent.profile_rights,
    )
    events: list[AnyEvent] = [started, prefix] if agent.run == 1 else [started]
    events += agent.start_events
    agent.start_events.clear()
    if node.spec.fork and agent.run == 1:
        given = tuple(conversation.history)
        events.append(Compacted(given, 0, sum(map(estimate_message, given))))
    if message:
        conversation.history.append(message)
        events += agent.reading(message)
    tree.services.log.emit_soon(agent.path, *events)


async def _at_work(node: AgentRun) -> RunResult:
    agent = node.agent
    work = node.work = asyncio.create_task(node.driver.start(node.spec.task), name=f"work {agent.path}")
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
    node.phase = Phase.WRAPPING_UP
    agent.slot.silence()
    await agent.slot.resume_single()
    return await node.driver.stop(why, whose=whose)


async def _end(tree: RunHost, node: AgentRun, outcome: RunResult, begun: float) -> None:
    """Clean up after the run, then write its final event. Never cancelled before its last line."""
    agent, services = node.agent, tree.services
    agent.slot.silence()
    agent.slot.release()
    await tree.stop_children(node, stopped=outcome.status == "cancelled")
    await node.driver.close()
    if agent.takeover is not None:
        from .takeover import end_takeover  # few agents are taken over

        await end_takeover(agent, agent.takeover, services.log)
    try:
        warnings = await agent.workspace.release(agent.path)
        if warnings:
            await services.log.emit(agent.path, *(Notice(text, "warning") for text in warnings))
    except Exception as error:  # the final event must be written in any case
        if not (limit := limit_words(error)):
            log.exception("processes of %s", agent.path)
        text = f"Processes of {agent.path} may be left: {limit or error}"
        await services.log.emit(agent.path, Notice(text, "error"))
    if services.code is not None:
        agent.receipt_builder.add_checks(await services.code.settled(agent))
    agent.budget.release_holdback()
    needed = [] if node.spec.self_contained else [tool.info for tool in agent.conversation.tools.values()]
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
    node.phase = Phase.ENDED
    await tree.on_run_ended(node)


async def finish_despite_cancel(work: Awaitable[T]) -> T:
    """Await `work` to its end, also when this task is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
