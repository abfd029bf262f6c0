"""The heart: take turns until the model is done, a limit ends it, or somebody stops it."""

from __future__ import annotations

import asyncio
from collections import deque

import msgspec

from ..eventlog.notices import NOTE
from ..limits.budget import LimitName, LimitReached
from ..protocol.displays import TableDisplay, TextDisplay
from ..protocol.errors import ProviderError
from ..protocol.events import (
    AnyEvent,
    AttemptFailed,
    MessageAdded,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from ..protocol.messages import Message, ResultStatus, Text, ToolResult, Usage, open_calls, user
from ..protocol.provider import ReplyDone, ServerSearch
from ..protocol.receipt import ToolFacts
from ..protocol.run_result import RunResult, StopReason
from ..protocol.tool import FinalReport
from ..protocol.tool_info import WEB_SEARCH
from . import compaction
from .agent import Agent, Services, StopRun
from .model_call import ask_model, prompt_tokens
from .tool_calls import run_calls

CONTINUES = 3
"""How often a reply that was cut at the output limit is continued."""
REPAIRS = 2
"""How often a final answer of the wrong form is sent back."""
ROUNDS_WARN = 3
"""How often the very same calls may give the very same results before the agent is warned."""
CIRCLES = {1: 5, 2: 4, 3: 4}
"""How many turns a circle may have, and after how many rounds of it the agent is stopped."""
UNREADABLE_TURNS = 3
"""Turns in a row whose calls all had unreadable arguments, after which the agent is stopped."""

WRAP_UP = {
    "iterations": "You have used all your turns.",
    "tokens": "Your token budget is used up.",
    "cost": "Your cost budget is used up.",
    "time": "Your time is up.",
    "cancelled": "You were asked to stop.",
}


async def run_agent(agent: Agent, world: Services) -> RunResult:
    """Take turns until the answer stands. Raises LimitReached where a limit is hit: `wrap_up` comes next."""
    try:
        return await _take_turns(agent, world)
    except StopRun as halt:
        return RunResult(halt.status, halt.stop_reason, agent.partial, halt.message, partial=True)
    except ProviderError as error:
        return provider_failure(agent, error)
    finally:
        await close_calls(agent, world)


def provider_failure(agent: Agent, error: ProviderError) -> RunResult:
    """How a run ends whose model could not be asked."""
    reason: StopReason = "refusal" if error.kind == "refusal" else "context" if error.kind == "context" else "provider"
    return RunResult("failed", reason, agent.partial, str(error), partial=True)


async def _take_turns(agent: Agent, world: Services) -> RunResult:
    guard = _LoopDetector()
    continued = repaired = 0
    reply: list[str] = []
    while True:
        await drain_inbox(agent, world)
        _check_limits(agent)
        done, ending = await _turn(agent, world, guard)
        reply.append(done.message.text)
        if ending is not None:
            if may_go_on(agent):
                continue
            if ending.success:
                return RunResult("completed", "done", ending.result, findings=ending.findings)
            return RunResult("failed", "reported", ending.result, findings=ending.findings)
        if done.stop == "refusal":
            raise StopRun(
                "failed", "refusal", f"{agent.model} refused to answer" + (f": {done.note}" if done.note else ".")
            )
        if done.message.calls or done.stop == "pause_turn":
            reply.clear()
            continue
        if done.stop == "max_tokens":
            continued += 1
            if continued > CONTINUES:
                raise StopRun("failed", "provider", f"The reply was cut at the output limit {continued} times.")
            await add_system_note(agent, world, f"{NOTE} Your reply was cut off. Go on exactly where it stopped.")
            continue
        if may_go_on(agent):
            reply.clear()
            continue
        text = "".join(reply)
        reply.clear()
        if not text.strip():
            raise StopRun("failed", "provider", f"{agent.model} gave an empty answer.")
        if complaint := agent.accept(text):
            repaired += 1
            if repaired > REPAIRS:
                raise StopRun("failed", "reported", f"The answer has the wrong form: {complaint}")
            await add_system_note(
                agent, world, f"{NOTE} The answer has the wrong form: {complaint}. Send it again, mended."
            )
            continue
        return RunResult("completed", "done", text)


async def _turn(agent: Agent, world: Services, guard: _LoopDetector) -> tuple[ReplyDone, FinalReport | None]:
    """One request and its tools. A full context is compacted once and the request sent again."""
    if await compaction.needed(agent, world):
        await compaction.compact(agent, world)
    agent.turn += 1
    await world.log.emit(agent.path, _started(agent))
    try:
        done = await ask_model(agent, world)
    except ProviderError as error:
        if error.kind != "context":
            raise
        await save_partial_reply(agent, world)
        await compaction.compact(agent, world)
        done = await ask_model(agent, world)
    if done.stop == "context" and not done.message.calls:
        full = AttemptFailed(1, "context", "The context is full.", None, done.usage)
        await world.log.emit(agent.path, full)
        await compaction.compact(agent, world)
        done = await ask_model(agent, world)
        if done.stop == "context":
            raise StopRun("failed", "context", f"The context of {agent.model} is full and could not be compacted.")
    await add_reply(agent, world, done, _finished(agent, done))
    calls = () if done.stop == "refusal" else done.message.calls
    ending = await run_calls(agent, world, calls) if calls else None
    if ending is None and calls:
        await guard.check(agent, world)
    return done, ending


def _started(agent: Agent, *, wrap_up: bool = False) -> TurnStarted:
    return TurnStarted(agent.turn, wrap_up, prompt_tokens(agent), agent.provider.window)


def _finished(agent: Agent, done: ReplyDone) -> TurnFinished:
    return TurnFinished(agent.turn, done.usage, done.stop, done.usage.context, agent.provider.window)


async def add_reply(agent: Agent, world: Services, done: ReplyDone, *also: AnyEvent) -> None:
    """Put an assistant message into the history, and with `also` into the log: what it cost is known as soon as it is."""
    usage = done.usage
    agent.sent = usage.input + usage.cache_read + usage.cache_write
    agent.context = usage.context
    agent.cold = usage.cached and agent.sent > 0 and not (usage.cache_read or usage.cache_write)
    if text := done.message.text.strip():
        agent.texts.append(text)
    events: list[AnyEvent] = list(also)
    if done.message.parts:  # no provider would take an empty one back
        agent.history.append(done.message)
        events.insert(0, MessageAdded(done.message))
    events[:0] = [event for search in done.searches for event in _searched(agent, search)]
    if events:
        await world.log.emit(agent.path, *events)


def _searched(agent: Agent, search: ServerSearch) -> tuple[ToolStarted, ToolFinished]:
    """A web search that the service ran by itself, told like a tool's run: it ended within the reply."""
    status: ResultStatus = "error" if search.error else "ok"
    facts = ToolFacts(found=tuple(dict.fromkeys(url for _, url in search.pages)))
    shown = TextDisplay(search.error) if search.error else TableDisplay(("title", "url"), search.pages)
    agent.receipt_builder.add(WEB_SEARCH, status, facts)
    return ToolStarted(search.id, WEB_SEARCH, search.query), ToolFinished(
        search.id, WEB_SEARCH, status, 0.0, shown, facts
    )


async def add_system_note(agent: Agent, world: Services, text: str) -> None:
    """Put a note of the harness into the history."""
    message = user(text, source="harness")
    agent.history.append(message)
    await world.log.emit(agent.path, MessageAdded(message))


async def drain_inbox(agent: Agent, world: Services) -> None:
    """Steering and news join the history: the only place where they do."""
    while not agent.inbox.empty():
        waiting = agent.inbox.take()
        message = user(waiting.text, source=waiting.source)
        agent.history.append(message)
        await world.log.emit(agent.path, MessageAdded(message))


def _check_limits(agent: Agent) -> None:
    agent.budget.check()
    if agent.turn >= agent.max_turns:
        raise LimitReached("iterations", agent.path)


def may_go_on(agent: Agent) -> bool:
    """Whether a message waits that this run can still answer; else it waits for the next run."""
    try:
        _check_limits(agent)
    except LimitReached:
        return False
    return agent.inbox.calls


async def close_calls(agent: Agent, world: Services) -> None:
    """Every call has one result, whatever ended the run."""
    if left := open_calls(agent.history):
        results = tuple(ToolResult(c.id, "Stopped before it was run.", "cancelled") for c in left)
        message = Message("tool", results, "harness")
        agent.history.append(message)
        await world.log.emit(agent.path, MessageAdded(message))


async def wrap_up(agent: Agent, world: Services, why: LimitName | str, *, whose: str = "") -> RunResult:
    """One last turn without tools: hand back what there is. Never raises but for an abort.

    It is paid from what the budget kept for it and has its own time limit.
    """
    await save_partial_reply(agent, world)
    await close_calls(agent, world)
    agent.budget.open_reserve()
    limited = why != "cancelled"
    await add_system_note(agent, world, f"{NOTE} {WRAP_UP[why]} No tool can run any more. Answer now with the best you have, "
              "and say plainly what is missing.")  # fmt: skip
    text, error = "", ""
    agent.turn += 1
    try:
        await world.log.emit(agent.path, _started(agent, wrap_up=True))
        async with asyncio.timeout(world.policy.wrap_up_s):
            done = await ask_model(agent, world, tools=False)
        await add_reply(agent, world, done, _finished(agent, done))
        if done.stop == "refusal":
            error = f"No wrap-up: {agent.model} refused."
        else:
            text = done.message.text.strip()
    except (ProviderError, LimitReached) as failure:
        error = f"No wrap-up: {failure}"
    except TimeoutError:
        error = f"No wrap-up within {world.policy.wrap_up_s:.0f} s."
    await close_calls(agent, world)
    result = text or agent.partial
    if why == "time":
        return RunResult("timeout", "time", result, error, whose, partial=not text)
    if not limited:
        return RunResult("cancelled", "cancelled", result, error, partial=not text)
    status = "completed" if text else "failed"
    return RunResult(status, why, result, error, whose, partial=not text)  # type: ignore[arg-type]


async def save_partial_reply(agent: Agent, world: Services) -> None:
    """Put the text of a reply that was broken off into the history, so that nothing said is lost."""
    if text := agent.streaming.strip():
        agent.streaming = ""
        await add_reply(agent, world, ReplyDone(Message("assistant", (Text(text),)), Usage(), "other"))
        agent.context = agent.sent = 0


class _LoopDetector:
    """Notices an agent that goes in circles: the same turn again and again, or the same two or three in turn."""

    def __init__(self) -> None:
        self._seen: deque[bytes] = deque(maxlen=max(CIRCLES))
        self._again = dict.fromkeys(CIRCLES, 0)
        self._unreadable = 0

    async def check(self, agent: Agent, world: Services) -> None:
        """Look at the turn just taken; warns the agent, and raises Halt when that did not help."""
        reply, results = agent.history[-2], agent.history[-1]
        self._unreadable = self._unreadable + 1 if all(c.error for c in reply.calls) else 0
        if self._unreadable >= UNREADABLE_TURNS:
            raise StopRun(
                "failed", "loop", f"{self._unreadable} turns in a row had tool arguments that cannot be read."
            )
        size, rounds = self._repeating_turns(reply, results)
        if rounds >= CIRCLES.get(size, 0) > 0:
            words = "The same calls" if size == 1 else f"The same {size} turns of calls"
            raise StopRun("failed", "loop", f"{words} with the same results {rounds} times in a row.")
        if rounds >= ROUNDS_WARN:
            words = "made the same calls" if size == 1 else f"went through the same {size} turns of calls"
            await add_system_note(agent, world, f"{NOTE} You {words} {rounds} times and got the same results. "
                      "Do something else, or answer with what you have.")  # fmt: skip

    def _repeating_turns(self, reply: Message, results: Message) -> tuple[int, int]:
        """How many turns the circle has that this turn closes, and how often it was gone round; (0, 0) for none."""
        calls = [(c.name, c.arguments) for c in reply.calls]
        turn = msgspec.json.encode((calls, [(r.text, r.status) for r in results.results]))
        for size in CIRCLES:
            same = len(self._seen) >= size and self._seen[-size] == turn
            self._again[size] = self._again[size] + 1 if same else 0
        self._seen.append(turn)
        for size, again in self._again.items():
            if again and again % size == 0:
                return size, 1 + again // size
        return 0, 0
