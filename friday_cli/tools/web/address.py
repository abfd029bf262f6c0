"""Decides which URLs and IP addresses may be fetched."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from typing import TYPE_CHECKING

from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.text.untrusted import visible

if TYPE_CHECKING:
    import httpx2

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
        url = httpx2.URL(text)
    except (httpx2.InvalidURL, ValueError) as error:
        raise ToolError(f"{shown!r} is not a URL: {visible(str(error))[:200]}.") from None
    if url.scheme not in ("http", "https"):
        raise ToolError(f"{shown!r} is not an http or https URL. Read files with read_file.")
    if url.userinfo or re.match(r"[^:]*://[^/?#]*@", text):
        raise ToolError("URLs with a user name or password are not fetched. Remove the part before '@'.")
    host = host_of(url)
    if (
        not re.fullmatch(r"[a-z0-9_.-]{1,253}|[0-9a-f:.]+", host)
        or not 0 < (80 if url.port is None else url.port) < 65_536
    ):
        raise ToolError(f"{shown!r} is not a URL: invalid host or port.")
    return url.copy_with(fragment=None)


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
        if not target.is_global or target.is_multicast or target.is_reserved or target in _LOCAL_NAT64:
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
