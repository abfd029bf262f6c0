"""The agent loop: takes turns until the model is done, a limit is reached, or the run is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec

from ..eventlog.notices import NOTE
from ..limits.budget import LimitReached
from ..protocol.errors import ProviderError
from ..protocol.events import AnyEvent, AttemptFailed, MessageAdded, Notice, TurnFinished, TurnStarted
from ..protocol.messages import Message, Text, ToolResult, Usage, handed_in, open_calls, user, without_refused
from ..protocol.provider import NO_TOOLS, ReplyDone
from ..protocol.run_result import RunResult, StopReason
from ..protocol.tool import FinalReport
from . import compaction
from .agent import Agent, Services, StopRun
from .loop_detector import LoopDetector
from .model_call import ModelCall
from .next_request import estimated, prompt_tokens
from .text_reply import CALLS_REFUSED, answers_in_text

CONTINUES = 3
"""Continuations of one reply that was cut at the output limit."""
UNFINISHED = 2
"""Replies of a run with comments only, after which the model is asked to go on."""
REPAIRS = 2
"""Corrections of a final answer that does not match the required schema."""
UNREADABLE_TURNS = 3
"""Consecutive turns with only unreadable arguments after which the agent is stopped."""

WRAP_UP = {
    "iterations": "You have used all your turns.",
    "tokens": "Your token budget is used up.",
    "cost": "Your cost budget is used up.",
    "time": "Your time is up.",
    "cancelled": "You were asked to stop.",
}


async def run_agent(agent: Agent, services: Services) -> RunResult:
    """Take turns until there is a final answer. Raises LimitReached at a limit; call `wrap_up` then."""
    try:
        while True:
            result = await _take_turns(agent, services)
            if (taken := agent.takeover) is None or result.stop_reason not in ("done", "reported"):
                return result
            taken.answered()
            if (given := await _handed_back(agent)) is not None:
                return given if given.text else result
    except StopRun as stopped:
        return RunResult("failed", stopped.stop_reason, agent.partial, stopped.message, partial=True)
    except ProviderError as error:
        return provider_failure(agent, error)
    finally:
        await close_calls(agent, services)


async def _handed_back(agent: Agent) -> RunResult | None:
    """While a person works with the agent: wait for what they say. Their result once they have handed it back, with the text ""
    if they wrote none; None if the agent has something to answer, or nobody has taken it over."""
    if (taken := agent.takeover) is None:
        return None
    await taken.wait(agent.slot)
    if not taken.over:
        return None
    agent.takeover = None
    return RunResult("completed", "done", taken.result)


def provider_failure(agent: Agent, error: ProviderError) -> RunResult:
    """The result of a run whose model request failed."""
    reason: StopReason = "refusal" if error.kind == "refusal" else "context" if error.kind == "context" else "provider"
    return RunResult("failed", reason, agent.partial, str(error), partial=True, error_kind=error.kind)


async def _take_turns(agent: Agent, services: Services) -> RunResult:
    guard, answer = _RepetitionGuard(agent, services), _FinalAnswer(agent, services)
    while True:
        if (given := await _handed_back(agent)) is not None:
            if given.text:
                return given
            await add_system_note(agent, services, f"{NOTE} The user is done. Finish your task, and return its result.")
        await drain_inbox(agent, services)
        _check_limits(agent)
        done, report = await _turn(agent, services, guard)
        result = await answer.replied(done) if report is None else answer.reported(report)
        if result is not None:
            return result


async def _turn(agent: Agent, services: Services, guard: _RepetitionGuard) -> tuple[ReplyDone, FinalReport | None]:
    """One request and its tool calls. A full context is compacted once and the request sent again."""
    if await compaction.needed(agent, services):
        await compaction.compact(agent, services)
    agent.turn += 1
    await services.log.emit(agent.path, _started(agent))
    try:
        done = await ModelCall(agent, services).send()
    except ProviderError as error:
        if error.kind != "context":
            raise
        await save_partial_reply(agent, services)
        await compaction.compact(agent, services)
        done = await ModelCall(agent, services).send()
    if done.stop == "context" and not done.message.calls:
        full = AttemptFailed(1, "context", "The context is full.", None, done.usage)
        await services.log.emit(agent.path, full)
        await compaction.compact(agent, services)
        done = await ModelCall(agent, services).send()
        if done.stop == "context":
            raise StopRun("context", f"The context of {agent.model} is full and could not be compacted.")
    await add_reply(agent, services, done, _finished(agent, done))
    calls = () if done.stop == "refusal" else done.message.calls
    report = None
    if calls:
        from .tool_calls import run_calls  # a short run needs none

        report = await run_calls(agent, services, calls)
    if report is None and calls:
        await guard.check()
    return done, report


def _started(agent: Agent, *, wrap_up: bool = False) -> TurnStarted:
    prompt = prompt_tokens(agent)
    sent, window = estimated(agent, prompt), agent.conversation.provider.window
    return TurnStarted(
        agent.turn, wrap_up, prompt, window, sent.request, sent.output_usd, marked=agent.budget.needs_log
    )


def _finished(agent: Agent, done: ReplyDone) -> TurnFinished:
    return TurnFinished(agent.turn, done.usage, done.stop, done.usage.context, agent.conversation.provider.window)


async def add_reply(agent: Agent, services: Services, done: ReplyDone, *also: AnyEvent) -> None:
    """Add an assistant message to the history, and log it together with the events `also`."""
    conversation = agent.conversation
    usage = done.usage
    conversation.sent = usage.input + usage.cache_read + usage.cache_write
    conversation.context = usage.context
    conversation.cache_missed = usage.cached and conversation.sent > 0 and not (usage.cache_read or usage.cache_write)
    if text := done.message.text.strip():
        agent.texts.append(text)
    events: list[AnyEvent] = list(also)
    if done.message.parts:  # providers reject an empty one in a request
        conversation.history.append(done.message)
        events.insert(0, MessageAdded(done.message))
    if any(isinstance(event, TurnFinished) and event.stop == "refusal" for event in also):  # as the log is read
        conversation.history = without_refused(conversation.history)
    if done.message.calls:  # they run only when the log has them
        await services.log.emit(agent.path, *events)
    elif events:
        services.log.emit_soon(agent.path, *events)


async def add_system_note(agent: Agent, services: Services, text: str) -> None:
    """Add a note of the harness to the history."""
    message = user(text, source="harness")
    agent.conversation.history.append(message)
    await services.log.emit(agent.path, MessageAdded(message))


async def drain_inbox(agent: Agent, services: Services) -> None:
    """Move the messages of the inbox to the history. Nothing else does that during a run."""
    while not agent.inbox.empty():
        waiting = agent.inbox.take()
        message = user(waiting.text, source=waiting.source)
        if services.hooks is not None and waiting.source == "person":
            hooked = await services.hooks.message(agent, waiting.text)
            if hooked.decision == "deny":
                agent.reading(message, withheld=True)
                message = user(f"{NOTE} A message of the user was withheld by a hook of the user.", source="harness")
            elif hooked.context:
                await add_system_note(agent, services, hooked.context)
        agent.conversation.history.append(message)
        await services.log.emit(agent.path, *agent.reading(message))


def _check_limits(agent: Agent) -> None:
    agent.budget.check()
    if agent.turn >= agent.max_turns:
        raise LimitReached("iterations", agent.path)


def may_continue(agent: Agent) -> bool:
    """Whether this run can answer an unread message. Otherwise the message waits for the next run."""
    try:
        _check_limits(agent)
    except LimitReached:
        return False
    return agent.inbox.needs_turn


async def close_calls(agent: Agent, services: Services, why: str = "Stopped before it was run.") -> None:
    """Add a `cancelled` result with the text `why` for each call of the history that has none."""
    if left := open_calls(agent.conversation.history):
        results = tuple(ToolResult(c.id, why, "cancelled") for c in left)
        message = Message("tool", results, "harness")
        agent.conversation.history.append(message)
        await services.log.emit(agent.path, MessageAdded(message))


async def wrap_up(agent: Agent, services: Services, why: str, *, whose: str = "") -> RunResult:
    """The last turn, in which no tool runs and the agent returns what it has. Raises nothing except CancelledError. `why`
    is the limit, whose owner is `whose`, or `cancelled`. It uses the budget's reserve and has its own time limit."""
    await save_partial_reply(agent, services)
    await close_calls(agent, services)
    agent.budget.open_holdback()
    await add_system_note(
        agent,
        services,
        f"{NOTE} {WRAP_UP[why]} {NO_TOOLS} Answer with the best result you have, and say clearly what is missing.",
    )
    text, error = "", ""
    try:
        async with asyncio.timeout(services.policy.wrap_up_s):
            async for done in _replies_in_text(agent, services):
                if done.stop == "refusal":
                    error = f"No wrap-up: {agent.model} refused."
                else:
                    text = handed_in(done.message) or done.message.text.strip() or text
    except (ProviderError, LimitReached) as failure:
        error = f"No wrap-up: {failure}"
    except TimeoutError:
        error = f"No wrap-up within {services.policy.wrap_up_s:.0f} s."
    await close_calls(agent, services)
    return wrapped_up(agent, why, whose, text, error)


