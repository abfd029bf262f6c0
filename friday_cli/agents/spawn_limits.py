"""Limits how many sub-agents one turn of the user may start, and at what estimated cost, before a person is asked."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from friday_cli.config.settings import DelegationSettings
from friday_cli.core.agent.agent import Agent, Services
from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.permissions.rule import RuleInput
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.format import pluralize
from friday_cli.core.protocol.tool_info import DELEGATE_TASK
from friday_cli.core.subagents.node import SpawnEstimate, SubagentTask
from friday_cli.core.subagents.tree import SubagentTree


class _Delegation(NamedTuple):
    """A call of an agent that is about to start sub-agents."""

    agent: Agent
    call_id: str
    specs: Sequence[SubagentTask]
    again: bool


class SpawnLimiter:
    """Counts the agents that were started in this turn of the user and those about to start; refused ones do not count.
    An approval holds up to the next multiple of the number or the cost in the settings. `price(estimate)` is the most
    that an agent may cost, in US dollars; None if unknown."""

    def __init__(
        self, services: Services, limits: DelegationSettings, price: Callable[[SpawnEstimate], float | None]
    ) -> None:
        self._services = services
        self._limits = limits
        self._price = price
        self._turn: list[SpawnEstimate] = []
        self._coming: list[SpawnEstimate] = []
        self._asking: asyncio.Future[ApprovalAnswer | None] | None = None
        self._number = limits.ask_above
        self._dollars = limits.ask_above_cost
        self._unpriced = False

    @asynccontextmanager
    async def allow(
        self, tree: SubagentTree, path: str, call_id: str, specs: Sequence[SubagentTask], *, again: bool = False
    ) -> AsyncIterator[None]:
        """Inside, the agent `path` may start `specs`. `again`: they are resumed, so they count for the cost but not for the number
        of agents. Raises ToolError if a person refuses, or no person can be asked."""
        provider = tree.node(path).agent.conversation.provider
        wanted = [SpawnEstimate(provider, spec.profile, spec.limits.tokens) for spec in specs]
        self._coming += wanted
        try:
            asking = _Delegation(tree.node(path).agent, call_id, specs, again)
            await self._approve_by_rules(asking)
            await self._approve(asking, tree)
            yield
        finally:
            for one in wanted:
                self._coming.remove(one)

    async def _approve(self, asking: _Delegation, tree: SubagentTree) -> None:
        while True:
            if self._turn is not tree.started_now:  # another turn of the user
                self._turn, self._unpriced = tree.started_now, False
                self._number, self._dollars = self._limits.ask_above, self._limits.ask_above_cost
            count, price = self._sums()
            if not (exceeded := self._exceeded(count, price, again=asking.again)):
                return
            cost = "at an unknown price" if price is None else f"at most about ${price:.2f}"
            words = f"{pluralize(len(asking.specs), 'more agent')}, {count} in this turn; {cost}"
            if not self._services.approvals.interactive:
                raise ToolError(f"Not started: {words}. That is {exceeded}, and no person can be asked here.")
            async with asking.agent.slot.waiting("waiting_user"):
                answer = await self._answer(asking, words, exceeded)
            if answer is None:
                continue  # the agent that had asked was stopped
            if answer.decision == "deny":
                raise ToolError(f"The user declined {words}. {answer.reason}".strip())
            self._raise(count, price)

    async def _approve_by_rules(self, asking: _Delegation) -> None:
        """Apply the rules about what a delegation usually costs."""
        agent, specs = asking.agent, asking.specs
        usual = [spec.forecast.cost_usd for spec in specs if spec.forecast and spec.forecast.cost_usd]
        dollars = sum(each.p90 for each in usual) if len(usual) == len(specs) else None
        found = agent.rules.decide_cost(dollars)
        if found.decision == "allow":
            return
        cost = "of unknown cost" if dollars is None else f"usually up to ${dollars:.2f}"
        words = f"{pluralize(len(specs), 'agent')}, {cost}"
        if found.decision == "deny" or not self._services.approvals.interactive:
            asked = "" if found.decision == "deny" else ", and no person can be asked here"
            raise ToolError(f"Not started: {words}: {found.reason}{asked}.")
        async with agent.slot.waiting("waiting_user"):
            answer = await self._permission(asking, words, found.reason)
        if answer.decision == "deny":
            raise ToolError(f"The user declined {words}. {answer.reason}".strip())

    async def _permission(self, asking: _Delegation, words: str, reason: str) -> ApprovalAnswer:
        call, reasons = RuleInput(DELEGATE_TASK, "spawn", (words,)), (reason, *_usual(asking.specs))
        return await self._services.approvals.permission(
            asking.agent.path, asking.call_id, call, reason="; ".join(reasons)
        )

    async def _answer(self, asking: _Delegation, words: str, exceeded: str) -> ApprovalAnswer | None:
        """The answer of the person to this question, or to the one that is open already; None if that was withdrawn."""
        if self._asking is not None:
            others = self._asking
            await asyncio.wait([others])
            return others.result()
        mine = self._asking = asyncio.get_running_loop().create_future()
        answer = None
        try:
            answer = await self._permission(asking, words, exceeded)
        finally:
            self._asking = None
            mine.set_result(answer)
        return answer

    def _sums(self) -> tuple[int, float | None]:
        """The number of agents including those about to start, and what they may cost; None if a price is unknown."""
        all_of_them = [*self._turn, *self._coming]
        prices = {one: self._price(one) for one in dict.fromkeys(all_of_them)}
        known = [price for one in all_of_them if (price := prices[one]) is not None]
        return len(all_of_them), sum(known) if len(known) == len(all_of_them) else None

    def _exceeded(self, count: int, price: float | None, *, again: bool) -> str:
        """The limit that is exceeded, "" if none is."""
        if self._dollars is not None and (not self._unpriced if price is None else price > self._dollars):
            return f"{'possibly ' if price is None else ''}more than ${self._dollars:.2f}"
        return f"more than {self._number} agents in one turn" if count > self._number and not again else ""

    def _raise(self, count: int, price: float | None) -> None:
        """Raise the limits to the next multiple after an approval."""
        step = self._limits.ask_above
        self._number = max(self._number, math.ceil(count / step) * step if step else count)
        if price is None:
            self._unpriced = True
        elif self._dollars is not None:
            each = self._limits.ask_above_cost
            self._dollars = max(self._dollars, price, math.ceil(price / each) * each if each else price)


def _usual(specs: Sequence[SubagentTask]) -> list[str]:
    """For each profile and model the forecast of its largest task."""
    known = sorted((spec for spec in specs if spec.forecast), key=lambda spec: len(spec.task))
    lines = {(spec.profile, spec.forecast.model): spec.forecast.line() for spec in known if spec.forecast}
    shown = list(lines.values())
    return [*shown[:4], f"and {len(shown) - 4} more profiles"] if len(shown) > 4 else shown
