"""HTTP/1.1 by h11 over asyncio itself, where the environment has no say in how a service is reached.

httpx2 does the same and much more, but importing it takes a third of a short run, and its layers as long per token as
all of Friday; so it serves what needs more than a connection: proxies, and the certificate stores of macOS and Windows.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
import zlib
from collections.abc import AsyncIterator, Mapping
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from .endpoint import Endpoint
from .error_mapping import Unreachable

if TYPE_CHECKING:
    import h11

IDLE = 32
"""Connections to one service that are kept for the next request."""
IDLE_S = 60.0
UNREAD = 256 * 1024
"""Bytes that may lie here unread; then the service has to wait."""
BATCH = 64
"""Pieces of an answer handed on at once; between two batches others on the event loop get their turn."""

_idle: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, list[Connection]]] = WeakKeyDictionary()


def serves(endpoint: Endpoint) -> bool:
    """Whether a plain connection is all that this endpoint needs."""
    address = endpoint.address
    try:
        whole = bool(address.hostname) and address.port != 0 and "@" not in address.netloc
    except ValueError:  # no port
        return False
    if not whole or not endpoint.base_url.isascii() or not endpoint.base_url.isprintable() or " " in endpoint.base_url:
        return False
    if address.scheme == "http" and endpoint.is_loopback:
        return True
    if sys.platform != "linux" or any(name.lower().endswith("_proxy") and v for name, v in os.environ.items()):
        return False
    return address.scheme == "http" or (address.scheme == "https" and any(_trusted()))


class Response:
    """An answer whose head has come; `headers` by lower-case name."""

    def __init__(self, connection: Connection, head: h11.Response, origin: str) -> None:
        self.status_code = head.status_code
        self.headers: Mapping[str, str] = {k.decode("latin-1"): v.decode("latin-1") for k, v in head.headers}
        self._connection = connection
        self._origin = origin

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        """The body, in pieces as they come. Raises OSError, h11.RemoteProtocolError, or ValueError where it cannot be
        unpacked."""
        coding = self.headers.get("content-encoding", "identity")
        if coding not in ("identity", ""):
            unpack = zlib.decompressobj(47)  # gzip or zlib, whichever it is
        while (data := await self._connection.read_chunk()) is not None:
            if coding in ("identity", ""):
                yield data
                continue
            try:
                yield unpack.decompress(data)
            except zlib.error as error:
                raise ValueError(str(error)) from None

    async def aclose(self) -> None:
        """Keep the connection for the next request, or close it at once where the answer is not over."""
        waiting = _idle.setdefault(asyncio.get_running_loop(), {}).setdefault(self._origin, [])
        if len(waiting) < IDLE and self._connection.release():
            waiting.append(self._connection)
        else:
            self._connection.close()


async def post(endpoint: Endpoint, url: str, content: bytes, headers: Mapping[str, str]) -> Response:
    """Send a POST and wait for the head of its answer.

    Raises Unreachable when there is no connection, OSError or h11.ProtocolError when it breaks.
    """
    import h11

    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    fields = {"host": _host(endpoint), **headers, "accept-encoding": "identity", "content-length": str(len(content))}
    request = h11.Request(method="POST", target=target, headers=list(fields.items()))
    connection = _rested(endpoint.origin) or await _connected(endpoint)
    try:
        return Response(connection, await connection.send_request(request, content), endpoint.origin)
    except BaseException:
        connection.close()
        raise


async def aclose_all() -> None:
    """Close the idle connections of the running loop."""
    for waiting in _idle.pop(asyncio.get_running_loop(), {}).values():
        for connection in waiting:
            connection.close()
    await asyncio.sleep(0)  # a transport lets go of its socket in the next round of the loop


def _host(endpoint: Endpoint) -> str:
    default = {"http": ":80", "https": ":443"}[endpoint.address.scheme]
    return endpoint.host.removesuffix(default)


def _rested(origin: str) -> Connection | None:
    """A connection from before that is still good."""
    waiting = _idle.get(asyncio.get_running_loop(), {}).get(origin, [])
    while waiting:
        connection = waiting.pop()
        if connection.is_reusable():
            return connection
        connection.close()
    return None


async def _connected(endpoint: Endpoint) -> Connection:
    address = endpoint.address
    secure = address.scheme == "https"
    try:
        async with asyncio.timeout(endpoint.connect_s):
            _, connection = await asyncio.get_running_loop().create_connection(
                Connection,
                address.hostname or "",
                address.port or (443 if secure else 80),
                ssl=_context(*_trusted()) if secure else None,
                happy_eyeballs_delay=0.25,  # where IPv6 is dead, IPv4 is tried a quarter of a second later
            )
    except (OSError, UnicodeError) as error:  # TimeoutError and those of TLS are among them
        raise Unreachable(str(error) or "no answer in time") from error
    return connection


def _trusted() -> tuple[str | None, str | None]:
    """File and folder of the certificates that are trusted, as httpx2 finds them; none where that takes more looking."""
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if file or folder:
        return (file, None) if file else (None, folder)
    paths = ssl.get_default_verify_paths()
    hashed = os.path.isdir(paths.openssl_capath) and any(n.endswith(".0") for n in os.listdir(paths.openssl_capath))
    return (
        paths.openssl_cafile if os.path.isfile(paths.openssl_cafile) else None,
        paths.openssl_capath if hashed else None,
    )


@cache
def _context(file: str | None, folder: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=file, capath=folder)
    context.set_alpn_protocols(["http/1.1"])
    return context


class Connection(asyncio.Protocol):
    """One connection; h11 keeps the rules of the protocol, this moves the bytes."""

    def __init__(self) -> None:
        import h11

        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=100_000)
        self._h11 = h11
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._came = asyncio.Event()
        self._lost = False
        self._error: Exception | None = None
        self._unread = 0
        self._over: bool | Exception = False
        self._rests_since: float | None = None

    # ---- what the event loop calls --------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._rests_since is not None:  # nobody asked: the service says good-bye
            self.close()
            return
        self._http.receive_data(data)
        self._unread += len(data)
        if self._unread > UNREAD and self._transport is not None:
            self._transport.pause_reading()
        self._came.set()

    def eof_received(self) -> None:
        self._lost = True
        if self._http.their_state is self._h11.SEND_RESPONSE:
            self._error = ConnectionError("Server disconnected without sending a response.")
        else:
            self._http.receive_data(b"")  # h11 knows whether this is the end of the body
        self._came.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None or not self._lost:
            self._error = exc or ConnectionError("The connection was closed.")
        self._lost = True
        self._came.set()

    # ---- one request after the other ------------------------------------------------

    async def send_request(self, request: h11.Request, content: bytes) -> h11.Response:
        """Send a request; gives the head of its answer."""
        assert self._transport is not None
        self._rests_since, self._over = None, False
        parts = (request, self._h11.Data(data=content), self._h11.EndOfMessage())
        self._transport.write(b"".join(self._http.send(part) or b"" for part in parts))
        while True:
            event = self._http.next_event()
            if isinstance(event, self._h11.Response):
                return event
            if event is self._h11.NEED_DATA:
                await self._wait_for_data()

    async def read_chunk(self) -> bytes | None:
        """What has come of the answer's body, waiting where there is nothing; None at its end."""
        pieces: list[bytes] = []
        while not self._over and len(pieces) < BATCH:
            try:
                event = self._http.next_event()
            except self._h11.RemoteProtocolError as error:
                self._over = error
                break
            if isinstance(event, self._h11.Data):
                pieces.append(event.data)
            elif event is not self._h11.NEED_DATA:
                self._over = True
            elif pieces:
                break
            else:
                await self._wait_for_data()
        if len(pieces) == BATCH:
            await asyncio.sleep(0)
        if not pieces and isinstance(self._over, Exception):  # only after what came before it
            raise self._over
        return b"".join(pieces) if pieces else None

    async def _wait_for_data(self) -> None:
        """Wait until something has come. Raises OSError when nothing can come any more."""
        assert self._transport is not None
        self._came.clear()
        if self._unread > UNREAD:
            self._transport.resume_reading()
        self._unread = 0
        if not self._lost:
            await self._came.wait()
        if self._error is not None:
            raise self._error

    def release(self) -> bool:
        """Make ready for the next request; False where there can be none."""
        done = self._http.our_state is self._http.their_state is self._h11.DONE
        if not done or self._lost or self._http.trailing_data[0]:
            return False
        self._http.start_next_cycle()
        self._rests_since = self._loop.time()
        return True

    def is_reusable(self) -> bool:
        """Whether a connection that rested can be used."""
        young = self._rests_since is not None and self._loop.time() - self._rests_since < IDLE_S
        return young and not self._lost and self._transport is not None and not self._transport.is_closing()

    def close(self) -> None:
        """Let go of it at once."""
        self._lost = True
        if self._transport is not None:
            self._transport.abort()
