"""A loopback web site: one handler per path, each in full control of the bytes it sends.

async with site({"/": page("text/html", b"<p>hi")}) as web:
    ... web.url("/"), web.requests[0].headers["host"]
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

Handler = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True)
class Asked:
    """A request: its first line and its headers (names in lower case)."""

    line: str
    headers: dict[str, str]


@dataclass
class Site:
    """A running site. `names` are the server names that TLS clients asked for."""

    port: int
    scheme: str
    requests: list[Asked] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)

    def url(self, path: str, *, host: str = "127.0.0.1") -> str:
        return f"{self.scheme}://{host}:{self.port}{path}"


def head(status: str = "200 OK", **headers: str) -> bytes:
    """The start of an answer whose body ends with the connection."""
    fields = {"connection": "close", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return "".join([f"HTTP/1.1 {status}\r\n", *(f"{n}: {v}\r\n" for n, v in fields.items()), "\r\n"]).encode("latin-1")


def page(content_type: str, body: bytes, *, status: str = "200 OK", **headers: str) -> Handler:
    """Sends one whole answer; no content type when `content_type` is empty."""

    async def handler(writer: asyncio.StreamWriter) -> None:
        named = {"content_type": content_type} if content_type else {}
        writer.write(head(status, **named, content_length=str(len(body)), **headers) + body)

    return handler


def redirect(target: str, *, status: str = "302 Found") -> Handler:
    """Sends the client to `target`."""
    return page("text/plain", b"moved", status=status, location=target)


@asynccontextmanager
async def site(routes: Mapping[str, Handler], *, tls: ssl.SSLContext | None = None) -> AsyncIterator[Site]:
    """Serves `routes` on 127.0.0.1; unknown paths are 404. The path is what stands in the request line, query cut off."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            fields = {n.strip().lower(): v.strip() for n, _, v in (line.partition(":") for line in lines[1:] if line)}
            here.requests.append(Asked(lines[0], fields))
            path = lines[0].split(" ")[1].partition("?")[0]
            await routes.get(path, page("text/plain", b"no such page", status="404 Not Found"))(writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client left, which is what some tests are about
        finally:
            writer.close()

    if tls is not None:
        tls.sni_callback = lambda sock, name, context: here.names.append(name)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    here = Site(server.sockets[0].getsockname()[1], "https" if tls else "http")
    try:
        yield here
    finally:
        server.close()
