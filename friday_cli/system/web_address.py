"""Decides which URLs and IP addresses may be fetched."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.text.untrusted import visible
from friday_cli.core.tool_catalog import READ_FILE

if TYPE_CHECKING:
    import httpx2

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the IP addresses of a host and port; raises OSError if there are none."""
MAX_ADDRESSES = 4
_INTERNAL_SUFFIXES = (".local", ".localhost", ".internal", ".lan", ".home.arpa")
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_METADATA = frozenset(
    map(
        ipaddress.ip_address,
        (
            "169.254.169.254", "169.254.170.2", "169.254.170.23", "100.100.100.200", "168.63.129.16", "192.0.0.192",
            "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254",
        ),
    )
)  # fmt: skip
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_SITE = ipaddress.ip_network("fec0::/10")  # out of use since RFC 3879, but private networks may have it
_LOCAL_NAT64 = ipaddress.ip_network("64:ff9b:1::/48")


def checked_url(text: str) -> httpx2.URL:
    """Parse a URL. Rules, checks and connections all use this parser. Raises ToolError if it may not be fetched."""
    import httpx2

    text = text.strip()
    shown = visible(text)[:200]
    if len(text) > 8_192 or re.search(r"[\x00-\x20\x7f\\]", text):
        raise ToolError(
            f"{shown!r} is not a URL: it is too long, or contains a space, a control character or a backslash."
        )
    try:
        url = httpx2.URL(text).copy_with(fragment=None)  # which reads the host again, as it was normalized
    except (httpx2.InvalidURL, ValueError) as error:
        raise ToolError(f"{shown!r} is not a URL: {visible(str(error))[:200]}.") from None
    if url.scheme not in ("http", "https"):
        raise ToolError(f"{shown!r} is not an http or https URL. Read files with {READ_FILE}.")
    if url.userinfo or re.match(r"[^:]*://[^/?#]*@", text):
        raise ToolError("URLs with a user name or password are not fetched. Remove the part before '@'.")
    host = host_of(url)
    if (
        not re.fullmatch(r"[a-z0-9_.-]{1,253}|[0-9a-f:.]+", host)
        or not 0 < (80 if url.port is None else url.port) < 65_536
    ):
        raise ToolError(f"{shown!r} is not a URL: invalid host or port.")
    return url


def host_of(url: httpx2.URL) -> str:
    """The host in lower-case ASCII (punycode for other scripts), without a final dot."""
    return url.raw_host.decode("ascii", "replace").rstrip(".").lower()


def forbidden_reason(address: str, *, private: bool = False) -> str:
    """Why `address` may not be fetched, or "". `private`: allow everything except metadata services."""
    for target in _effective_addresses(ipaddress.ip_address(address.partition("%")[0])):
        if target in _METADATA:
            return "a metadata service"
        if private:
            continue
        if target.is_loopback or target.is_unspecified:
            return "this machine"
        if target.is_link_local:
            return "a link-local address"
        if (
            not target.is_global
            or target.is_multicast
            or target.is_reserved
            or target in _LOCAL_NAT64
            or target in _SITE
        ):
            return "a private address"
    return ""


def _effective_addresses(ip: Address) -> list[Address]:
    """The addresses to check: the IPv4 address in a mapped or translated IPv6 address, both ends of a tunnel, or `ip`."""
    if isinstance(ip, ipaddress.IPv4Address):
        return [ip]
    if ip.ipv4_mapped:
        return [ip.ipv4_mapped]
    if ip in _NAT64 or (int(ip) >> 32 == 0 and int(ip) > 1):
        return [ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)]
    return [ip, *([ip.sixtofour] if ip.sixtofour else []), *(ip.teredo or ())]


async def system_addresses(host: str, port: int) -> list[str]:
    """The addresses of a host by the system resolver, without duplicates. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(row[4][0]) for row in found))


async def route(url: httpx2.URL, resolve: Resolver, *, private: bool) -> tuple[list[str], str | None]:
    """The addresses to connect to, best first, and the proxy or None. A proxy gets the host name and resolves it
    itself; hosts known to be internal are refused before that. Raises ToolError."""
    host, proxy = host_of(url), _proxy_for(url)
    try:
        found = list(await resolve(host, url.port or (443 if url.scheme == "https" else 80)))
    except (OSError, UnicodeError):
        found = []
    for address in found:
        if why := forbidden_reason(address, private=private):
            raise ToolError(
                f"{url}: refused: {host} is {why} ({address}). Only the user can allow private addresses, in the settings."
            )
    if proxy and not any(forbidden_reason(address) for address in found):
        internal = not found and ("." not in host or host.endswith(_INTERNAL_SUFFIXES))
        if not internal or private:
            return [host], proxy
    if not found:
        raise ToolError(f"{url}: host {host} not found. Check its spelling and the network.")
    return found[:MAX_ADDRESSES], None


def _proxy_for(url: httpx2.URL) -> str | None:
    """The proxy that the environment sets for `url`, or None."""
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(host_of(url)):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"
