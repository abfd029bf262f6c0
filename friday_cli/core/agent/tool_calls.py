"""Runs the tool calls of a turn. Each call gets exactly one result, in call order, even when the run is stopped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from ..limits.budget import LimitReached
from ..permissions.decision import PermissionDecision
from ..permissions.rule import RuleInput, rerun_after_read_only
from ..permissions.rules import decide
from ..protocol.call_arguments import UnderstoodArguments
from ..protocol.errors import FridayError, PermissionDenied, ToolError
from ..protocol.events import Denied, MessageAdded, Notice, ToolFinished, ToolOutput, ToolStarted
from ..protocol.messages import Message, ResultStatus, ToolCall, ToolResult, user
from ..protocol.receipt import ToolFacts
from ..protocol.tool import CHANGING, PARALLEL, FinalReport, Output, Tool, ToolContext
from ..protocol.trace_context import TRACEPARENT
from ..text.suggest import closest_match
from .agent import Agent, HookOutcome, Services, StopRun
from .result_budget import save_long, truncate_results

log = logging.getLogger(__name__)

SLOTLESS: frozenset[str] = frozenset(("spawn", "own"))
"""Effects of tools that do not work on this machine: their calls need no run slot."""
STOPPED = "Stopped before it was done."
MAX_CALLS = 128
"""Calls of one reply that are run. The others get an error as their result."""
NOT_RUN = f"Not run: one reply may have at most {MAX_CALLS} tool calls. Send it again if it is still needed."


def stop(task: asyncio.Task[object]) -> None:
    """Cancel a task, at most once, so that a second stop cannot interrupt its clean-up. Tasks are cancelled only here."""
    if not task.done() and not task.cancelling():
        task.cancel()


def being_stopped() -> bool:
    """Whether the current task was cancelled, also when it caught that."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def run_calls(agent: Agent, services: Services, calls: Sequence[ToolCall]) -> FinalReport | None:
    """Run all calls of a reply and add their results to the history; returns the final report when a call made one.
    Calls whose effect is in `PARALLEL` run at the same time, the rest one after the other in call order. Those after the
    first `MAX_CALLS` are not run. Raises StopRun or LimitReached when a call ends the run; all calls have results then
    too."""
    calls, excess = calls[:MAX_CALLS], calls[MAX_CALLS:]
    if excess:
        text = f"{agent.model} sent {len(calls) + len(excess):,} tool calls in one reply. Only the first {MAX_CALLS} are run."
        await services.log.emit(agent.path, Notice(text, "warning"))
    tasks: list[asyncio.Task[_CallResult]] = []
    on_machine = any((tool := agent.tools.get(call.name)) and tool.effect not in SLOTLESS for call in calls)
    serial = [i for i, c in enumerate(calls) if (tool := agent.tools.get(c.name)) and tool.effect not in PARALLEL]
    before: asyncio.Event | None = None
    # Only one serial call runs at a time.
    await agent.slot.start_parallel(len(calls) - max(0, len(serial) - 1), on_machine=on_machine)
    for i, call in enumerate(calls):
        mine = asyncio.Event() if i in serial else None
        after, last = before if mine else None, mine is None or i == serial[-1]
        scheduled = _run_scheduled(agent, services, call, after=after, done=mine, last=last)
        tasks.append(asyncio.create_task(scheduled))
        before = mine or before
    try:
        await asyncio.wait(tasks)
    finally:
        for task in tasks:
            stop(task)
        if any(not task.done() for task in tasks):
            await asyncio.wait(tasks)
        results = tuple(_settled(task, call) for task, call in zip(tasks, calls, strict=True))
        results += tuple(ToolResult(call.id, NOT_RUN, "error") for call in excess)
        message = Message("tool", truncate_results(agent, results), "harness")
        agent.history.append(message)
        services.log.emit_soon(agent.path, MessageAdded(message))
    stopped = ""
    if services.hooks is not None:
        stopped = await _after_batch(agent, services, calls, message.results)
    await agent.slot.resume_single()
    for task in tasks:
        if error := task.exception():
            raise error
    if stopped:
        raise StopRun("hook", stopped)
    return next((report for task in tasks if (report := task.result().report)), None)


