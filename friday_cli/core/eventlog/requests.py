"""The requests of a log, made again from its events, and their digests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any, cast

import msgspec

from ..protocol.events import Envelope, Requested
from ..protocol.messages import Message
from ..protocol.provider import Effort, Request
from ..text.known_keys import mask_keys_in
from .replay import AgentRecord, Reporter, status_only, step_by_step


def encoded(value: Any) -> bytes:
    """The JSON of a struct, also of one with text that UTF-8 cannot encode."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value)).encode()


class RequestDigests:
    """The digests of the requests of one conversation, whose messages mostly stay: each is read once. Keys are masked as in the
    log, so that a request that is made from the log has the same digest."""

    def __init__(self) -> None:
        self._known: list[tuple[Message, bytes]] = []
        """Messages of the last request, each with the digest of all up to it."""
        self._start = b""

    def of(self, request: Request) -> str:
        """The sha256 of its system text, tools and messages, as hexadecimal digits."""
        start = hashlib.sha256(encoded((mask_keys_in(request.system), request.tools))).digest()
        if start != self._start:
            self._start, self._known = start, []
        same = 0
        for known, message in zip(self._known, request.messages, strict=False):
            if known[0] is not message:
                break
            same += 1
        del self._known[same:]
        digest = self._known[-1][1] if self._known else start
        for message in request.messages[same:]:
            digest = hashlib.sha256(digest + encoded(mask_keys_in(message))).digest()
            self._known.append((message, digest))
        return digest.hex()


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
