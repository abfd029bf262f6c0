"""What a report is made of."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from friday_cli.core.protocol.events import Envelope


class RecordedSession(msgspec.Struct, frozen=True):
    """A session and its durable events, in order."""

    id: str
    envelopes: Sequence[Envelope]
    version: str
    """Friday's version, which writes the report."""
    title: str = ""
