"""Running a turn's tool calls: each leaves exactly one result, in call order, whatever happens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from ..limits.budget import LimitReached
from ..permissions.rule import RuleInput
from ..permissions.rules import PermissionDecision, decide
from ..protocol.errors import FridayError, PermissionDenied, ToolError
from ..protocol.events import Denied, MessageAdded, Notice, ToolFinished, ToolOutput, ToolStarted
from ..protocol.messages import Message, ResultStatus, ToolCall, ToolResult
from ..protocol.tool import CHANGING, PARALLEL, FinalReport, Output, Tool, ToolContext
from ..text.suggest import closest_match
from .agent import Agent, Services, StopRun
from .result_budget import truncate_results

log = logging.getLogger(__name__)


def stop(task: asyncio.Task[object]) -> None:
    """The one door for cancelling a task: once, so that a second stop cannot break a clean-up."""
    if not task.done() and not task.cancelling():
        task.cancel()


async def run_calls(agent: Agent, world: Services, calls: Sequence[ToolCall]) -> FinalReport | None:
    """Run all calls of a reply and add their results to the history; returns the ending one of them reported.

    Calls that only look run side by side, the rest one at a time in call order. Raises Halt or LimitReached when a
    call means the end of the run; also then every call has its result.
    """
    tasks: list[asyncio.Task[_CallResult]] = []
    lined = [i for i, call in enumerate(calls) if _in_line(agent, call)]
    before: asyncio.Event | None = None
    for i, call in enumerate(calls):
        mine = asyncio.Event() if i in lined else None
        strand = _strand(
            agent, world, call, after=before if mine else None, mine=mine, last=mine is None or i == lined[-1]
        )
        tasks.append(asyncio.create_task(strand))
        before = mine or before
    agent.slot.start_parallel(
        len(calls) - max(0, len(lined) - 1)
    )  # those in line are one strand: one of them works at a time
    try:
        await asyncio.wait(tasks)
    finally:
        for task in tasks:
            stop(task)
        if any(not task.done() for task in tasks):
            await asyncio.wait(tasks)
        results = tuple(_settled(task, call) for task, call in zip(tasks, calls, strict=True))
        message = Message("tool", truncate_results(agent, results), "harness")
        agent.history.append(message)
        await world.log.emit(agent.path, MessageAdded(message))
    await agent.slot.resume_single()
    for task in tasks:
        if error := task.exception():
            raise error
    return next((ending for task in tasks if (ending := task.result().ending)), None)


def _in_line(agent: Agent, call: ToolCall) -> bool:
    tool = agent.tools.get(call.name)
    return tool is not None and tool.effect not in PARALLEL


class _CallResult:
    """What came of one call."""

    def __init__(self, result: ToolResult, ending: FinalReport | None = None) -> None:
        self.result, self.ending = result, ending


def _settled(task: asyncio.Task[_CallResult], call: ToolCall) -> ToolResult:
    if task.cancelled():
        return ToolResult(call.id, "Stopped before it was done.", "cancelled")
    if error := task.exception():
        return ToolResult(call.id, str(error), "error")
    return task.result().result


async def _strand(
    agent: Agent,
    world: Services,
    call: ToolCall,
    *,
    after: asyncio.Event | None,
    mine: asyncio.Event | None,
    last: bool,
) -> _CallResult:
    """One call in its turn: `after` the one before it in line; `last` ends a strand of the agent's work."""
    try:
        if after is not None:
            await after.wait()
        ran = await _run_call(agent, world, call)
    finally:
        if mine is not None:
            mine.set()
        if last:
            agent.slot.parallel_done()
    await agent.slot.show()  # what is left may only wait
    return ran


