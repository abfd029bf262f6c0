"""The stdio transport: one JSON object a line. What a server writes besides messages, and messages that are too long, do not
end the connection."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from friday_cli.core.text.sanitize import sanitize_line

from .connection import ServerStream

LONGEST = 16 * 1024 * 1024
"""Bytes of one message; a longer one is an error."""
MOST_PARTS = 500_000
"""Objects and lists in one message: a few bytes each, they take 100 times the memory."""
TOO_LONG = f"its answer is longer than {LONGEST // 1024 // 1024} MB or has more than {MOST_PARTS:,} parts"
MAX_STRAY_BYTES = 64 * 1024 * 1024
"""Bytes that a server may write besides messages before the connection is closed."""
_ENDS = 400
"""Bytes of the beginning and of the end of a message that is too long, in which its id is looked for."""
_ID = re.compile(
    rb'\A\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d+)\s*,|[,{]\s*"id"\s*:\s*(\d+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z'
)


class StreamEnd(Exception):
    """No further message of the server can be read; the text says why."""


class LongLine(NamedTuple):
    """A line that is longer than `LONGEST` or has more than `MOST_PARTS`: its two ends and its length in bytes."""

    head: bytes
    tail: bytes
    size: int


class Lines:
    """Splits bytes into lines of bounded length."""

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest = longest
        self._parts: list[bytes] = []
        self._size = 0
        self._head = b""

    def feed(self, data: bytes) -> list[bytes | LongLine]:
        """The lines that end in `data`."""
        *ended, rest = data.split(b"\n")
        lines = []
        for part in ended:
            self._add(part)
            lines.append(self._take())
        self._add(rest)
        return lines

    def _add(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        if self._size > self._longest:
            whole = b"".join(self._parts)
            self._head = self._head or whole[:_ENDS]
            self._parts = [whole[-_ENDS:]]

    def _take(self) -> bytes | LongLine:
        line, size, head = b"".join(self._parts), self._size, self._head
        self._parts, self._size, self._head = [], 0, b""
        if size > self._longest or parts(line) > MOST_PARTS:
            return LongLine(head or line[:_ENDS], line[-_ENDS:], size)
        return line


def parts(data: bytes) -> int:
    """The objects and lists that may be in JSON text."""
    return data.count(b"{") + data.count(b"[")


Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


@asynccontextmanager
async def stdio_transport(
    server: ServerStream, report: Callable[[str], None], ended: Callable[[str], None]
) -> AsyncIterator[Streams]:
    """Streams of messages from and to `server`, which has ended when this ends. `report` gets one line about what it writes
    besides messages, `ended` why no more messages come ("" for the end of its output)."""
    received, reading = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    writing, sent = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        problem = ""
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async with received:
                try:
                    async for message in _messages(server, report):
                        await received.send(message)
                except StreamEnd as error:
                    problem = str(error)
                finally:
                    ended(problem)

    async def write() -> None:
        with suppress(OSError, anyio.ClosedResourceError):
            async for message in sent:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await server.write(text.encode() + b"\n")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        tasks.start_soon(write)
        try:
            yield reading, writing
        finally:
            with anyio.CancelScope(shield=True):
                reading.close()
                writing.close()
                await server.end()
            tasks.cancel_scope.cancel()


async def _messages(server: ServerStream, report: Callable[[str], None]) -> AsyncIterator[SessionMessage]:
    """The messages of a server. Raises StreamEnd."""
    lines, stray = Lines(), 0
    while data := await server.read():
        for line in lines.feed(data):
            message = _too_long(line) if isinstance(line, LongLine) else _parsed(line)
            if message is not None:
                yield SessionMessage(message)
            elif isinstance(line, LongLine) or line.strip():
                text = line.head if isinstance(line, LongLine) else line
                if not stray:
                    shown = sanitize_line(text[:200].decode("utf-8", "replace"), 80)
                    report(f'it writes text that is no message to its standard output, which is left out: "{shown}"')
                stray += line.size if isinstance(line, LongLine) else len(line)
                if stray > MAX_STRAY_BYTES:
                    raise StreamEnd(f"it wrote more than {MAX_STRAY_BYTES // 1024 // 1024} MB that are no messages")


def _parsed(line: bytes) -> types.JSONRPCMessage | None:
    try:
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        return None


def _too_long(line: LongLine) -> types.JSONRPCMessage | None:
    """An error in place of an answer that is too long; None if it is no answer. Raises StreamEnd if it has no id."""
    if not line.head.lstrip().startswith(b"{"):
        return None
    found = _ID.search(line.head) or _ID.search(line.tail)
    if found is None:
        raise StreamEnd(
            f"it sent a message of {line.size:,} bytes; at most {LONGEST:,} are read, with {MOST_PARTS:,} parts"
        )
    error = types.ErrorData(code=types.INTERNAL_ERROR, message=TOO_LONG)
    return types.JSONRPCError(jsonrpc="2.0", id=int(found[1] or found[2]), error=error)