async def _after_batch(
    agent: Agent, services: Services, calls: Sequence[ToolCall], results: tuple[ToolResult, ...]
) -> str:
    """Tell the hooks that all calls of a reply have results, and the model what they add. Returns why a hook stops the run, or ""."""
    assert services.hooks is not None
    hooked = await services.hooks.after_batch(agent, {call.id: call for call in calls}, results)
    if hooked.context:
        message = user(hooked.context, source="harness")
        agent.history.append(message)
        await services.log.emit(agent.path, MessageAdded(message))
    return hooked.stop


class _CallResult(NamedTuple):
    """The result of one call, and the final report when the call made one."""

    result: ToolResult
    report: FinalReport | None


def _settled(task: asyncio.Task[_CallResult], call: ToolCall) -> ToolResult:
    if task.cancelled():
        return ToolResult(call.id, STOPPED, "cancelled")
    if error := task.exception():
        return ToolResult(call.id, str(error), "error")
    return task.result().result


async def _run_scheduled(
    agent: Agent,
    services: Services,
    call: ToolCall,
    *,
    after: asyncio.Event | None,
    done: asyncio.Event | None,
    last: bool,
) -> _CallResult:
    """Run one call when `after` is set, then set `done`. `last`: no serial call follows, so one parallel thing ends."""
    if services.trace is not None:
        TRACEPARENT.set(services.trace(agent.path, call.id))  # of this task, which is only for this call
    try:
        if after is not None:
            await after.wait()
        ran = await _run_call(agent, services, call)
    finally:
        if done is not None:
            done.set()
        if last:
            agent.slot.parallel_done()
    if ran.result.status != "cancelled":
        agent.slot.show()  # the calls that are left may only wait
    return ran


async def _run_call(agent: Agent, services: Services, call: ToolCall) -> _CallResult:
    """One call from permission to result. A tool that is cancelled may still return what it has. Raises only StopRun,
    LimitReached and CancelledError."""
    begun: float | None = None
    status: ResultStatus = "error"
    output = Output("")
    started, ready, asked = False, _Prepared(), call
    now = asyncio.get_running_loop().time
    try:
        call = _forwarded(agent, call)
        await _prepare(agent, services, call, ready)
        tool, args = ready.tool, ready.args
        require = partial(_require_permission, agent, services, asked, ready)
        read_only = await require(ready.wanted) and agent.workspace.supports_read_only
        context = _context(agent, services, call, ready.wanted, read_only=read_only)
        begins = ToolStarted(call.id, tool.name, tool.title(args), tool.begins(args), read_only)
        started, begun = True, now()  # the time a person took to answer does not count
        await services.log.emit(agent.path, begins, durable=tool.effect in CHANGING)
        output = Output(STOPPED, facts=begins.facts)  # for the case that it is cancelled
        ran = await tool.run(context, args)
        if ran.denied:
            begun = None
            await require(rerun_after_read_only(ready.wanted, ran.denied), printed=ran.text)
            begun = now()
            await services.log.emit(agent.path, msgspec.structs.replace(begins, looks=False), durable=True)
            ran = await tool.run(msgspec.structs.replace(context, read_only=False), args)
        output = ran
        if services.hooks is not None:
            ran = await _after_call(agent, services, call, ready, ran, now() - begun)
        kept = await save_long(agent.workspace, ran.text)
        output = ran if kept is ran.text else msgspec.structs.replace(ran, text=kept)
        status = "cancelled" if being_stopped() else "error" if output.error else "ok"
    except PermissionDenied as error:
        started, status, output = True, "denied", Output(str(error))
    except FridayError as error:
        output = Output(str(error), error=True)
        if services.hooks is not None and begun is not None:
            output = await _after_call(agent, services, call, ready, output, now() - begun)
    except asyncio.CancelledError:
        if being_stopped():
            status = "cancelled"
            raise
        output = Output(f"{call.name} failed: a task that it waited for was cancelled.")  # this task was not cancelled
    except (StopRun, LimitReached) as error:
        output = Output(str(error), facts=output.facts)
        raise
    except Exception as error:  # a defect in a tool must not end the run; the log file has the traceback
        log.exception("tool %s failed", call.name)
        output = Output(f"{call.name} failed unexpectedly: {type(error).__name__}: {error}")
    finally:
        if started:
            took = 0.0 if begun is None else now() - begun
            facts = ready.facts(output)
            agent.receipt_builder.add(call.name, status, facts)
            finished = ToolFinished(
                call.id, call.name, status, took, output.display, facts,
                text=ready.text(output), images=output.images, usage=output.usage,
            )  # fmt: skip
            services.log.emit_soon(agent.path, finished, *(Notice(text, "warning") for text in output.warnings))
    return _CallResult(ToolResult(call.id, ready.text(output), status, output.images), output.ends)


