"""Hooks that are functions of the Python program that opened the session. They answer as hook programs do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

import msgspec

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.text.suggest import closest_match
from friday_cli.extensions.hooks.answer import Answer, failed, read_answer
from friday_cli.extensions.hooks.hook import EVENTS, Hook, HookEntry
from friday_cli.workspace.local import LocalWorkspace

from ..program import HookFunction
from .process import HookProcesses

log = logging.getLogger(__name__)


def hook_functions(functions: Mapping[str, Sequence[HookFunction]]) -> dict[Hook, HookFunction]:
    """A hook of the user for each function. One that fails counts as a denial. Raises UsageError for an unknown event."""
    found: dict[Hook, HookFunction] = {}
    for event, given in functions.items():
        if event not in EVENTS:
            near = closest_match(event, EVENTS)
            hint = f"Did you mean {near}?" if near else f"Known events: {', '.join(EVENTS)}."
            raise UsageError(f"hooks: there is no event {event!r}.", hint=hint)
        for function in given:
            entry = HookEntry(getattr(function, "__qualname__", "function"), on_failure="block")
            found[Hook(event, "", entry, "user", f"function {len(found) + 1}")] = function
    return found


class HookFunctions:
    """Runs hooks: those of `functions` here, the others as `processes`."""

    def __init__(self, functions: Mapping[Hook, HookFunction], processes: HookProcesses) -> None:
        self._functions, self._processes = functions, processes

    async def run(self, hook: Hook, given: bytes, workspace: LocalWorkspace, agent: str) -> Answer:
        """The answer of a hook to the input `given`. Raises only CancelledError."""
        function = self._functions.get(hook)
        if function is None:
            return await self._processes.run(hook, given, workspace, agent)
        try:
            async with asyncio.timeout(hook.entry.timeout):
                answer = await function(msgspec.json.decode(given))
            out = b"" if answer is None else msgspec.json.encode(answer)
        except TimeoutError:
            return failed(Answer(hook, problem=f"it did not return within {hook.entry.timeout:g} s"))
        except Exception as error:
            log.exception("hook %s failed", hook.name)
            return failed(Answer(hook, problem=f"it raised {type(error).__name__}"))
        return failed(read_answer(hook, 0, out, b""))
