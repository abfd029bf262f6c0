"""A loopback server that plays scripted bytes and faults, and remembers what it was asked.

    async with playing(Reply(events(...)), Reply(b"...", DROP)) as server:
        ... server.url, server.requests[0].json, server.connections

Each request gets the next reply; the last one is repeated.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar


class Fault(Enum):
    DROP = "close the connection with no end of the body"
    RESET = "reset the connection"
    HANG = "send nothing more until the client leaves"


DROP, RESET, HANG = Fault.DROP, Fault.RESET, Fault.HANG


@dataclass(frozen=True)
class Wait:
    """Go on when `event` is set, or after `seconds`."""

    seconds: float = 0.0
    event: asyncio.Event | None = None


Step = bytes | Fault | Wait


class Reply:
    """One answer. `split` cuts the body in pieces of that many bytes, each sent by itself. `headers` by name with
    underscores; None leaves `content_type` out. `before_head` leaves out the status line and the headers."""

    def __init__(
        self, *steps: Step, status: int = 200, split: int = 0, before_head: bool = False, **headers: str | None
    ) -> None:
        given = {"content_type": "text/event-stream", **headers}
        self.steps, self.status, self.split, self.before_head = steps, status, split, before_head
        self.headers = {k.replace("_", "-"): v for k, v in given.items() if v is not None}


def document(value: object, status: int, **headers: str) -> Reply:
    """A JSON answer, such as an error."""
    return Reply(json.dumps(value).encode(), status=status, **{"content_type": "application/json", **headers})


@dataclass
class Asked:
    """A request as it came; `left` is set when its client closes the connection before the answer is over."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    left: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Server:
    def __init__(self, replies: Iterable[Reply]) -> None:
        self.replies = list(replies)
        self.requests: list[Asked] = []
        self.arrived = asyncio.Event()
        self.connections = 0
        self.url = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    def reset_connections(self) -> None:
        """Reset every connection, as a network does that goes away."""
        for writer in self._writers:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            ahead: bytes | None = b""
            while ahead is not None:
                ahead = await self._one(reader, writer, ahead)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            self._writers.discard(writer)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ahead: bytes) -> bytes | None:
        """Answer a request; gives what was read of the next one, None when the connection is over."""
        asked = await _request(reader, ahead)
        reply = self._reply_to(asked)
        self.requests.append(asked)
        self.arrived.set()
        watch = asyncio.ensure_future(reader.read(1))
        watch.add_done_callback(lambda done: None if not done.cancelled() and _read_by(done) else asked.left.set())
        try:
            going_on = await self._play(reply, asked, writer)
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
        return (b"" if watch.cancelled() else _read_by(watch)) if going_on else None

    def _reply_to(self, asked: Asked) -> Reply:
        return self.replies[min(len(self.requests), len(self.replies) - 1)]

    async def _play(self, reply: Reply, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        head = f"HTTP/1.1 {reply.status} X\r\ntransfer-encoding: chunked\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in reply.headers.items()) + "\r\n"
        if not reply.before_head:
            writer.write(head.encode())
            await writer.drain()
        for step in reply.steps:
            if isinstance(step, bytes):
                size = reply.split or max(1, len(step))
                for start in range(0, len(step), size):
                    piece = step[start : start + size]
                    writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                    if reply.split:
                        await writer.drain()
                await writer.drain()
            elif isinstance(step, Wait):
                await (step.event.wait() if step.event else asyncio.sleep(step.seconds))
            elif step is HANG:
                await asked.left.wait()
                return False
            else:
                if step is RESET:
                    sock = writer.get_extra_info("socket")
                    await _taken(sock)
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort() if step is RESET else writer.close()
                return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


AnyServer = TypeVar("AnyServer", bound=Server)


async def _taken(sock: socket.socket) -> None:
    """Returns when the other end has read all that was sent: what lies there unread is lost with a reset."""
    for _ in range(1_000):
        await asyncio.sleep(0.005)
        if not _unread(sock):
            return


def _unread(sock: socket.socket) -> bool:
    """Whether something that was sent lies unread at the other end; where that cannot be seen it is taken as read."""
    ends = (f"{sock.getpeername()[1]:04X}", f"{sock.getsockname()[1]:04X}")
    try:
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    except OSError:
        return False
    return any(int(row[4].partition(":")[2], 16) for row in rows if (row[1][-4:], row[2][-4:]) == ends)


def _read_by(done: asyncio.Future[bytes]) -> bytes:
    return b"" if done.exception() else done.result()


async def _request(reader: asyncio.StreamReader, ahead: bytes = b"") -> Asked:
    head = ahead + await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(method, path, headers, body)


def playing(*replies: Reply, tls: ssl.SSLContext | None = None) -> AbstractAsyncContextManager[Server]:
    """A server that plays `replies`, for the time of the block."""
    return running(Server(replies), tls=tls)


@asynccontextmanager
async def running(server: AnyServer, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[AnyServer]:
    """`server` on 127.0.0.1 for the time of the block, over `tls` where given; every connection is closed behind it."""
    listener = await asyncio.start_server(server._serve, "127.0.0.1", 0, limit=64 * 1024 * 1024, ssl=tls)
    server.url = f"http{'s' if tls else ''}://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listener.close()
        for task in list(server._tasks):
            task.cancel()
        await asyncio.gather(*server._tasks, return_exceptions=True)


async def shut(listener: asyncio.Server) -> None:
    """End a server that has its loop to itself, also for a client that comes at this moment: a connection that is
    taken while its server goes would be found by the garbage collection, in the middle of another test."""
    for sock in listener.sockets:
        asyncio.get_running_loop().remove_reader(sock.fileno())  # from now on nobody is let in
    for _ in range(5):  # who was let in begins to be served, so that it can end as such
        await asyncio.sleep(0)
    listener.close()
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    await asyncio.sleep(0)  # closed connections let go of their sockets


def named(*events: dict[str, Any]) -> bytes:
    """Server-sent events with their `type` as event name, as Anthropic and the Responses API send them."""
    return b"".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events)


def unnamed(*events: dict[str, Any] | str) -> bytes:
    """Server-sent events without a name, as Chat Completions sends them; a string is sent as it is."""
    return b"".join(f"data: {e if isinstance(e, str) else json.dumps(e)}\n\n".encode() for e in events)