class _Prepared:
    """A call before it runs: what `_prepare` found. `notes` come after its result, `rewritten` is what hooks changed."""

    tool: Tool
    args: msgspec.Struct | dict[str, Any]
    arguments: dict[str, Any]
    wanted: RuleInput

    def __init__(self) -> None:
        self.hooked: HookOutcome | None = None
        self.notes: list[str] = []
        self.rewritten: tuple[str, ...] = ()

    def text(self, output: Output) -> str:
        """The result as the model reads it."""
        return "\n".join(filter(None, (output.text, *self.notes)))

    def facts(self, output: Output) -> ToolFacts:
        """What the call did."""
        return msgspec.structs.replace(output.facts, rewritten=self.rewritten) if self.rewritten else output.facts


async def _prepare(agent: Agent, services: Services, call: ToolCall, ready: _Prepared) -> None:
    """Understand a call, and let hooks rewrite it. Raises what `_understand` does."""
    tool, sent = await _understand(agent, services, call)
    ready.notes.append(sent.note)
    ready.tool, ready.arguments, ready.args = tool, sent.arguments, tool.parse(sent.arguments)
    ready.wanted = _rule_input(agent, tool, ready.args)
    if services.hooks is None:
        return
    hooked = ready.hooked = await services.hooks.before_call(agent, call, tool, ready.arguments, ready.wanted)
    if hooked.stop:
        raise StopRun("hook", hooked.stop)
    ready.notes += [hooked.note, hooked.context]
    if hooked.arguments is not None:  # what will run is what is judged
        ready.arguments, ready.args = hooked.arguments, tool.parse(hooked.arguments)
        ready.wanted, ready.rewritten = _rule_input(agent, tool, ready.args), (hooked.rewritten,)


async def _after_call(
    agent: Agent, services: Services, call: ToolCall, ready: _Prepared, ran: Output, took_s: float
) -> Output:
    """The output of a call after the hooks saw it. Raises StopRun when one stops the run."""
    assert services.hooks is not None
    if being_stopped():
        return ran
    after = await services.hooks.after_call(agent, call, ready.tool, ready.arguments, ready.wanted, (ran, took_s))
    ready.notes.append(after.context)
    if after.stop:
        raise StopRun("hook", after.stop)
    return ran if after.output is None else msgspec.structs.replace(ran, text=after.output)


def _forwarded(agent: Agent, call: ToolCall) -> ToolCall:
    """The call that `call` is treated as: itself, or one of a server's tools. Raises ToolError."""
    tool = agent.tools.get(call.name)
    if tool is None or tool.forward is None or call.error:
        return call
    name, arguments = tool.forward(tool.parse(tool.understand(call.arguments).arguments))
    return msgspec.structs.replace(call, name=name, arguments=arguments)


async def _understand(agent: Agent, services: Services, call: ToolCall) -> tuple[Tool, UnderstoodArguments]:
    """Read a call and its arguments. Raises PermissionDenied for a tool that the agent does not have, ToolError for wrong
    arguments."""
    tool = agent.tools.get(call.name)
    if tool is None:
        listed = any(spec.name == call.name for spec in agent.specs)
        listed = listed or (call.name in agent.rules.tools.granted_by("profile") and agent.rules.may(call.name))
        names = ", ".join(sorted(spec.name for spec in agent.specs if spec.name in agent.tools))
        near = "" if listed else closest_match(call.name, agent.tools)
        reason = "it cannot be used now" if listed else "the agent does not have this tool"
        await services.log.emit(agent.path, Denied(call.id, call.name, "", reason))
        raise PermissionDenied(
            f"{call.name} cannot be used now." if listed else f"There is no tool {call.name!r}.",
            hint=f"Did you mean {near}?" if near else f"Tools you may use: {names or 'none'}.",
        )
    if call.error:
        raise ToolError(f"The arguments of {call.name} could not be read: {call.error}.", hint="Send them again.")
    return tool, tool.understand(call.arguments)


