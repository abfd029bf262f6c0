"""Continuing an ended agent: what the log knows of it is put into an agent made anew."""

from __future__ import annotations

from collections.abc import Mapping

from .agent import Agent
from .budget import OUTPUT_FLOOR, LimitReached
from .events import is_under
from .model import without_thinking
from .replay import AgentRecord


def tokens_left(record: AgentRecord, *, more: int | None = None) -> int | None:
    """Tokens an agent may still use, None without a limit. `more` is what a person or its parent gives it anew.

    Raises LimitReached where too little is left to make a request.
    """
    granted = record.granted.tokens
    if not granted:
        return None
    left = max(granted - record.usage.billed, more or 0)
    if left < 2 * OUTPUT_FLOOR:
        raise LimitReached("tokens", record.path)
    return left


def restore(agent: Agent, records: Mapping[str, AgentRecord]) -> None:
    """Give `agent`, whose budget is what it has left, its history, usage, receipt and prefix; another model cannot read
    the old thinking, so that is dropped."""
    record = records[agent.path]
    agent.history, agent.usage, agent.run = record.history, record.usage, record.run
    agent.tally.reset(record.receipt)
    for other in records.values():
        if other.path != agent.path and is_under(other.path, agent.path):
            agent.below += other.usage
    for message in record.inbox:
        agent.inbox.restore(message.text, message.source)
    pool = agent.budget.tokens
    if pool.limit is not None:
        pool.limit += agent.usage.billed
        pool.spent += agent.usage.billed
    if record.prefix and record.prefix.model == agent.model:
        agent.system, agent.specs = record.prefix.system, record.prefix.tools
    else:
        agent.history = [without_thinking(m) for m in agent.history]
