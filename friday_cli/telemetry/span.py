"""A span as the fold makes it, and its ids, which are the same whenever the same log is folded."""

from __future__ import annotations

import hashlib
from typing import Any, Literal, NamedTuple

import msgspec


class SpanContext(NamedTuple):
    """The ids of a span (128 and 64 bits). A trace that is not `sampled` is not sent."""

    trace: int
    span: int
    sampled: bool = True

    @property
    def traceparent(self) -> str:
        """The W3C header."""
        return f"00-{self.trace:032x}-{self.span:016x}-{self.sampled:02x}"


def hashed(bits: int, *key: object) -> int:
    """An id other than zero from `key`."""
    digest = hashlib.sha256("\0".join(map(str, key)).encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[: bits // 8], "big") or 1


def remote(traceparent: str) -> SpanContext:
    """The ids in a valid `traceparent`."""
    _, trace, span, flags = traceparent.split("-")
    return SpanContext(int(trace, 16), int(span, 16), bool(int(flags, 16) & 1))


class SpanEvent(NamedTuple):
    """Something at one time (Unix seconds) within a span."""

    name: str
    at: float
    attributes: dict[str, Any]


class Span(msgspec.Struct, eq=False):
    """One operation, from `start` to `end` (Unix seconds). `error` is its `error.type`, "" if it succeeded."""

    name: str
    context: SpanContext
    parent: SpanContext | None
    kind: Literal["internal", "client"]
    start: float
    attributes: dict[str, Any]
    end: float = 0.0
    events: list[SpanEvent] = []
    error: str = ""
