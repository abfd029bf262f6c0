"""The log has every request: made again from the events, it has the digest that was written when it was sent."""

from __future__ import annotations

from collections.abc import Sequence

from friday_cli.core.eventlog.recorded_requests import requests_of
from friday_cli.core.eventlog.requests import RequestDigests
from friday_cli.core.protocol.events import Envelope, Requested
from tests.fuzz.scenario import Scene


def check_requests(scene: Scene, log: Sequence[Envelope]) -> list[str]:
    """Each request of a conversation, by its digest."""
    faults, digests = [], RequestDigests()
    for envelope, request in requests_of(log):
        assert isinstance(envelope.event, Requested)
        if request is not None and digests.of(request) != envelope.event.digest:
            faults.append(f"{envelope.agent}: the request of event {envelope.seq} is not the one that was sent")
    return faults
