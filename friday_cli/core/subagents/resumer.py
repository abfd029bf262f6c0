"""Resumes ended sub-agents: starts a new run of an agent that is restored from the log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from ..agent.agent import Agent, Services
from ..agent.next_request import request_with
from ..eventlog import notices
from ..limits.budget import OUTPUT_FLOOR, LimitReached
from ..limits.input_counts import InputCounts
from ..protocol.agent_path import depth_of, is_under, parent_of
from ..protocol.errors import BudgetSpent, ToolError
from ..protocol.messages import Message, Usage, user
from ..protocol.provider import estimate_request
from .node import AgentRun, AgentSummary, SubagentTask, require_text
from .notifier import ParentNotifier

HARD_CAP = "It cannot get more: maxTokenBudget of its profile or agents.delegation.token_budget.max is the limit."


class ResumerHost(Protocol):
    """The part of the tree of agents that resuming needs."""

    root: Agent
    services: Services

    def known(self, path: str) -> AgentSummary | None: ...

    def running(self, path: str) -> list[AgentRun]: ...

    def living_parent(self, parent: str) -> AgentRun: ...

    def run(self, agent: Agent, spec: SubagentTask, message: Message) -> AgentRun: ...


class AgentResumer:
    """Resumes the ended sub-agents of a tree. While `lock` is held, none is resumed: two at once would not see each other's
    budgets, and the worktree of a resumed agent must not be removed meanwhile.

    `restore(parent, path, spec)` builds an ended agent as the log has it; `not_resumed(path)` is awaited when the agent
    was not resumed after all.
    """

    def __init__(
        self,
        tree: ResumerHost,
        notifier: ParentNotifier,
        *,
        restore: Callable[[Agent, str, SubagentTask], Awaitable[Agent]],
        not_resumed: Callable[[str], Awaitable[None]],
    ) -> None:
        self.lock = asyncio.Lock()
        self._tree = tree
        self._notifier = notifier
        self._restore = restore
        self._not_resumed = not_resumed

    async def resume(self, path: str, spec: SubagentTask, *, by: str | None) -> AgentRun:
        """Resume an ended sub-agent with its history, rights and the rest of its budget; `spec.task` is the next message.
        `by` is the path of the agent that resumes it, None for a person. Raises ToolError when that is not possible."""
        require_text(spec.task)
        known = self._tree.known(path)
        if known is None or depth_of(path) == 0 or (by is not None and (not is_under(path, by) or path == by)):
            raise ToolError(f"There is no sub-agent {path!r} to resume.")
        async with self.lock:
            try:
                return await self._resume(path, spec, by)
            except ToolError:
                await self._not_resumed(path)
                raise

    async def _resume(self, path: str, spec: SubagentTask, by: str | None) -> AgentRun:
        self._check(path, by)
        try:
            agent = await self._restore(await self._agent(parent_of(path)), path, spec)
        except LimitReached as limit:
            text = f"{path} was not continued: the {limit.limit} budget of {limit.whose} is used up."
            if (limit.limit, limit.whose) != ("tokens", path):
                raise ToolError(text) from None
            if spec.limits.tokens is not None and spec.limits.tokens >= 2 * OUTPUT_FLOOR:
                raise ToolError(text, hint=HARD_CAP) from None
            raise BudgetSpent(text, hint=_give_more(by)) from None
        message = user(spec.task, source="parent" if by else "person")
        _require_budget(agent, self._tree.services.input_counts, message, spec.limits.tokens, by)
        self._check(path, by)  # an agent may have been stopped while the log was read
        node = self._tree.run(agent, spec, message)
        node.waiter = by or ""
        if by is None:
            await self._notifier.notify_parent(path, notices.continued(path, agent.profile, spec.task))
        return node

    def _check(self, path: str, by: str | None) -> None:
        """Raises ToolError when an ancestor of the agent is being stopped, or it or a descendant is running."""
        if by is not None:
            self._tree.living_parent(by)
        for node in self._tree.running(self._tree.root.path):
            if is_under(path, node.path) and path != node.path and node.leaving:
                raise ToolError(f"{node.path}, above {path}, is just ending.", hint="Try again when it has ended.")
        living = [node.path for node in self._tree.running(path)]
        if path in living:
            raise ToolError(f"{path} is still at work: send it a message instead.")
        if living:
            raise ToolError(
                f"{path} has ended, but sub-agents of it are still at work: {', '.join(living)}.",
                hint="Wait until they have ended, or stop them.",
            )

    async def _agent(self, path: str) -> Agent:
        """An agent. An ended one is restored from the log, without a run."""
        tree = self._tree
        if path == tree.root.path:
            return tree.root
        for node in tree.running(path):  # it, or a descendant that was resumed with a restored parent
            agent: Agent | None = node.agent
            while agent is not None:
                if agent.path == path:
                    return agent
                agent = agent.parent
        known = tree.known(path)
        assert known
        parent = await self._agent(parent_of(path))
        return await self._restore(parent, path, SubagentTask(known.profile, known.task))


def _give_more(by: str | None) -> str:
    return "Give it max_tokens from what you have left." if by else "Give it more tokens (--max-tokens)."


def _require_budget(agent: Agent, counts: InputCounts, message: Message, asked: int | None, by: str | None) -> None:
    """Raises BudgetSpent when the token limit of a restored agent cannot pay for its conversation with `message`, ToolError
    when another limit cannot: more tokens do not help then. `asked` is the tokens that it was to get."""
    budget, provider = agent.budget, agent.conversation.provider
    usable = budget.usable()
    room = usable.tokens - OUTPUT_FLOOR
    guess = Usage(input=estimate_request(request_with(agent, [*agent.conversation.history, message])))
    sent = counts.most(provider.rate_limit_key, provider.model, guess, provider.cost)
    needed = sent.billed
    text = f"{agent.path} was not continued: its conversation may count as {needed:,} tokens, and "
    if needed > room:
        above = budget.parent.left("tokens") - OUTPUT_FLOOR if budget.parent else float("inf")
        if above < needed:
            whose = budget.parent.tightest("tokens").path if budget.parent else ""
            raise ToolError(f"{text}the token budget of {whose} has room for {max(0, above):,.0f}.")
        text += f"its budget has room for {max(0, room):,.0f}."
        if asked is not None and budget.tokens.left < asked:
            raise ToolError(text, hint=HARD_CAP)
        raise BudgetSpent(text, hint=_give_more(by), needed=needed)
    price = provider.cost(msgspec.structs.replace(sent, output=OUTPUT_FLOOR)) or 0.0
    if price > usable.cost:
        room_for = f"the cost limit of {budget.tightest('cost').path} has room for ${max(0.0, usable.cost):.4f}"
        raise ToolError(f"{text}a request of that costs ${price:.4f}; {room_for}.")
