"""The requests of a log, made again from its events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from ..protocol.events import Envelope, Requested
from ..protocol.provider import Effort, Request
from .replay import AgentRecord, Reporter, status_only, step_by_step

_IN_CONVERSATION = ("turn", "wrap_up", "intent")
"""Purposes of requests that consist of a conversation and nothing else."""


def requests_of(
    envelopes: Iterable[Envelope], report: Reporter = status_only
) -> Iterator[tuple[Envelope, Request | None]]:
    """Each event of a request, with the request as the log has it; None for one that no conversation has, such as that of a summary.
    `report` as for `replay`."""
    records: dict[str, AgentRecord] = {}
    for envelope in step_by_step(envelopes, records, report):
        event = envelope.event
        if not isinstance(event, Requested):
            continue
        record = records.get(envelope.agent)
        if record is None or record.prefix is None or event.purpose not in _IN_CONVERSATION:
            yield envelope, None
            continue
        prefix = record.prefix
        yield (
            envelope,
            Request(
                envelope.agent,
                prefix.system,
                prefix.tools,
                tuple(record.history),
                max_output=event.max_output,
                tool_choice="none" if event.no_tools else "auto",
                effort=cast(Effort | None, event.effort or None),
                temperature=event.temperature,
            ),
        )
