"""Events from their JSON. Apart from the events: knowing all kinds takes a moment, which a new session need not wait for."""

from __future__ import annotations

import msgspec

from .events import AnyEvent, Envelope

decode_event = msgspec.json.Decoder(AnyEvent).decode
"""An event from JSON. Raises msgspec.DecodeError."""
decode_envelope = msgspec.json.Decoder(Envelope).decode
"""An event with its place from JSON, such as a line of `stream-json`. Raises msgspec.DecodeError."""
