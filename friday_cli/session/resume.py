"""Resumes a session from its log: what is known of its agents, and what the main agent must be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING

from friday_cli.core.agent.agent import Agent
from friday_cli.core.eventlog.log import Log
from friday_cli.core.eventlog.notices import NOTE
from friday_cli.core.permissions.decision import Mode
from friday_cli.core.protocol.events import Envelope, InboxMessage
from friday_cli.core.protocol.tool_info import DELEGATE_TASK
from friday_cli.core.subagents.resume import is_new_prefix, prefix_of
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


async def log_resumed(root: Agent, mode: Mode, records: Mapping[str, AgentRecord], log: Log) -> list[str]:
    """Log what is new for the main agent of a resumed session: the results that it was never told, and another model. Returns
    what its model must know; `mode` is the one in which it goes on."""
    record, notes = records["a"], list[str]()
    for other in records.values():
        if other.path != "a":
            for message in other.unreported + _unread_reports(other):
                await root.inbox.put(message)
    if is_new_prefix(root.conversation, record):
        await log.emit("a", prefix_of(root.conversation))
    else:
        today = date.fromtimestamp(log.now()).isoformat()
        notes.append(f"{NOTE} The session was resumed. Today is {today}; mode: {mode}.")
    if lost := [r for r in records.values() if r.path != "a" and _is_lost(r, after=record.begun)]:
        listed = "\n".join(f"- {r.path} ({r.profile}): {' '.join(r.task.split())[:TASK_CHARS]}" for r in lost)
        notes.append(
            f"{NOTE} The process died while these sub-agents were running. Their work so far is kept. If you still need one, "
            f"continue it with {DELEGATE_TASK} and resume:\n{listed}"
        )
    return notes


def _unread_reports(record: AgentRecord) -> list[InboxMessage]:
    """Reports in the inbox of an ended agent whose process died before they were passed on to its parent."""
    ended = record.end is not None and record.end.stop_reason not in ("parent", "process")
    return [message for message in record.inbox if ended and message.source == "harness"]


def _is_lost(record: AgentRecord, *, after: int) -> bool:
    """Whether an agent died with its process, and the main agent got no message since."""
    return record.end is not None and record.end.stop_reason == "process" and record.seq > after
