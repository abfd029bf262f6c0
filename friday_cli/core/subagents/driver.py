"""What does the work of an agent in its runs: Friday's own loop with a model, or another program."""

from __future__ import annotations

from typing import Protocol

from ..agent.agent import Agent, Services
from ..agent.loop import add_system_note, close_calls, save_partial_reply, wrap_up
from ..agent.supervision import run_supervised
from ..protocol.run_result import RunResult


class Driver(Protocol):
    """Does the work of one agent. The run around it keeps clocks, limits, hooks, and the first and the final event."""

    async def start(self, task: str) -> RunResult:
        """Work on what the agent has read until there is a result; called again in the same run when there is more to do.
        Cancelled to interrupt it. Raises LimitReached."""

    async def send(self, text: str) -> None:
        """Give the agent a note of Friday, which it reads when it is started again."""

    async def stop(self, why: str, *, whose: str) -> RunResult:
        """Hand back what there is after `start` was interrupted. `why` is the limit, whose owner is `whose`, or `cancelled`.
        Raises only CancelledError."""

    async def close(self) -> None:
        """The run ends: nothing of it is left unfinished."""


class ModelDriver:
    """Implements `Driver` with a model in Friday's own loop."""

    def __init__(self, agent: Agent, services: Services) -> None:
        self._agent, self._services = agent, services

    async def start(self, task: str) -> RunResult:
        return await run_supervised(self._agent, self._services, task)

    async def send(self, text: str) -> None:
        await add_system_note(self._agent, self._services, text)

    async def stop(self, why: str, *, whose: str) -> RunResult:
        return await wrap_up(self._agent, self._services, why, whose=whose)

    async def close(self) -> None:
        await save_partial_reply(self._agent, self._services)
        await close_calls(self._agent, self._services)