def wrapped_up(agent: Agent, why: str, whose: str, text: str, error: str) -> RunResult:
    """The result of a run that was stopped by `why`: the `text` of its wrap-up, or what it had, and the `error` of the wrap-up."""
    result = text or agent.partial
    if why == "time":
        return RunResult("timeout", "time", result, error, whose, partial=not text)
    if why == "cancelled":
        return RunResult("cancelled", "cancelled", result, error, partial=not text)
    status = "completed" if text else "failed"
    return RunResult(status, why, result, "" if text else error, whose, partial=not text)  # type: ignore[arg-type]


async def _replies_in_text(agent: Agent, services: Services) -> AsyncIterator[ReplyDone]:
    """The reply of a wrap-up; after one with calls a second, in which the model may call nothing."""
    for tools in (True, False):
        agent.turn += 1
        await services.log.emit(agent.path, _started(agent, wrap_up=True))
        done = await ModelCall(agent, services, "wrap_up", tools=tools).send()
        await add_reply(agent, services, done, _finished(agent, done))
        yield done
        if answers_in_text(done):
            return
        await close_calls(agent, services, CALLS_REFUSED)


async def save_partial_reply(agent: Agent, services: Services) -> None:
    """Add the text of an interrupted reply to the history."""
    if text := agent.streaming.strip():
        agent.streaming = ""
        await add_reply(agent, services, ReplyDone(Message("assistant", (Text(text),)), Usage(), "other"))
        agent.conversation.context = agent.conversation.sent = 0


