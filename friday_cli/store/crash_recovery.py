"""Ends the runs, calls and questions that a crashed process left open."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from friday_cli.core.eventlog.notices import DIED
from friday_cli.core.eventlog.replay import AgentRecord, replay
from friday_cli.core.protocol.agent_path import is_under
from friday_cli.core.protocol.events import AgentFinished, AskWithdrawn, Envelope, ToolFinished
from friday_cli.core.protocol.messages import Usage


def recovery_events(envelopes: Sequence[Envelope], *, now: float, died_at: float = 0.0) -> list[Envelope]:
    """The events that end all open agents, calls and questions of a log without a process, children before parents. The
    process was alive at the last event and at `died_at` (Unix seconds)."""
    records = replay(envelopes)
    last = max((e.seq or 0 for e in envelopes), default=0)
    until = max(died_at, *(record.seen_at for record in records.values()), 0.0)
    made: list[Envelope] = []

    def add(agent: str, event: AskWithdrawn | ToolFinished | AgentFinished) -> None:
        made.append(Envelope(last + len(made) + 1, now, agent, event))

    for record in sorted(records.values(), key=lambda r: -r.path.count(".")):
        for ask in record.asks:
            add(record.path, AskWithdrawn(ask, "its process ended"))
        for call in record.open.values():
            record.receipt_builder.add(call.tool, "cancelled", call.facts)
            add(record.path, ToolFinished(call.call_id, call.tool, "cancelled", facts=call.facts))
        if record.end is None:
            add(record.path, _interrupted(record, records, until))
    return made


def _interrupted(record: AgentRecord, records: dict[str, AgentRecord], until: float) -> AgentFinished:
    tree = sum((_usage(other) for other in records.values() if is_under(other.path, record.path)), Usage())
    return AgentFinished(
        run=record.run,
        status="interrupted",
        stop_reason="process",
        result=record.text,
        error=DIED,
        partial=True,
        usage=_usage(record),
        tree_usage=tree,
        duration_s=record.clock.read(until),
        wall_s=max(0.0, until - record.started),  # the clock may have been set back
        receipt=record.receipt,
        profile=record.profile,
    )


def _usage(record: AgentRecord) -> Usage:
    """What an agent used, with an estimate of a request whose reply the process did not live to see."""
    if record.end is not None or record.sent == Usage():
        return record.usage
    return record.usage + msgspec.structs.replace(record.sent, estimated=True)
