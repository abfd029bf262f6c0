"""The network of a login: the addresses that a server and its issuer name may not lead into this machine or its network.

Imports `httpx2`, so it is imported with a login only.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import httpx2

from friday_cli.core.protocol.errors import FridayError, ToolError
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.system.web_address import Resolver, forbidden_reason, host_of, route, system_addresses

from .limited_body import LimitedBody

LOOPBACK = ("127.0.0.1", "localhost", "::1")
MOST_REQUESTS = 30
"""Requests of one login, redirects included."""
MOST_BYTES = 1_000_000
"""Bytes of one answer."""


class LoginRefused(FridayError):
    """An address that a login may not use. The text is our own."""


class LoginNetwork(httpx2.AsyncBaseTransport):
    """Sends the requests of a login to `server`. Every other address must be https and outside of this machine and its network,
    unless the server itself is inside; the checked IP address is the one that is connected to. Services of a cloud with the
    keys of the machine (metadata) are never reached. `transport` stands for the network in tests. Raises LoginRefused."""

    def __init__(
        self, server: str, *, resolve: Resolver = system_addresses, transport: httpx2.AsyncBaseTransport | None = None
    ) -> None:
        self._server = httpx2.URL(server)
        self._resolve = resolve
        self._given = transport
        self._by_proxy: dict[str | None, httpx2.AsyncBaseTransport] = {}
        self._known: list[str] | None = None
        self._sent = 0

    async def require(self, address: str) -> tuple[list[str], str | None]:
        """The IP addresses and the proxy for an address that the login may use. Raises LoginRefused."""
        shown = sanitize_line(address.partition("?")[0], 200)
        try:
            url = httpx2.URL(address)
        except (httpx2.InvalidURL, ValueError):
            raise LoginRefused(f"{shown} is not an address") from None
        local = host_of(url) in LOOPBACK and host_of(self._server) in LOOPBACK
        if url.scheme != "https" and not (url.scheme == "http" and local):
            raise LoginRefused(f"{shown} is not https")
        known = await self._of_server()
        inside = bool(known) and all(map(forbidden_reason, known))
        same = host_of(url) == host_of(self._server)
        try:
            return await route(url, self._resolved, private=inside or same)
        except ToolError as error:
            refused = "refused" in error.message
            if same and inside and refused:
                return known, None  # the person named this host
            why = "it is inside your network or this machine" if refused else "its host is not known"
            raise LoginRefused(f"{shown} is not used: {why}") from None

    async def _of_server(self) -> list[str]:
        """The addresses of the server, found once: one whose name leads inside at first and outside later would be taken for one inside
        and be reached outside."""
        if self._known is None:
            self._known = []
            with suppress(OSError, UnicodeError, ValueError):
                self._known = list(await self._resolve(host_of(self._server), self._server.port or 443))
        return self._known

    async def _resolved(self, host: str, port: int) -> Sequence[str]:
        return await self._of_server() if host == host_of(self._server) else await self._resolve(host, port)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self._sent += 1
        if self._sent > MOST_REQUESTS:
            raise LoginRefused(f"it takes more than {MOST_REQUESTS} requests")
        addresses, proxy = await self.require(str(request.url))
        if proxy not in self._by_proxy:
            self._by_proxy[proxy] = self._given or httpx2.AsyncHTTPTransport(proxy=proxy)
        for number, address in enumerate(addresses, 1):
            try:
                response = await self._by_proxy[proxy].handle_async_request(_pinned(request, address))
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                if number == len(addresses):
                    raise
                continue
            response.stream = LimitedBody(response.stream, MOST_BYTES, "its answer is too long")  # type: ignore[arg-type]
            return response
        raise AssertionError("there is an address, or `require` raises")

    async def aclose(self) -> None:
        for transport in self._by_proxy.values():
            await transport.aclose()


def _pinned(request: httpx2.Request, address: str) -> httpx2.Request:
    """`request` to this IP address; the name of its host is still what the certificate is checked for."""
    if host_of(request.url) == address:
        return request
    extensions = {**request.extensions, "sni_hostname": host_of(request.url)}
    return httpx2.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions=extensions,
    )
