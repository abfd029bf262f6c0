"""Server-sent events from bytes, as the WHATWG describes them, forgiving where services stray from it."""

from __future__ import annotations

from typing import NamedTuple

EVENT_LIMIT = 64 * 1024 * 1024
"""Bytes one event may have; a stream that goes on without an end of line is no reply."""


class EventTooLong(ValueError):
    """An event is longer than `EVENT_LIMIT`."""


class ServerEvent(NamedTuple):
    """One event: its name ("" when unnamed) and its data lines, joined."""

    name: str
    data: str


class SSEParser:
    """Takes bytes as they come, split anywhere; each byte is looked at once.

    Lines end with LF, CRLF or CR and nothing else (U+2028 is text). Bytes that are no UTF-8 become U+FFFD.
    """

    def __init__(self) -> None:
        self._line = bytearray()
        self._name = b""
        self._data: list[bytes] = []
        self._size = 0
        self._after_cr = False
        self._first = True

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """The events that `chunk` completes."""
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        first, *rest = chunk.split(b"\n")
        self._line += first
        self._size += len(chunk)
        if self._size > EVENT_LIMIT:
            raise EventTooLong(f"an event of more than {EVENT_LIMIT} bytes")
        if not rest:
            return []
        last = rest.pop()
        done: list[ServerEvent] = []
        for line in (bytes(self._line), *rest):
            self._take(line, done)
        self._line = bytearray(last)
        return done

    def close(self) -> list[ServerEvent]:
        """What was waiting for its empty line when the stream ended."""
        done: list[ServerEvent] = []
        self._take(bytes(self._line), done)
        self._take(b"", done)
        self._line = bytearray()
        return done

    def _take(self, line: bytes, done: list[ServerEvent]) -> None:
        if self._first:
            self._first = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            if self._data:
                data = b"\n".join(self._data).decode("utf-8", "replace")
                done.append(ServerEvent(self._name.decode("utf-8", "replace"), data))
            self._name, self._data, self._size = b"", [], 0
            return
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value
