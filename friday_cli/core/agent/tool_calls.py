"""Runs the tool calls of a turn. Each call gets exactly one result, in call order, even when the run is stopped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Literal, NamedTuple

import msgspec

from ..limits.budget import LimitReached
from ..permissions.rule import RuleInput, rerun_after_read_only
from ..protocol.errors import FridayError, PermissionDenied, limit_words
from ..protocol.events import MessageAdded, Notice, ToolFinished, ToolOutput, ToolStarted
from ..protocol.messages import Message, ResultStatus, ToolCall, ToolResult, user
from ..protocol.tool import CHANGING, PARALLEL, FinalReport, Output, ToolContext
from ..protocol.trace_context import TRACEPARENT
from .agent import Agent, HookOutcome, Services, StopRun
from .cache_refresh import cache_kept
from .call_permission import require_permission
from .result_budget import save_long, truncate_results
from .task_stop import being_stopped, stop
from .understood_call import UnderstoodCall, as_understood, forwarded, understand

log = logging.getLogger(__name__)

SLOTLESS: frozenset[str] = frozenset(("spawn", "own"))
"""Effects of tools that do not work on this machine: their calls need no run slot."""
STOPPED = "Stopped before it was done."
MAX_CALLS = 128
"""Calls of one reply that are run. The others get an error as their result."""
NOT_RUN = f"Not run: one reply may have at most {MAX_CALLS} tool calls. Send it again if it is still needed."


async def run_calls(agent: Agent, services: Services, calls: Sequence[ToolCall]) -> FinalReport | None:
    """Run all calls of a reply and add their results to the history; returns the final report when a call made one.
    Calls whose effect is in `PARALLEL` run at the same time, the rest one after the other in call order. Those after the
    first `MAX_CALLS` are not run. Raises StopRun or LimitReached when a call ends the run; all calls have results then
    too."""
    conversation = agent.conversation
    calls, excess = calls[:MAX_CALLS], calls[MAX_CALLS:]
    if excess:
        text = f"{agent.model} sent {len(calls) + len(excess):,} tool calls in one reply. Only the first {MAX_CALLS} are run."
        await services.log.emit(agent.path, Notice(text, "warning"))
    tasks: list[asyncio.Task[_CallResult]] = []
    on_machine = any((tool := conversation.tools.get(call.name)) and tool.effect not in SLOTLESS for call in calls)
    serial = [
        i for i, c in enumerate(calls) if (tool := conversation.tools.get(c.name)) and tool.effect not in PARALLEL
    ]
    changing = [i for i in serial if conversation.tools[calls[i].name].effect in CHANGING] or [len(calls) - 1]
    before: asyncio.Event | None = None
    # Only one serial call runs at a time.
    await agent.slot.start_parallel(len(calls) - max(0, len(serial) - 1), on_machine=on_machine)
    for i, call in enumerate(calls):
        mine = asyncio.Event() if i in serial else None
        after, last = before if mine else None, mine is None or i == serial[-1]
        one = _Call(agent, services, call, checks=i == changing[-1])
        scheduled = _run_scheduled(agent, services, one, after=after, done=mine, last=last)
        tasks.append(asyncio.create_task(scheduled))
        before = mine or before
    try:
        async with cache_kept(agent, services):
            await asyncio.wait(tasks)
    finally:
        for task in tasks:
            stop(task)
        if any(not task.done() for task in tasks):
            await asyncio.wait(tasks)
        results = tuple(_settled(task, call) for task, call in zip(tasks, calls, strict=True))
        results += tuple(ToolResult(call.id, NOT_RUN, "error") for call in excess)
        message = Message("tool", truncate_results(agent, services, results), "harness")
        conversation.history.append(message)
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
        agent.conversation.history.append(message)
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
    call: _Call,
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
        ran = await call.run()
    finally:
        if done is not None:
            done.set()
        if last:
            agent.slot.parallel_done()
    if ran.result.status != "cancelled":
        agent.slot.show()  # the calls that are left may only wait
    return ran


class _Call:
    """One call, from permission to result. `state`: `received` from the model; `understood`: its tool and arguments are known,
    and hooks saw them; `running`; `asked again`: it ran read-only, and a person is asked whether it may run once more. `checks`: its
    result says what the changes of the whole reply did to the code."""

    def __init__(self, agent: Agent, services: Services, call: ToolCall, *, checks: bool) -> None:
        self._agent, self._services = agent, services
        self._sent = self._call = call
        self._checks = checks
        self.id = call.id
        self._state: Literal["received", "understood", "running", "asked again"] = "received"
        self._began = 0.0
        self._known: UnderstoodCall | None = None
        self._hooked = HookOutcome()
        self._edited = ""
        """The command that a person put in place of the model's."""
        self._notes: list[str] = []
        """What the model reads after the result."""
        self._status: ResultStatus = "error"
        self._output = Output("")
        """What it has so far."""

    async def run(self) -> _CallResult:
        """The result. Raises only StopRun, LimitReached and CancelledError."""
        try:
            await self._try()
            await self._check_changes()
        finally:
            if self._status == "denied" or self._state in ("running", "asked again") or self._output.facts.code:
                self._log_end()
        output = self._output
        return _CallResult(ToolResult(self._call.id, self._text, self._status, output.images), output.ends)

    async def _try(self) -> None:
        """Run the call as far as it gets. A tool that is cancelled may still return what it has. Raises what `run` does."""
        try:
            await self._run(await self._understand())
            self._status = "cancelled" if being_stopped() else "error" if self._output.error else "ok"
        except PermissionDenied as error:
            self._status, self._output = "denied", Output(str(error))
        except FridayError as error:
            self._output = Output(str(error), error=True)
            self._output = await self._after_hooks(self._output)
        except asyncio.CancelledError:
            if being_stopped():
                self._status = "cancelled"
                raise  # otherwise not this task was cancelled
            self._output = Output(f"{self._call.name} failed: a task that it waited for was cancelled.")
        except (StopRun, LimitReached) as error:
            self._output = Output(str(error), facts=self._output.facts)
            raise
        except Exception as error:  # a defect in a tool must not end the run; the log file has the traceback
            if limit := limit_words(error):
                self._output = Output(limit)
                return
            log.exception("tool %s failed", self._call.name)
            self._output = Output(f"{self._call.name} failed unexpectedly: {type(error).__name__}: {error}")

    async def _understand(self) -> UnderstoodCall:
        """Find the tool and read the arguments, and let hooks rewrite them. Raises what `understand` does."""
        agent, services = self._agent, self._services
        call = self._call = forwarded(agent, self._sent)
        tool, sent = await understand(agent, services, call)
        self._notes.append(sent.note)
        return await self._hook(as_understood(agent, tool, sent.arguments))

    async def _hook(self, known: UnderstoodCall) -> UnderstoodCall:
        """The call after the hooks saw it and rewrote it. Raises StopRun when one stops the run."""
        agent, services = self._agent, self._services
        if services.hooks is not None:
            hooked = self._hooked = await services.hooks.before_call(agent, known.seen(self._call))
            if hooked.stop:
                raise StopRun("hook", hooked.stop)
            self._notes += [hooked.note, hooked.context]
            if hooked.arguments is not None:  # what will run is what is judged
                known = as_understood(agent, known.tool, hooked.arguments)
        self._known = known
        if self._state == "received":
            self._state = "understood"
        return known

    async def _permitted(self, known: UnderstoodCall, wanted: RuleInput) -> tuple[UnderstoodCall, bool]:
        """The call that may run, and whether it must run read-only. A person may change its command, which is judged as the
        model's was. Raises PermissionDenied."""
        while True:
            permit = await require_permission(self._agent, self._services, self._sent, known, wanted, self._hooked)
            if not permit.command:
                return known, permit.read_only
            self._edited = permit.command
            known = as_understood(self._agent, known.tool, {**known.arguments, "command": permit.command})
            known = await self._hook(known)
            wanted = known.wanted

    async def _run(self, known: UnderstoodCall) -> None:
        """Run the tool as far as it is permitted. Raises whatever the tool raises."""
        agent, tool = self._agent, known.tool
        known, read_only = await self._permitted(known, known.wanted)
        args, read_only = known.args, read_only and agent.workspace.supports_read_only
        context = _context(agent, self._services, self._call, known, read_only=read_only)
        begins = ToolStarted(self._call.id, tool.name, tool.title(args), tool.begins(args), read_only)
        await self._start(begins, durable=tool.effect in CHANGING)
        self._output = Output(STOPPED, facts=begins.facts)  # for the case that it is cancelled
        ran = await tool.run(context, args)
        if ran.denied:
            self._state = "asked again"
            ran = await self._run_again(known, ran)
        self._output = ran
        ran = await self._after_hooks(ran)
        kept = await save_long(agent.workspace, ran.text)
        self._output = ran if kept is ran.text else msgspec.structs.replace(ran, text=kept)

    async def _check_changes(self) -> None:
        """Add what the changes of the reply did to the code, and what is known by now of earlier ones, if this is the call for it."""
        code = self._services.code
        if code is None or not self._checks or being_stopped():
            return
        try:
            found = await code.checked(self._agent)
        except asyncio.CancelledError:
            self._status = "cancelled"
            raise
        if found:
            ran = self._output
            self._notes += [line for check in found for line in check.lines(self._agent.told_problems)]
            facts = msgspec.structs.replace(ran.facts, code=(*ran.facts.code, *found))
            told = tuple(check.warning for check in found if check.new)
            self._output = msgspec.structs.replace(ran, facts=facts, warnings=(*ran.warnings, *told))

    async def _run_again(self, known: UnderstoodCall, looked: Output) -> Output:
        """Run a call that failed where it could only look once more as usual, if that is permitted. Raises PermissionDenied
        with what it printed the first time."""
        tool, before = known.tool, known
        try:
            known, read_only = await self._permitted(known, rerun_after_read_only(known.wanted, looked.denied))
        except PermissionDenied as error:
            hint = f"{error.hint or ''} What it printed read-only:\n{looked.text}".strip()
            raise PermissionDenied(error.message, hint=hint) from None
        read_only = read_only and known is not before and self._agent.workspace.supports_read_only
        again = ToolStarted(self._call.id, tool.name, tool.title(known.args), tool.begins(known.args), read_only)
        await self._start(again, durable=True)
        context = _context(self._agent, self._services, self._call, known, read_only=read_only)
        return await tool.run(context, known.args)

    async def _start(self, begins: ToolStarted, *, durable: bool) -> None:
        self._state, self._began = "running", _now()  # the time a person took to answer does not count
        await self._services.log.emit(self._agent.path, begins, durable=durable)

    async def _after_hooks(self, ran: Output) -> Output:
        """The output of a call that ran, after the hooks saw it. Raises StopRun when one stops the run."""
        hooks, known = self._services.hooks, self._known
        if hooks is None or known is None or self._state != "running" or being_stopped():
            return ran
        took_s = _now() - self._began
        after = await hooks.after_call(self._agent, known.seen(self._call), ran, took_s)
        self._notes.append(after.context)
        if after.stop:
            raise StopRun("hook", after.stop)
        return ran if after.output is None else msgspec.structs.replace(ran, text=after.output)

    @property
    def _text(self) -> str:
        """The result as the model reads it."""
        ran = self._edited and self._status != "denied"
        edited = f"[The user changed the command before it ran. This ran: {self._edited}]" if ran else ""
        text = "\n".join(filter(None, (self._output.text, edited, *self._notes)))
        # JSON of files and servers can name half a character, which nothing that is sent or stored may have
        return text if text.isascii() else text.encode("utf-8", "replace").decode()

    def _log_end(self) -> None:
        call, output, path = self._call, self._output, self._agent.path
        took = _now() - self._began if self._state == "running" else 0.0
        facts = output.facts
        if self._hooked.arguments is not None:
            facts = msgspec.structs.replace(facts, rewritten=(self._hooked.rewritten,))
        self._agent.receipt_builder.add(call.name, self._status, facts)
        finished = ToolFinished(
            call.id,
            call.name,
            self._status,
            took,
            output.display,
            facts,
            text=self._text,
            images=output.images,
            usage=output.usage,
        )
        self._services.log.emit_soon(path, finished, *(Notice(text, "warning") for text in output.warnings))


def _context(
    agent: Agent, services: Services, call: ToolCall, known: UnderstoodCall, *, read_only: bool
) -> ToolContext:
    offset = 0

    def emit(text: str) -> None:
        nonlocal offset
        services.log.live(agent.path, ToolOutput(call.id, offset, text))
        offset += len(text)

    async def ask(question: str, choices: Sequence[str]) -> str:
        async with agent.slot.waiting("waiting_user"):
            return await services.approvals.question(agent.path, call.id, question, choices)

    async def hand_in(plan: str) -> str:
        async with agent.slot.waiting("waiting_user"):
            return await services.approvals.plan(agent.path, call.id, plan)

    withheld = partial(agent.rules.withheld, known.wanted)
    return ToolContext(
        agent.path,
        call.id,
        known.workspace,
        agent.seen,
        emit,
        ask,
        read_only=read_only,
        withheld=withheld,
        hand_in=hand_in,
    )


def _now() -> float:
    return asyncio.get_running_loop().time()
