"""Which URLs and addresses may be reached: the one place that decides it."""

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
    """The one parser of URLs, for rules, checks and connections alike. Raises ToolError for what may not be fetched."""
    import httpx2

    text = text.strip()
    shown = visible(text)[:200]
    if len(text) > 8_192 or re.search(r"[\x00-\x20\x7f\\]", text):
        raise ToolError(f"{shown!r} is not a URL: it is too long, or has a space, a control character or a backslash.")
    try:
        url = httpx2.URL(text)
    except (httpx2.InvalidURL, ValueError) as error:
        raise ToolError(f"{shown!r} is not a URL: {visible(str(error))[:200]}.") from None
    if url.scheme not in ("http", "https"):
        raise ToolError(f"{shown!r} cannot be fetched: only http and https URLs can. Files are read with read_file.")
    if url.userinfo or re.match(r"[^:]*://[^/?#]*@", text):
        raise ToolError(
            "A URL with a user name or password in it is not fetched; write it without the part before '@'."
        )
    host = host_of(url)
    if (
        not re.fullmatch(r"[a-z0-9_.-]{1,253}|[0-9a-f:.]+", host)
        or not 0 < (80 if url.port is None else url.port) < 65_536
    ):
        raise ToolError(f"{shown!r} is not a URL: no usable host or port in it.")
    return url.copy_with(fragment=None)


def host_of(url: httpx2.URL) -> str:
    """The host in lower-case ASCII (punycode for other scripts), without a final dot."""
    return url.raw_host.decode("ascii", "replace").rstrip(".").lower()


def barred(address: str, *, private: bool = False) -> str:
    """Why `address` may not be reached, "" when it may. `private` allows all but metadata services."""
    for inner in _meant(ipaddress.ip_address(address.partition("%")[0])):
        if inner in _METADATA:
            return "a metadata service"
        if private:
            continue
        if inner.is_loopback or inner.is_unspecified:
            return "this machine"
        if inner.is_link_local:
            return "a link-local address"
        if not inner.is_global or inner.is_multicast or inner.is_reserved or inner in _LOCAL_NAT64:
            return "a private address"
    return ""


def _meant(ip: Address) -> list[Address]:
    """The addresses to judge: the IPv4 one inside a mapped or translated IPv6 address, both ends of a tunnel, or `ip`."""
    if isinstance(ip, ipaddress.IPv4Address):
        return [ip]
    if ip.ipv4_mapped:
        return [ip.ipv4_mapped]
    if ip in _NAT64 or (int(ip) >> 32 == 0 and int(ip) > 1):
        return [ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)]
    return [ip, *([ip.sixtofour] if ip.sixtofour else []), *(ip.teredo or ())]


async def system_addresses(host: str, port: int) -> list[str]:
    """What the system's resolver says, each address once."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(row[4][0]) for row in found))
