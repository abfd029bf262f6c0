"""Parses server-sent events (WHATWG HTML Standard, "Server-sent events"); tolerates deviations of services."""

from __future__ import annotations

from typing import NamedTuple

EVENT_LIMIT = 64 * 1024 * 1024
"""Maximum size of one event in bytes; it bounds the memory that an unterminated line can take."""


class EventTooLong(ValueError):
    """An event is longer than `EVENT_LIMIT`."""


class ServerEvent(NamedTuple):
    """One event: its name ("" if it has none) and its data lines, joined."""

    name: str
    data: str


class SSEParser:
    """An incremental parser: chunks may be split at any byte, and each byte is read once.

    Lines end with LF, CRLF or CR only (U+2028 is text). Invalid UTF-8 becomes U+FFFD.
    """

    def __init__(self) -> None:
        self._line = bytearray()
        self._name = b""
        self._data: list[bytes] = []
        self._size = 0
        self._after_cr = False
        self._first = True

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """The events that `chunk` completes. Raises EventTooLong."""
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
            self._process_line(line, done)
        self._line = bytearray(last)
        return done

    def close(self) -> list[ServerEvent]:
        """The event that was incomplete when the stream ended, if any."""
        done: list[ServerEvent] = []
        self._process_line(bytes(self._line), done)
        self._process_line(b"", done)
        self._line = bytearray()
        return done

    def _process_line(self, line: bytes, done: list[ServerEvent]) -> None:
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
