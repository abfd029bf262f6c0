"""Where a message begins and ends in a stream of bytes: a line each (Agent Client Protocol, MCP), or headers with its length
(Language Server Protocol, "Base Protocol"). What the other side sends is bounded, and a message that is too long is left out."""

from __future__ import annotations

import re
from typing import NamedTuple, Protocol

MOST_PARTS = 500_000
"""Objects and lists in one message: a few bytes each, they take 100 times the memory."""
HEADER_BYTES = 8 * 1024
"""Bytes of the headers of one message."""
_ENDS = 400
"""Bytes of the beginning and of the end of a message that is too long, in which its id is looked for."""
_ID = re.compile(
    rb'\A\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d+)\s*,|[,{]\s*"id"\s*:\s*(\d+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z'
)
_LENGTH = re.compile(rb"\s*content-length\s*:\s*(\d{1,15})\s*", re.I)


class FramingError(Exception):
    """It is not known where the next message begins; the text says why."""


class LongMessage(NamedTuple):
    """A message with more bytes or parts than are read: its two ends and its length in bytes."""

    head: bytes
    tail: bytes
    size: int

    @property
    def ident(self) -> int | None:
        """The id at its beginning or end, None if there is no number."""
        found = _ID.search(self.head) or _ID.search(self.tail)
        return int(found[1] or found[2]) if found is not None else None


class Framing(Protocol):
    """One direction each: what is sent, and what was received."""

    def frame(self, message: bytes) -> bytes:
        """The bytes to send for a message, which is JSON without line breaks."""

    def feed(self, data: bytes) -> list[bytes | LongMessage]:
        """The messages that end in `data`, which follows what was fed before. Raises FramingError."""


def parts(data: bytes) -> int:
    """The objects and lists that may be in JSON text."""
    return data.count(b"{") + data.count(b"[")


class _Collector:
    """Collects the pieces of one message; of one that is longer than `longest` only its ends are kept."""

    def __init__(self, longest: int, most_parts: int) -> None:
        self._longest, self._most_parts = longest, most_parts
        self._pieces: list[bytes] = []
        self._size = 0
        self._head = b""

    def add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > self._longest:
            whole = b"".join(self._pieces)
            self._head = self._head or whole[:_ENDS]
            self._pieces = [whole[-_ENDS:]]

    def take(self) -> bytes | LongMessage:
        message, size, head = b"".join(self._pieces), self._size, self._head
        self._pieces, self._size, self._head = [], 0, b""
        if size > self._longest or parts(message) > self._most_parts:
            return LongMessage(head or message[:_ENDS], message[-_ENDS:], size)
        return message


class Lines:
    """One message a line. `longest`: bytes of a message that are read."""

    def __init__(self, longest: int, most_parts: int = MOST_PARTS) -> None:
        self._line = _Collector(longest, most_parts)

    def frame(self, message: bytes) -> bytes:
        return message + b"\n"

    def feed(self, data: bytes) -> list[bytes | LongMessage]:
        *ended, rest = data.split(b"\n")
        lines = []
        for piece in ended:
            self._line.add(piece)
            lines.append(self._line.take())
        self._line.add(rest)
        return lines


class ContentLength:
    """Headers that end in an empty line, then the message, as long as `Content-Length` says."""

    def __init__(self, longest: int, most_parts: int = MOST_PARTS) -> None:
        self._body = _Collector(longest, most_parts)
        self._headers = b""
        self._missing: int | None = None
        """Bytes of the message that have not come; None while its headers are read."""

    def frame(self, message: bytes) -> bytes:
        return b"Content-Length: %d\r\n\r\n%b" % (len(message), message)

    def feed(self, data: bytes) -> list[bytes | LongMessage]:
        messages = []
        while data or self._missing == 0:
            if self._missing is None:
                data = self._read_headers(data)
            else:
                piece, data = data[: self._missing], data[self._missing :]
                self._body.add(piece)
                self._missing -= len(piece)
                if not self._missing:
                    messages.append(self._body.take())
                    self._missing = None
        return messages

    def _read_headers(self, data: bytes) -> bytes:
        """Returns what follows them, nothing while they have no end."""
        read = self._headers + data[: HEADER_BYTES + 4]
        headers, end, _ = read.partition(b"\r\n\r\n")
        if len(headers) > HEADER_BYTES:
            raise FramingError(f"The headers of a message are longer than {HEADER_BYTES:,} bytes.")
        if not end:
            self._headers = read
            return b""
        lengths = [found for line in headers.split(b"\r\n") if (found := _LENGTH.fullmatch(line))]
        if len(lengths) != 1:
            raise FramingError(
                "A message does not begin with headers, one of them Content-Length with a number of bytes."
            )
        rest = data[len(headers) + len(end) - len(self._headers) :]
        self._headers, self._missing = b"", int(lengths[0][1])
        return rest
