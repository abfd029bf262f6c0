"""Names what is wrong with an address that waiting does not make right: it speaks the other one of http and https, or no HTTP."""

from __future__ import annotations

import asyncio

from friday_cli.core.protocol.errors import ProviderError

from .endpoint import ANSWERED, Endpoint
from .text import one_line

PROBE_S = 3.0
"""Seconds that the service has to answer in the other way."""
_REQUEST = b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


_SILENT = (
    "disconnected without",
    "reset by peer",
    "no answer in time",
    "connection was closed",
    "unexpected eof",
    "eof occurred",
    "timed out",
)
"""What is said of a service that closes the connection, or does not answer, because it waits for the other scheme."""


PLAIN_HTTP = (
    "WRONG_VERSION_NUMBER",
    "WRONG VERSION NUMBER",
    "HTTP_REQUEST",
    "UNKNOWN_PROTOCOL",
    "PACKET_LENGTH_TOO_LONG",
    "RECORD_LAYER_FAILURE",
)
"""What OpenSSL says of an answer that is not TLS."""


def not_http(endpoint: Endpoint, text: str) -> ProviderError | None:
    """The error for an answer that waiting does not change; None for any other."""
    where = f"{endpoint.service} at {endpoint.host}"
    if "Receive buffer too long" in text:
        what = "sends longer headers than any model service"
        return ProviderError("config", f"{where} {what}.", hint="Check base_url: it may be another kind of server.")
    if "illegal status line" not in text and "illegal request line" not in text:
        return None
    said = one_line(endpoint.redact(text), 120).rstrip(".")
    return ProviderError(
        "config", f"{where} does not speak HTTP: {said}.", hint="Check the host and the port of base_url."
    )


async def named(endpoint: Endpoint, failed: ProviderError) -> ProviderError:
    """The error `failed` of a request without an answer, or the one that names the scheme of the service. One that answered before
    is not asked for its scheme: that takes seconds, in which an outage may be over."""
    from .proxy import proxy_for

    silent = failed.kind == "network" and any(words in failed.message.lower() for words in _SILENT)
    foreign = failed.kind == "config" and "does not speak HTTP" in failed.message
    if not (silent or foreign) or endpoint.origin in ANSWERED or proxy_for(endpoint):
        return failed
    return await wrong_scheme(endpoint) or failed


async def wrong_scheme(endpoint: Endpoint) -> ProviderError | None:
    """The error that names the scheme of the service; None if it does not speak the other one. Nothing of a request is sent."""
    secure = endpoint.address.scheme == "https"
    try:
        async with asyncio.timeout(PROBE_S):
            speaks = await (_speaks_http if secure else _speaks_tls)(endpoint)
    except (OSError, ValueError):
        return None
    if not speaks:
        return None
    own, other = ("https", "http") if secure else ("http", "https")
    return ProviderError(
        "config",
        f"{endpoint.service} at {endpoint.host} speaks {other}, not {own}.",
        hint=f"Is this an {other}:// address? Then set base_url to it.",
    )


async def _speaks_tls(endpoint: Endpoint) -> bool:
    import ssl  # loaded only with https

    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is sent, whoever it is
    address = endpoint.address
    _, writer = await asyncio.open_connection(address.hostname, address.port or 80, ssl=context)
    writer.transport.abort()
    return True


async def _speaks_http(endpoint: Endpoint) -> bool:
    address = endpoint.address
    reader, writer = await asyncio.open_connection(address.hostname, address.port or 443)
    try:
        writer.write(_REQUEST)
        await writer.drain()
        return (await reader.read(5)).startswith(b"HTTP")
    finally:
        writer.transport.abort()
