"""Resumes an ended agent: what it begins with again by the log, and the rest of its budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from ..agent.agent import Conversation
from ..limits.budget import OUTPUT_FLOOR, Budget, LimitReached
from ..protocol.agent_path import is_under
from ..protocol.events import InboxMessage, Prefix
from ..protocol.messages import Usage, without_thinking
from ..protocol.receipt_builder import ReceiptBuilder

if TYPE_CHECKING:
    from ..eventlog.replay import AgentRecord


class EarlierRuns(msgspec.Struct, frozen=True):
    """What an agent did before it was made; nothing if it is a new one."""

    run: int = 0
    usage: Usage = Usage()
    below: Usage = Usage()
    """The usage of its descendants."""
    receipt_builder: ReceiptBuilder = msgspec.field(default_factory=ReceiptBuilder)
    unread: tuple[InboxMessage, ...] = ()
    """The messages that it never read."""


def earlier_runs(records: Mapping[str, AgentRecord], path: str) -> EarlierRuns:
    """The earlier runs of an agent, rebuilt from the log."""
    record = records[path]
    below = Usage()
    for other in records.values():
        if other.path != path and is_under(other.path, path):
            below += other.usage
    return EarlierRuns(record.run, record.usage, below, record.receipt_builder, tuple(record.inbox))


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
    earlier = earlier_runs(records, path)
    return earlier.usage + earlier.below


def with_earlier(budget: Budget, earlier: EarlierRuns) -> Budget:
    """The budget of a resumed agent, made with what is left, with all that it had and has spent."""
    used = earlier.usage + earlier.below
    for pool, spent in ((budget.tokens, used.billed), (budget.cost, used.cost_usd or 0.0)):
        if pool.limit is not None:
            pool.limit += spent
            pool.spent += spent
    return budget


def resumed(conversation: Conversation, record: AgentRecord) -> Conversation:
    """A new conversation continued where the log ends: with its history and its prefix, or with another model with a new
    prefix and without the thinking."""
    history, prefix = record.history, record.prefix
    if prefix is None or is_new_prefix(conversation, record):
        return msgspec.structs.replace(conversation, history=[without_thinking(m) for m in history])
    return msgspec.structs.replace(conversation, history=history, system=prefix.system, specs=prefix.tools)


def is_new_prefix(conversation: Conversation, record: AgentRecord) -> bool:
    """Whether a resumed conversation begins a prefix, because its model is not the one of before."""
    return record.prefix is None or record.prefix.model != conversation.model


def prefix_of(conversation: Conversation) -> Prefix:
    """The event of the prefix of a conversation."""
    return Prefix(conversation.model, conversation.system, conversation.specs)
