"""The other side of `h11_client`: a connection of a program on this machine that sends requests to Friday."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import h11

ProtocolError = h11.ProtocolError
MAX_BODY = 64 * 1024 * 1024
"""Bytes of a request."""
READ = 256 * 1024
"""Bytes that are read at once."""
_NOT_RETURNED = frozenset(("content-length", "connection", "transfer-encoding", "content-encoding", "keep-alive"))


class ServedRequest(NamedTuple):
    """The head of a request; `headers` are keyed by lower-case name."""

    method: str
    target: str
    headers: dict[str, str]


class ServedConnection:
    """A connection of a client that sends requests and gets answers. Methods raise OSError and h11.ProtocolError."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=256 * 1024)

    async def _event(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                self._writer.write(self._http.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
            self._http.receive_data(await self._reader.read(READ))
        return event

    async def request(self) -> ServedRequest | None:
        """The head of the next request, None at the end."""
        event = await self._event()
        if not isinstance(event, h11.Request):
            return None
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in event.headers}
        return ServedRequest(event.method.decode("latin-1"), event.target.decode("latin-1"), headers)

    async def body(self) -> bytes:
        """The body of the request. Raises EOFError if it is too long or does not end."""
        pieces, size = [], 0
        while isinstance(event := await self._event(), h11.Data):
            size += len(event.data)
            if size > MAX_BODY:
                raise EOFError
            pieces.append(bytes(event.data))
        if not isinstance(event, h11.EndOfMessage):
            raise EOFError
        return b"".join(pieces)

    async def answer(self, status: int, body: bytes) -> None:
        """A whole answer."""
        headers = [("content-type", "application/json"), ("content-length", str(len(body)))]
        self._writer.write(self._http.send(h11.Response(status_code=status, headers=headers)) or b"")
        self._writer.write(self._http.send(h11.Data(data=body)) or b"")
        self._writer.write(self._http.send(h11.EndOfMessage()) or b"")
        await self._writer.drain()

    async def pass_on(self, response: Any, seen: Callable[[bytes], None]) -> None:
        """The answer of a service, while it comes; `seen` gets its bytes. Raises OSError if the client has hung up."""
        headers = [(name, value) for name, value in response.headers.items() if name.lower() not in _NOT_RETURNED]
        headers.append(("transfer-encoding", "chunked"))
        self._writer.write(self._http.send(h11.Response(status_code=response.status_code, headers=headers)) or b"")
        async for data in response.aiter_bytes():
            seen(data)
            if self._writer.is_closing() or self._reader.at_eof():
                raise ConnectionResetError("the client has hung up")
            self._writer.write(self._http.send(h11.Data(data=data)) or b"")
            await self._writer.drain()
        self._writer.write(self._http.send(h11.EndOfMessage()) or b"")
        with suppress(OSError):
            await self._writer.drain()

    def next(self) -> None:
        """Prepare for the next request. Raises h11.ProtocolError if there can be none."""
        self._http.start_next_cycle()