async def _run_call(agent: Agent, world: Services, call: ToolCall) -> _CallResult:
    """One call from permission to result; only Halt, LimitReached and cancellation escape."""
    begun: float | None = None
    status: ResultStatus = "error"
    output = Output("")
    started = False
    try:
        tool, args, wanted = _prepare(agent, world, call)
        await _require_permission(agent, world, call, wanted)
        started, begun = True, asyncio.get_running_loop().time()  # a person may have thought about it for long
        begins = ToolStarted(call.id, tool.name, tool.title(args), tool.begins(args))
        await world.log.emit(agent.path, begins, durable=tool.effect in CHANGING)
        output = Output("", facts=begins.facts)  # where it is cut off
        output = await tool.run(_context(agent, world, call), args)
        status = "error" if output.error else "ok"
    except PermissionDenied as error:
        started, status, output = True, "denied", Output(str(error))
    except FridayError as error:
        output = Output(str(error))
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            status = "cancelled"
            raise
        output = Output(f"{call.name} failed: what it waited for was cancelled.")  # its own failure: nobody stopped us
    except (StopRun, LimitReached):
        raise
    except Exception as error:  # a defect in a tool must not end the run; the model is told and the log has the trace
        log.exception("tool %s failed", call.name)
        output = Output(f"{call.name} failed unexpectedly: {type(error).__name__}: {error}")
    finally:
        if started:
            took = 0.0 if begun is None else asyncio.get_running_loop().time() - begun
            agent.receipt_builder.add(call.name, status, output.facts)
            finished = ToolFinished(call.id, call.name, status, took, output.display, output.facts)
            await world.log.emit(agent.path, finished, *(Notice(text, "warning") for text in output.warnings))
    return _CallResult(ToolResult(call.id, output.text, status, output.images), output.ends)


def _prepare(agent: Agent, world: Services, call: ToolCall) -> tuple[Tool, object, RuleInput]:
    tool = agent.tools.get(call.name)
    if tool is None:
        listed = any(spec.name == call.name for spec in agent.specs)
        names = ", ".join(sorted(agent.tools))
        near = "" if listed else closest_match(call.name, agent.tools)
        raise ToolError(
            f"{call.name} cannot be used now." if listed else f"There is no tool {call.name!r}.",
            hint=f"Did you mean {near}?" if near else f"Tools you may use: {names or 'none'}.",
        )
    if call.error:
        raise ToolError(f"The arguments of {call.name} could not be read: {call.error}.", hint="Send them again.")
    args = tool.parse(call.arguments)
    subjects = tuple(tool.subjects(args, agent.workspace))
    reach, plea = tool.reach(args, agent.workspace)
    return tool, args, RuleInput(tool.name, tool.effect, subjects, tool.script(args, agent.workspace), reach, plea)


async def _require_permission(agent: Agent, world: Services, call: ToolCall, wanted: RuleInput) -> None:
    """Returns when the call may run; raises PermissionDenied with the reason when not."""

    def judged() -> PermissionDecision:
        return decide(wanted, call.arguments, agent.rules, world.taint)

    def passes() -> bool:
        return judged().decision == "allow"

    verdict = judged()
    if verdict.decision == "allow":
        return
    subject = "\n".join(wanted.subjects)
    if verdict.decision == "ask" and world.approvals.interactive:
        async with agent.slot.waiting("waiting_user", call.id):
            answer = await world.approvals.permission(agent.path, call.id, wanted, reason=verdict.reason, again=passes)
        if answer.decision == "allow":
            return
        words = f": {answer.reason}" if answer.reason else "."
        raise PermissionDenied(f"The user said no to this {wanted.tool} call{words}")
    reason = verdict.reason
    if verdict.decision == "ask":
        reason += ", and nobody can be asked here"
    await world.log.emit(agent.path, Denied(call.id, wanted.tool, subject, reason))
    raise PermissionDenied(f"Not permitted: {reason}.", hint="Do without it, or say what you could not do.")


def _context(agent: Agent, world: Services, call: ToolCall) -> ToolContext:
    offset = 0

    def emit(text: str) -> None:
        nonlocal offset
        world.log.live(agent.path, ToolOutput(call.id, offset, text))
        offset += len(text)

    async def ask(question: str, choices: Sequence[str]) -> str:
        async with agent.slot.waiting("waiting_user", call.id):
            return await world.approvals.question(agent.path, call.id, question, choices)

    return ToolContext(agent.path, call.id, agent.workspace, agent.seen, emit, ask)
