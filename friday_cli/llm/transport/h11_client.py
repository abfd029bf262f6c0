"""A small HTTP/1.1 client on asyncio and h11, for services that are reached without a proxy (decision 016).

httpx2 can do the same and more, but its import takes a third of a short run, and its layers cost as much processor
time per token as the rest of Friday. It is used where more than a connection is needed: proxies, and the certificate
stores of macOS and Windows.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import sys
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache, partial
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary, WeakSet

import h11

from .endpoint import Endpoint
from .error_mapping import ConnectFailed

MAX_KEEPALIVE_CONNECTIONS = 32
"""Maximum idle connections kept for one origin."""
KEEPALIVE_EXPIRY_S = 60.0
"""Seconds after which an idle connection is not used again."""
READ_BUFFER_BYTES = 256 * 1024
"""Unread bytes after which reading from the socket pauses."""
READ_BYTES = 64 * 1024
"""Bytes that are read at once. More than 128 KB (asyncio reads 256) the C library maps for each read, and gives back after it."""
WRITE_BYTES = 64 * 1024
"""Pieces of a request are joined until they have this size: larger ones are sent without copying them."""
MAX_PIECE = 2**20
"""Bytes of a compressed body that are decompressed at once."""
MAX_CHUNKS_PER_READ = 64
"""Maximum body chunks joined in one read. After so many, other tasks of the event loop run first."""

SECOND_FAMILY_AFTER_S = 0.25
"""Seconds after which a name's next address is tried as well, of the other family: IPv4 if IPv6 does not answer (RFC 8305).
asyncio's own way fails in early releases of Python 3.12 and 3.13 where tasks are eager (python/cpython issue 124309), and
Textual makes them eager."""

_idle_connections: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, list[Connection]]] = WeakKeyDictionary()

_bundle_loaded: WeakSet[ssl.SSLContext] = WeakSet()


def supports(endpoint: Endpoint) -> bool:
    """Whether this client can reach the endpoint: a valid http(s) URL, no proxy, and certificate files for https."""
    address = endpoint.address
    try:
        valid = bool(address.hostname) and address.port != 0 and "@" not in address.netloc
    except ValueError:  # invalid port
        return False
    if not valid or not endpoint.base_url.isascii() or not endpoint.base_url.isprintable() or " " in endpoint.base_url:
        return False
    if address.scheme == "http" and endpoint.is_loopback:
        return True
    if sys.platform != "linux" or any(name.lower().endswith("_proxy") and v for name, v in os.environ.items()):
        return False
    return address.scheme == "http" or (address.scheme == "https" and any(_ca_paths()))


class Response:
    """A response whose headers have arrived; `headers` are keyed by lower-case name."""

    def __init__(self, connection: Connection, head: h11.Response, origin: str) -> None:
        self.status_code = head.status_code
        self.headers: Mapping[str, str] = {k.decode("latin-1"): v.decode("latin-1") for k, v in head.headers}
        self._connection = connection
        self._origin = origin

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        """The decompressed body in chunks. Raises OSError, h11.RemoteProtocolError, or ValueError if it cannot be
        decompressed."""
        encoding = self.headers.get("content-encoding", "identity")
        if encoding not in ("identity", ""):
            decompressor = zlib.decompressobj(47)  # gzip or zlib, detected from the header
        while (data := await self._connection.read_chunk()) is not None:
            if encoding in ("identity", ""):
                yield data
                continue
            while data:  # in pieces: a few bytes can become gigabytes
                try:
                    piece = decompressor.decompress(data, MAX_PIECE)
                except zlib.error as error:
                    raise ValueError(str(error)) from None
                data = decompressor.unconsumed_tail
                yield piece

    async def aclose(self) -> None:
        """Keep the connection for the next request; close it if the response is incomplete."""
        idle = _idle_connections.setdefault(asyncio.get_running_loop(), {}).setdefault(self._origin, [])
        if len(idle) < MAX_KEEPALIVE_CONNECTIONS and self._connection.release():
            idle.append(self._connection)
        else:
            self._connection.close()


async def post(endpoint: Endpoint, url: str, content: Sequence[bytes], headers: Mapping[str, str]) -> Response:
    """Send a POST, whose body is the pieces of `content`, and wait for the response headers.

    Raises ConnectFailed if there is no connection, OSError or h11.ProtocolError if the connection fails later.
    """
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    host = endpoint.host.removesuffix({"http": ":80", "https": ":443"}[endpoint.address.scheme])
    fields = {"host": host, **headers, "accept-encoding": "identity", "content-length": str(sum(map(len, content)))}
    request = _request(target, tuple(fields.items()))
    connection = _take_idle(endpoint.origin) or await _connect(endpoint)
    try:
        return Response(connection, await connection.send_request(request, content), endpoint.origin)
    except BaseException:
        connection.close()
        raise


@lru_cache(maxsize=16)
def _request(target: str, fields: tuple[tuple[str, str], ...]) -> h11.Request:
    """The head of a request, whose headers are checked once: those of the items of a batch are mostly the same. Raises
    h11.ProtocolError."""
    return h11.Request(method="POST", target=target, headers=list(fields))


async def aclose_all() -> None:
    """Close the idle connections of the running loop."""
    for idle in _idle_connections.pop(asyncio.get_running_loop(), {}).values():
        for connection in idle:
            connection.close()
    await asyncio.sleep(0)  # a transport closes its socket in the next iteration of the loop


def _take_idle(origin: str) -> Connection | None:
    """Remove and return an idle connection that can be reused, None if there is none."""
    idle = _idle_connections.get(asyncio.get_running_loop(), {}).get(origin, [])
    while idle:
        connection = idle.pop()
        if connection.is_reusable():
            return connection
        connection.close()
    return None


async def _connect(endpoint: Endpoint) -> Connection:
    try:
        async with asyncio.timeout(endpoint.connect_s):
            try:
                return await _open(endpoint)
            except ssl.SSLCertVerificationError:
                if not _load_bundle():
                    raise
                return await _open(endpoint)
    except (OSError, UnicodeError) as error:  # OSError includes TimeoutError and TLS errors
        raise ConnectFailed(str(error) or "no answer in time") from error


async def _open(endpoint: Endpoint) -> Connection:
    """A new connection, encrypted for https. Raises OSError, or UnicodeError for a name that cannot be one."""
    address = endpoint.address
    secure = address.scheme == "https"
    host, port = address.hostname or "", address.port or (443 if secure else 80)
    tls = _ssl_context(*_ca_paths()) if secure else None
    loop = asyncio.get_running_loop()
    if _is_ip_address(host):
        return (await loop.create_connection(Connection, host, port, ssl=tls))[1]
    found = loop.run_in_executor(None, partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM))
    from aiohappyeyeballs import start_connection  # imported while the name is looked up

    connected = await start_connection(await found, happy_eyeballs_delay=SECOND_FAMILY_AFTER_S)
    hostname = host if secure else None
    return (await loop.create_connection(Connection, sock=connected, ssl=tls, server_hostname=hostname))[1]


def _is_ip_address(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return True
    return False


def _ca_paths() -> tuple[str | None, str | None]:
    """File and folder of the trusted CA certificates, found as httpx2 finds them; (None, None) if there are none."""
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
def _ssl_context(file: str | None, folder: str | None) -> ssl.SSLContext:
    """With a folder the file is not read: OpenSSL finds the one certificate that it needs by its hash, but parsing a whole
    file takes a sixth of a short run. `_load_bundle` reads it if the folder is not enough."""
    context = ssl.create_default_context(cafile=None if folder else file, capath=folder)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _load_bundle() -> bool:
    """Trust the certificates of the system's file too, which may have some that its folder lacks. False if nothing is
    added."""
    file, folder = _ca_paths()
    context = _ssl_context(file, folder)
    if not (file and folder) or context in _bundle_loaded:
        return False
    _bundle_loaded.add(context)
    context.load_verify_locations(cafile=file)
    return True


class Connection(asyncio.Protocol):
    """One HTTP/1.1 connection: h11 implements the protocol, this class moves the bytes."""

    def __init__(self) -> None:
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=100_000)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._readable = asyncio.Event()
        self._closed = False
        self._error: Exception | None = None
        self._unread = 0
        self._body_complete = False
        self._body_error: Exception | None = None
        self._idle_since: float | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        with suppress(AttributeError):  # another event loop
            transport.max_size = READ_BYTES  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        if self._idle_since is not None:  # unsolicited bytes on an idle connection: the server is closing it
            self.close()
            return
        self._http.receive_data(data)
        self._unread += len(data)
        if self._unread > READ_BUFFER_BYTES and self._transport is not None:
            self._transport.pause_reading()
        self._readable.set()

    def eof_received(self) -> None:
        self._closed = True
        if self._http.their_state is h11.SEND_RESPONSE:
            self._error = ConnectionError("Server disconnected without sending a response.")
        else:
            self._http.receive_data(b"")  # h11 decides whether this completes the body
        self._readable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None or not self._closed:
            self._error = exc or ConnectionError("The connection was closed.")
        self._closed = True
        self._readable.set()

    async def send_request(self, request: h11.Request, content: Sequence[bytes]) -> h11.Response:
        """Send a request and wait for the response headers. Raises OSError or h11.ProtocolError."""
        assert self._transport is not None
        self._idle_since, self._body_complete, self._body_error = None, False, None
        head = self._http.send(request) or b""
        for data in _joined(content):
            self._transport.write(head + (self._http.send(h11.Data(data=data)) or b""))
            head = b""
        self._http.send(h11.EndOfMessage())
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.Response):
                return event
            if event is h11.NEED_DATA:
                await self._wait_for_data()

    async def read_chunk(self) -> bytes | None:
        """The next bytes of the response body; None at its end. Raises OSError or h11.RemoteProtocolError."""
        chunks: list[bytes] = []
        while not self._body_complete and self._body_error is None and len(chunks) < MAX_CHUNKS_PER_READ:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                self._body_error = error
                break
            if isinstance(event, h11.Data):
                chunks.append(event.data)
            elif event is not h11.NEED_DATA:
                self._body_complete = True
            elif chunks:
                break
            else:
                await self._wait_for_data()
        if len(chunks) == MAX_CHUNKS_PER_READ:
            await asyncio.sleep(0)
        if not chunks and self._body_error is not None:  # only after the data that came before the error
            raise self._body_error
        return b"".join(chunks) if chunks else None

    async def _wait_for_data(self) -> None:
        """Wait for data from the server. Raises OSError if the connection has failed."""
        assert self._transport is not None
        self._readable.clear()
        if self._unread > READ_BUFFER_BYTES:
            self._transport.resume_reading()
        self._unread = 0
        if not self._closed:
            await self._readable.wait()
        if self._error is not None:
            raise self._error

    def release(self) -> bool:
        """Prepare for the next request. False if the connection cannot be reused."""
        done = self._http.our_state is self._http.their_state is h11.DONE
        if not done or self._closed or self._http.trailing_data[0]:
            return False
        self._http.start_next_cycle()
        self._idle_since = self._loop.time()
        return True

    def is_reusable(self) -> bool:
        """Whether an idle connection is still open and has not expired."""
        fresh = self._idle_since is not None and self._loop.time() - self._idle_since < KEEPALIVE_EXPIRY_S
        return fresh and not self._closed and self._transport is not None and not self._transport.is_closing()

    def close(self) -> None:
        """Close the connection immediately."""
        self._closed = True
        if self._transport is not None:
            self._transport.abort()


def _joined(pieces: Sequence[bytes]) -> Iterator[bytes]:
    """`pieces` in runs of at least `WRITE_BYTES`, and the rest."""
    run: list[bytes] = []
    size = 0
    for piece in pieces:
        run.append(piece)
        size += len(piece)
        if size >= WRITE_BYTES:
            yield b"".join(run)
            run, size = [], 0
    yield b"".join(run)
