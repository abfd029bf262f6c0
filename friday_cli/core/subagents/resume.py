"""Resumes an ended agent: restores its state from the log, and computes the rest of its budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..agent.agent import Agent
from ..limits.budget import OUTPUT_FLOOR, LimitReached
from ..protocol.agent_path import is_under
from ..protocol.events import Prefix
from ..protocol.messages import Usage, without_thinking

if TYPE_CHECKING:
    from ..eventlog.replay import AgentRecord


def budget_left(
    records: Mapping[str, AgentRecord], path: str, *, more: int | None = None, most: int | None = None
) -> tuple[int | None, float | None]:
    """Tokens and US dollars that an agent and its descendants may still use, None without a limit. `more` is a new
    token limit from a person or the parent, instead of the rest; over all runs it gets `most` tokens at most. Raises
    LimitReached when too little is left for a request."""
    start, used = records[path].newest_start, _used(records, path)
    tokens, cost = None, None
    if start.tokens:
        tokens = start.tokens - used.billed if more is None else more
        if most is not None:
            tokens = min(tokens, most - used.billed)
        if tokens < 2 * OUTPUT_FLOOR:
            raise LimitReached("tokens", path)
    if start.cost_usd is not None:
        cost = start.cost_usd - (used.cost_usd or 0.0)
        if cost <= 0:
            raise LimitReached("cost", path)
    return tokens, cost


def _used(records: Mapping[str, AgentRecord], path: str) -> Usage:
    """The usage of an agent and its descendants over all runs."""
    total = Usage()
    for record in records.values():
        if is_under(record.path, path):
            total += record.usage
    return total


def restore(agent: Agent, records: Mapping[str, AgentRecord]) -> None:
    """Restore the history, usage, receipt and prefix of `agent`, whose budget is the rest of it. With another model the
    thinking is dropped."""
    conversation = agent.conversation
    record = records[agent.path]
    conversation.history, agent.usage, agent.run = record.history, record.usage, record.run
    agent.receipt_builder = record.receipt_builder
    for other in records.values():
        if other.path != agent.path and is_under(other.path, agent.path):
            agent.below += other.usage
    for message in record.inbox:
        agent.inbox.restore(message)
    used = agent.tree_usage
    for pool, spent in ((agent.budget.tokens, used.billed), (agent.budget.cost, used.cost_usd or 0.0)):
        if pool.limit is not None:
            pool.limit += spent
            pool.spent += spent
    if record.prefix and record.prefix.model == agent.model:
        conversation.system, conversation.specs = record.prefix.system, record.prefix.tools
    else:
        agent.start_events.append(Prefix(agent.model, conversation.system, conversation.specs))
        conversation.history = [without_thinking(m) for m in conversation.history]
