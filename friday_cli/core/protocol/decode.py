"""Decoders of events. A separate module, because building them takes time that a new session does not need to spend."""

from __future__ import annotations

import msgspec

from .events import AnyEvent, Envelope

decode_event = msgspec.json.Decoder(AnyEvent).decode
"""An event from JSON. Raises msgspec.DecodeError."""
decode_envelope = msgspec.json.Decoder(Envelope).decode
"""An envelope from JSON, such as a line of `stream-json`. Raises msgspec.DecodeError."""