def _rule_input(agent: Agent, tool: Tool, args: object) -> RuleInput:
    subjects, also = tool.used(args, agent.workspace)
    sandbox_access, justification = tool.sandbox_access(args, agent.workspace)
    return RuleInput(
        tool.name, tool.effect, subjects, tool.script(args, agent.workspace), sandbox_access=sandbox_access,
        justification=justification, also=also,
    )  # fmt: skip


async def _require_permission(
    agent: Agent, services: Services, call: ToolCall, ready: _Prepared, wanted: RuleInput, *, printed: str = ""
) -> bool:
    """Wait until the prepared call may run. Returns whether it must run read-only. Raises PermissionDenied with the reason,
    and with what it `printed` if it already ran read-only."""
    arguments, hooked = ready.arguments, ready.hooked

    def decision() -> PermissionDecision:
        found = decide(wanted, arguments, agent.rules, services.taint, granted=hooked.grant if hooked else None)
        return _stricter(found, ready.hooked)

    def passes() -> bool:
        return decision().decision == "allow"

    permission = decision()
    if permission.decision == "ask" and services.hooks is not None:
        asked = await services.hooks.permission(agent, call, ready.tool, arguments, wanted)
        if asked.stop:
            raise StopRun("hook", asked.stop)
        if asked.decision == "allow" and not (hooked is not None and hooked.decision == "ask"):
            hooked = asked
        permission = _stricter(decision(), asked)
    looked = f"What it printed read-only:\n{printed}" if printed else ""
    if permission.decision == "allow":
        return permission.read_only
    if permission.decision == "ask" and services.approvals.interactive:
        async with agent.slot.waiting("waiting_user", call.id):
            shown = None if arguments == call.arguments else arguments
            answer = await services.approvals.permission(
                agent.path, call.id, wanted, reason=permission.reason, arguments=shown, again=passes
            )
        if answer.decision == "allow":
            return wanted.effect == "run" and agent.rules.effective_mode == "plan"
        words = f": {answer.reason}" if answer.reason else "."
        raise PermissionDenied(f"The user denied this {wanted.tool} call{words}", hint=looked)
    reason = permission.reason + (", and no person can be asked here" if permission.decision == "ask" else "")
    await services.log.emit(agent.path, Denied(call.id, wanted.tool, "\n".join(wanted.subjects), reason))
    hint = f"Continue without it, or report what you could not do. {looked}".strip()
    raise PermissionDenied(f"Not permitted: {reason}.", hint=hint)


def _stricter(found: PermissionDecision, hooked: HookOutcome | None) -> PermissionDecision:
    """`found`, unless the hooks deny the call, or ask about one that would be allowed."""
    if hooked is None or hooked.decision not in ("deny", "ask") or found.decision == "deny":
        return found
    if hooked.decision == "deny":
        return PermissionDecision("deny", hooked.reason)
    return PermissionDecision("ask", hooked.reason) if found.decision == "allow" else found


def _context(agent: Agent, services: Services, call: ToolCall, wanted: RuleInput, *, read_only: bool) -> ToolContext:
    offset = 0

    def emit(text: str) -> None:
        nonlocal offset
        services.log.live(agent.path, ToolOutput(call.id, offset, text))
        offset += len(text)

    async def ask(question: str, choices: Sequence[str]) -> str:
        async with agent.slot.waiting("waiting_user", call.id):
            return await services.approvals.question(agent.path, call.id, question, choices)

    withheld = partial(agent.rules.withheld, wanted)
    return ToolContext(
        agent.path, call.id, agent.workspace, agent.seen, emit, ask, read_only=read_only, withheld=withheld
    )
