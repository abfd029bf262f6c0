"""What cannot become right by waiting ends at once, with the likely cause: the other scheme, not HTTP, a proxy that is none."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from friday_cli.llm.transport import Transport
from friday_cli.llm.transport.endpoint import ANSWERED
from tests.llm.transport.test_transports import fails
from tests.servers.certificate import self_signed
from tests.servers.script_player import Reply, Wait, named, playing

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(autouse=True)
def nobody_answered_before() -> None:
    """The port of a server here may have been that of another test's service."""
    ANSWERED.clear()


@asynccontextmanager
async def listening(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """The host and port of a server that answers a connection with `answer`, then closes it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(reader, writer)
        except (OSError, ssl.SSLError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()  # `async with` waits for the connections from Python 3.12.1 on


def sends(data: bytes) -> Answer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        await reader.read(100_000)

    return answer


async def plain_service(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers HTTP, and waits for the rest of anything else."""
    head = await reader.read(10)
    if head.startswith((b"OPTIONS", b"POST")):
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        await writer.drain()
    else:
        await reader.read()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"SSH-2.0-OpenSSH_9\r\n\r\n", "does not speak HTTP: illegal"),
        (b"HTTP/1.1 200 OK\r\n" + b"X-A: " + b"y" * 1_000_000 + b"\r\n", "sends longer headers"),
    ],
)
async def test_a_port_that_does_not_speak_http(transport: Transport, data: bytes, words: str) -> None:
    async with listening(sends(data)) as host:
        error = await fails(transport, None, base_url=f"http://{host}")
    assert error.kind == "config", error
    assert words in error.message
    assert host in error.message


async def test_http_to_a_port_with_tls(transport: Transport, tmp_path: Path) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*self_signed(tmp_path))
    async with listening(plain_service, context) as host:
        error = await fails(transport, None, base_url=f"http://{host}")
    assert (error.kind, "speaks https, not http" in error.message) == ("config", True), error
    assert "https://" in error.hint


async def test_https_to_a_plain_port(transport: Transport) -> None:
    async with listening(plain_service) as host:
        error = await fails(transport, None, base_url=f"https://{host}", connect_s=0.5)
    assert (error.kind, "speaks http, not https" in error.message) == ("config", True), error
    async with listening(sends(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as host:
        error = await fails(transport, None, base_url=f"https://{host}")
    assert (error.kind, "http://" in error.hint) == ("config", True), error


@pytest.mark.parametrize(
    ("value", "words"),
    [("not a url", "not the address of a proxy"), ("http://", "not the address of a proxy"), ("ftp://p:1", "not the address of a proxy"),
     ("http://p:99999", "not the address of a proxy"), ("socks5://p:1", "needs the extra `socks` of friday-cli")],
)  # fmt: skip
async def test_a_proxy_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch, value: str, words: str) -> None:
    monkeypatch.setenv("http_proxy", value)
    monkeypatch.setitem(__import__("sys").modules, "socksio", None)
    error = await fails("http", None, base_url="http://model.example")
    assert error.kind == "config", error
    assert words in error.message
    assert "httpx" not in str(error) + error.hint


async def test_a_stream_that_repeats_itself_is_not_alive() -> None:
    event = {"type": "response.output_text.delta", "delta": "x", "sequence_number": 7}
    events = [step for _ in range(6_000) for step in (named(event), Wait(0.01))]  # a minute of them
    async with playing(Reply(*events)) as server:
        error = await fails("http", server, idle_s=60, event_idle_s=0.2)
    assert error.kind == "stall"
    assert "no events" in error.message
