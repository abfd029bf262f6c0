"""Runs the hooks of an event side by side, records each run, and tells the person what went wrong."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

import msgspec

from friday_cli.core.agent.agent import Agent, HookedCall
from friday_cli.core.eventlog.log import Log
from friday_cli.core.protocol.background_tasks import BackgroundTasks
from friday_cli.core.protocol.events import AnyEvent, HookRan, Notice
from friday_cli.core.text.sanitize import mask, masked_line, sanitize_line
from friday_cli.extensions.hooks.answer import Answer
from friday_cli.extensions.hooks.hook import NAME_CHARS, Hook

from ..isolation import local_workspace
from .functions import HookFunctions
from .input import HookInputs

SHOWN = 300
"""Characters of a reason or an input that a line for people shows."""


class HookRunner:
    """Runs `hooks` on the events that they are for."""

    def __init__(self, hooks: Sequence[Hook], processes: HookFunctions, inputs: HookInputs, log: Log) -> None:
        self._by_event: dict[str, list[Hook]] = defaultdict(list)
        for hook in hooks:
            self._by_event[hook.event].append(hook)
        self._processes, self.inputs, self.log = processes, inputs, log
        self._pending = BackgroundTasks()
        self._shown: set[tuple[str, str]] = set()

    def has(self, event: str) -> bool:
        """Whether there are hooks for an event."""
        return bool(self._by_event[event])

    async def finish(self) -> None:
        """Wait for the hooks that nothing waited for."""
        while self._pending:
            await asyncio.wait(self._pending)

    async def cancel(self) -> None:
        """End the hooks that nothing waits for."""
        for task in self._pending:
            task.cancel()
        await self.finish()

    async def fire(
        self,
        event: str,
        agent: Agent,
        fields: Mapping[str, Any],
        ours: Mapping[str, Any] = {},
        *,
        subjects: tuple[str, ...] = (),
        seen: HookedCall | None = None,
    ) -> list[Answer]:
        """Run the hooks of an event, of the call `seen` if it is of one, side by side. Their answers are in the order of their
        files."""
        wanted, call_id = (None, "") if seen is None else (seen.wanted, seen.call.id)
        hooks = [hook for hook in self._by_event[event] if hook.matches(subjects) and hook.applies(wanted)]
        if not hooks:
            return []
        given = msgspec.json.encode(self.inputs.build(event, agent, fields, ours))
        for hook in hooks:
            if hook.entry.run_async:
                self.start(self._run(hook, agent, given, call_id))
        awaited = [hook for hook in hooks if not hook.entry.run_async]
        return await asyncio.gather(*(self._run(hook, agent, given, call_id) for hook in awaited))

    async def _run(self, hook: Hook, agent: Agent, given: bytes, call_id: str) -> Answer:
        begun = time.perf_counter()
        answer = await self._processes.run(hook, given, local_workspace(agent.workspace), agent.path)
        ms = round((time.perf_counter() - begun) * 1000, 1)
        ran = HookRan(
            hook.event,
            masked_line(hook.name, 120),
            ms,
            _decision(answer),
            masked_line(answer.reason, SHOWN),
            problem=masked_line(answer.problem, SHOWN),
            source=hook.source,
            call_id=call_id,
        )
        events: list[AnyEvent] = [ran]
        if answer.problem:
            events += self.problem(answer, agent, hook.event, call_id)
        if answer.message:
            events.append(Notice(f"Hook {name_of(hook)}: {sanitize_line(answer.message, 2 * SHOWN)}", "warning"))
        await self.log.emit(agent.path, *events)
        return answer

    def start(self, work: Coroutine[Any, Any, object]) -> None:
        """Run `work`, which nothing waits for."""
        self._pending.start(work)

    def problem(self, answer: Answer, agent: Agent, event: str, call_id: str) -> list[AnyEvent]:
        """A line for the person about a hook whose answer does not count, once for the same problem."""
        effect = "This counts as a denial." if answer.hook.blocks else "The work continues without it."
        text = f"Hook {name_of(answer.hook)} ({event}): {mask(answer.problem)}. {effect}"
        known = (answer.hook.file + name_of(answer.hook) + event, answer.problem)
        if known in self._shown:
            return []
        self._shown.add(known)
        return [Notice(text, "warning")]


def name_of(hook: Hook) -> str:
    """A hook for people."""
    return masked_line(hook.name, NAME_CHARS)


def _decision(answer: Answer) -> Any:
    """What a hook asked for, as its event says it."""
    if answer.stop:
        return "stop"
    if answer.arguments is not None and answer.decision in ("", "allow"):
        return "rewrite"
    if answer.output is not None and not answer.decision:
        return "replace"
    return answer.decision or ("context" if answer.context else "")
