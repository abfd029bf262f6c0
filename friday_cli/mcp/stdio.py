"""The stdio transport: one JSON object a line. What a server writes besides messages, and messages that are too long, do not
end the connection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.jsonrpc.framing import MOST_PARTS, Lines, LongMessage

from .connection import ServerStream

LONGEST = 16 * 1024 * 1024
"""Bytes of one message; a longer one is an error."""
TOO_LONG = f"its answer is longer than {LONGEST // 1024 // 1024} MB or has more than {MOST_PARTS:,} parts"
MAX_STRAY_BYTES = 64 * 1024 * 1024
"""Bytes that a server may write besides messages before the connection is closed."""


class StreamEnd(Exception):
    """No further message of the server can be read; the text says why."""


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
                await server.write_all(text.encode() + b"\n")

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
    lines, stray = Lines(LONGEST), 0
    while data := await server.read():
        for line in lines.feed(data):
            message = _too_long(line) if isinstance(line, LongMessage) else _parsed(line)
            if message is not None:
                yield SessionMessage(message)
            elif isinstance(line, LongMessage) or line.strip():
                text = line.head if isinstance(line, LongMessage) else line
                if not stray:
                    shown = sanitize_line(text[:200].decode("utf-8", "replace"), 80)
                    report(f'it writes text that is not a message to its standard output, which is left out: "{shown}"')
                stray += line.size if isinstance(line, LongMessage) else len(line)
                if stray > MAX_STRAY_BYTES:
                    raise StreamEnd(f"it wrote more than {MAX_STRAY_BYTES // 1024 // 1024} MB that are not messages")


def _parsed(line: bytes) -> types.JSONRPCMessage | None:
    try:
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        return None


def _too_long(line: LongMessage) -> types.JSONRPCMessage | None:
    """An error in place of an answer that is too long; None if it is not an answer. Raises StreamEnd if it has no id."""
    if not line.head.lstrip().startswith(b"{"):
        return None
    if line.ident is None:
        raise StreamEnd(
            f"it sent a message of {line.size:,} bytes; at most {LONGEST:,} are read, with {MOST_PARTS:,} parts"
        )
    error = types.ErrorData(code=types.INTERNAL_ERROR, message=TOO_LONG)
    return types.JSONRPCError(jsonrpc="2.0", id=line.ident, error=error)
