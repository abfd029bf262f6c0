"""Resumes a session from its log: what is known of its agents, and the state of the main agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING

from friday_cli.core.agent.agent import Agent
from friday_cli.core.eventlog.log import Log
from friday_cli.core.eventlog.notices import NOTE
from friday_cli.core.permissions.rule import parse_rule
from friday_cli.core.permissions.rules import Rules
from friday_cli.core.protocol.events import Envelope, InboxMessage, Prefix
from friday_cli.core.protocol.messages import without_thinking
from friday_cli.core.protocol.tool_info import DELEGATE_TASK, EXTERNAL_PREFIXES
from friday_cli.store.store import Store
from friday_cli.tools.delegate.report import report_from_log

if TYPE_CHECKING:
    from friday_cli.core.eventlog.replay import AgentRecord

TASK_CHARS = 200
"""Characters of a task that are shown to the model."""


class EventHistory:
    """The events of a session that is resumed, each read once; none for a new session. `given`: those of a session that is replayed."""

    def __init__(self, store: Store, session: str | None, given: Sequence[Envelope] = ()) -> None:
        self._store, self._session = store, None if given else session
        self.envelopes: list[Envelope] = list(given)
        self.records: dict[str, AgentRecord] = {}
        if given:
            from friday_cli.core.eventlog.replay import replay  # a new session has no log

            self.records = replay(self.envelopes, report_from_log)

    @property
    def last(self) -> int:
        """The number of the newest event, 0 if there is none."""
        return self.envelopes[-1].seq or 0 if self.envelopes else 0

    async def read(self) -> None:
        """Read new events into `envelopes` and `records` (by agent path). Raises StoreError, UsageError."""
        if self._session and (more := await self._store.events(self._session, after=self.last)):
            from friday_cli.core.eventlog.replay import replay  # a new session has no log

            self.envelopes += more
            self.records = replay(self.envelopes, report_from_log)


async def resume_root(
    root: Agent, rules: Rules, records: Mapping[str, AgentRecord], *, log: Log, notes: list[str]
) -> None:
    """Give the main agent what the log has of it, and `rules` the rules granted then. The system prompt and the tools stay as
    they were, unless the model is another one. `notes` gets what its model must know."""
    conversation = root.conversation
    record = records["a"]
    conversation.history, root.usage, root.run = record.history, record.usage, record.run
    root.receipt_builder = record.receipt_builder
    conversation.context = record.context
    for path, other in records.items():
        if path != "a":
            root.below += other.usage
    for message in record.inbox:
        root.inbox.restore(message)
    for other in records.values():
        if other.path != "a":
            for message in other.unreported + _unread_reports(other):
                await root.inbox.put(message)
    root.budget.charge(root.tree_usage.billed, root.tree_usage.cost_usd)
    rules.rules += [parse_rule(added.rule, added.decision) for added in record.rules]
    if record.prefix and record.prefix.model == root.model:
        conversation.system, conversation.specs = record.prefix.system, record.prefix.tools
        names = {spec.name for spec in conversation.specs}
        conversation.tools = {
            n: t for n, t in conversation.tools.items() if n in names or n.startswith(EXTERNAL_PREFIXES)
        }
        today = date.fromtimestamp(log.now()).isoformat()
        notes.append(f"{NOTE} The session was resumed. Today is {today}; mode: {rules.effective_mode}.")
    else:
        conversation.history = [without_thinking(m) for m in conversation.history]
        conversation.context = 0
        await log.emit("a", Prefix(root.model, conversation.system, conversation.specs))
    if lost := [r for r in records.values() if r.path != "a" and _is_lost(r, after=record.begun)]:
        listed = "\n".join(f"- {r.path} ({r.profile}): {' '.join(r.task.split())[:TASK_CHARS]}" for r in lost)
        notes.append(
            f"{NOTE} The process died while these sub-agents were running. Their work so far is kept. If you still need one, "
            f"continue it with {DELEGATE_TASK} and resume:\n{listed}"
        )


def _unread_reports(record: AgentRecord) -> list[InboxMessage]:
    """Reports in the inbox of an ended agent whose process died before they were passed on to its parent."""
    ended = record.end is not None and record.end.stop_reason not in ("parent", "process")
    return [message for message in record.inbox if ended and message.source == "harness"]


def _is_lost(record: AgentRecord, *, after: int) -> bool:
    """Whether an agent died with its process, and the main agent got no message since."""
    return record.end is not None and record.end.stop_reason == "process" and record.seq > after