class _FinalAnswer:
    """Decides after each reply whether it ends the run, and asks the model to go on where it does not: a reply that was cut off
    or ended early, that has comments only, or that does not match the required schema."""

    def __init__(self, agent: Agent, services: Services) -> None:
        self._agent, self._services = agent, services
        self._texts: list[str] = []
        """The text of an answer that takes several replies."""
        self._cut = self._early = self._unfinished = self._repaired = 0

    def reported(self, report: FinalReport) -> RunResult | None:
        """The result of a run that ended with `report`; None if a message came meanwhile."""
        self._agent.texts.append(report.result)  # the partial text, if the next turn fails
        if may_continue(self._agent):
            self._texts.clear()
            return None
        end = RunResult("completed", "done", report.result, findings=report.findings, claims=report.claims)
        return end if report.success else msgspec.structs.replace(end, status="failed", stop_reason="reported")

    async def replied(self, done: ReplyDone) -> RunResult | None:
        """The result of the run if the reply is its answer; None if the model is asked again. Raises StopRun."""
        self._texts.append(done.message.answer)
        if done.stop == "refusal":
            raise StopRun("refusal", f"{self._agent.model} refused to answer{f': {done.note}' if done.note else '.'}")
        self._unfinished += done.stop == "unfinished"
        comments_only = done.stop == "unfinished" and self._unfinished <= UNFINISHED
        if done.message.calls or done.stop == "pause_turn" or comments_only:
            self._texts.clear()
        elif done.stop == "other":
            await self._ended_early(done.note)
        elif done.stop == "max_tokens":
            await self._cut_off()
        elif may_continue(self._agent):
            self._texts.clear()
        else:
            return await self._answered()
        return None

    async def _ended_early(self, why: str) -> None:
        self._early += 1
        if self._early > 1:
            raise StopRun("provider", f"{self._agent.model} ended its reply twice before it was complete ({why}).")
        words = f"{self._agent.model} ended its reply early ({why}); it is asked to continue."
        await self._services.log.emit(self._agent.path, Notice(words, "warning"))
        await self._ask("Your reply ended early. Continue exactly where it stopped.")

    async def _cut_off(self) -> None:
        self._cut += 1
        if self._cut > CONTINUES:
            raise StopRun("provider", f"The reply was cut at the output limit {self._cut} times.")
        await self._ask("Your reply was cut off. Continue exactly where it stopped.")

    async def _answered(self) -> RunResult | None:
        text = "".join(self._texts)
        self._texts.clear()
        if not text.strip():
            raise StopRun("provider", f"{self._agent.model} gave an empty answer.")
        if not (complaint := self._agent.accept(text)):
            return RunResult("completed", "done", text)
        self._repaired += 1
        if self._repaired > REPAIRS:
            raise StopRun("reported", f"The answer does not match the required schema: {complaint}")
        await self._ask(f"The answer does not match the required schema: {complaint}. Send a corrected answer.")
        return None

    async def _ask(self, words: str) -> None:
        await add_system_note(self._agent, self._services, f"{NOTE} {words}")


class _RepetitionGuard:
    """Warns an agent that repeats itself, and stops it when it continues."""

    def __init__(self, agent: Agent, services: Services) -> None:
        self._agent, self._services = agent, services
        self._loops = LoopDetector([name for name, tool in agent.conversation.tools.items() if tool.effect == "write"])
        self._unreadable = 0

    async def check(self) -> None:
        """Check the newest turn. Raises StopRun."""
        reply, results = self._agent.conversation.history[-2], self._agent.conversation.history[-1]
        self._unreadable = self._unreadable + 1 if all(c.error for c in reply.calls) else 0
        if self._unreadable >= UNREADABLE_TURNS:
            raise StopRun("loop", f"{self._unreadable} turns in a row had tool arguments that cannot be read.")
        if (circle := self._loops.add(reply, results)) is None:
            return
        if circle.stops:
            raise StopRun(
                "loop", f"It repeated {circle} {circle.rounds} times in a row and got the same results each time."
            )
        words = f"You repeated {circle} {circle.rounds} times and got the same results each time."
        await add_system_note(
            self._agent, self._services, f"{NOTE} {words} Try something else, or answer with what you have."
        )
