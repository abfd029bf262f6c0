"""Calls of tools that a Python program makes as the main agent of its session, between the prompts for its model."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from friday_cli.agents.caller import Caller, CallerProvider, model_below
from friday_cli.core.limits.budget import Budget
from friday_cli.core.protocol.errors import FridayError
from friday_cli.core.protocol.limits import BudgetOwner
from friday_cli.core.protocol.messages import Image, ToolCall
from friday_cli.core.protocol.run_result import RunResult
from friday_cli.core.protocol.tool_info import DELEGATE_TASK

from .main_agent import MainAgent
from .parts import SessionParts


class ProgramCalls:
    """Runs of the main agent whose replies are the calls of `caller`. The user of these methods sees to it that there is one run
    at a time."""

    def __init__(self, caller: Caller, main: MainAgent, parts: SessionParts) -> None:
        self._caller, self._main, self._parts = caller, main, parts

    @property
    def last_event(self) -> int:
        """The number of the newest durable event."""
        return self._parts.storage.log.last

    def let_model_answer(self, yes: bool) -> None:
        """Whether the model answers the next runs of the main agent. Otherwise these send no request, and no message starts one."""
        self._parts.tree.let_wake(yes)
        conversation = self._main.agent.conversation
        model = model_below(conversation.provider)
        conversation.send_to(model if yes else CallerProvider(self._caller, model))

    async def call(self, tool: str, arguments: dict[str, Any], title: str, *, max_cost: float | None = None) -> str:
        """Let the main agent make a call; returns its id when the run has ended. `title` begins the run in the log. All
        sub-agents that the call starts may use `max_cost` US dollars together."""
        caller, call = self._caller, ToolCall(f"call_{uuid4().hex[:12]}", tool, arguments)
        caller.calls.append(call)
        if max_cost is not None:
            caller.budget = Budget(BudgetOwner.CALL, cost=max_cost, parent=self._main.agent.budget)
        try:
            await self._main.start(title).finished()
        finally:
            caller.calls.clear()
            caller.budget = None
        return call.id

    async def delegate(
        self, profile: str, task: str, title: str, images: tuple[Image, ...] = (), **limits: Any
    ) -> RunResult:
        """Let the main agent delegate a task to a sub-agent, and wait for its end. `images` are attached to the task, `limits` are
        arguments of the call. Raises FridayError if it is not started."""
        known = {summary.path for summary in self._parts.tree.below("a")}
        given = {name: value for name, value in limits.items() if value is not None}
        self._caller.images = images
        try:
            await self.call(DELEGATE_TASK, {"profile": profile, "task": task, **given}, title)
        finally:
            self._caller.images = ()
        started = [summary.end for summary in self._parts.tree.below("a") if summary.path not in known]
        if not started or started[0] is None:
            results = [one for message in self._main.agent.conversation.history for one in message.results]
            raise FridayError(results[-1].text if results else "It was stopped before the sub-agent began.")
        return started[0]
