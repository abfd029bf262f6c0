"""The W3C trace context of what the current task does, for those who call another program: services, servers, commands."""

from __future__ import annotations

import re
from contextvars import ContextVar

TRACEPARENT: ContextVar[str] = ContextVar("TRACEPARENT", default="")
"""The `traceparent` of the current request or tool call, "" without telemetry."""


def valid_traceparent(text: str) -> str:
    """`text` if it is a `traceparent` of version 00 with ids other than zero, else ""."""
    if not text:
        return ""
    found = re.fullmatch(r"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}", text.strip())
    return found[0] if found and int(found[1], 16) and int(found[2], 16) else ""


def trace_fields() -> dict[str, str]:
    """The current context as header fields, or as fields of `_meta`; empty without telemetry."""
    traceparent = TRACEPARENT.get()
    return {"traceparent": traceparent} if traceparent else {}
