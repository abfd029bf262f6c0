"""What only the plain transport without httpx2 has to do; test_transports.py asks the same of it as of the others."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

import h11
import pytest

from friday_cli.core.protocol.errors import ProviderError
from friday_cli.llm.transport import Endpoint, get_transport, h11_client
from friday_cli.llm.transport.h11_client import MAX_PIECE, Response
from tests.servers.certificate import self_signed
from tests.servers.script_player import Reply, named, playing

A, STOP = {"type": "a", "n": 1}, {"type": "message_stop"}


def endpoint(url: str) -> Endpoint:
    return Endpoint(service="svc", base_url=url, headers={"x-api-key": "k-of-a-test"})


async def read(url: str) -> list[dict[str, Any]]:
    async with aclosing(get_transport("http")(endpoint(url), "/v1/messages", {"model": "m"})) as events:
        return [event async for event in events]


@pytest.mark.parametrize(
    ("url", "env", "served"),
    [
        ("http://127.0.0.1:1/v1", {}, True),
        ("http://127.0.0.1:1/v1", {"http_proxy": "http://proxy:1"}, True),
        ("http://[::1]:1", {}, True),
        ("http://model.example/v1", {}, True),
        ("https://model.example/v1?version=1", {}, True),
        ("https://model.example", {"HTTPS_PROXY": "http://proxy:1"}, False),
        ("https://model.example", {"all_proxy": "socks5://proxy:1"}, False),
        *(
            (url, {}, False)
            for url in (
                "https://user:word@model.example",
                "https://modèle.example",
                "https://model.example/a b",
                "https://model.example:99999",
                "ftp://model.example",
                "nonsense",
                "",
            )
        ),
    ],
)
def test_what_it_serves(
    url: str, env: dict[str, str], served: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Other systems have proxies and certificates of their own."""
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    for platform, here in (("linux", served), ("darwin", served and "model" not in url)):
        monkeypatch.setattr(sys, "platform", platform)
        assert h11_client.supports(endpoint(url)) is here


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that vouches for itself, and its key."""
    return self_signed(tmp_path)


def hash_of(certificate: Path) -> str:
    """The name under which OpenSSL looks the certificate up in a folder."""
    command = ["openssl", "x509", "-noout", "-hash", "-in", str(certificate)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


async def test_https(certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate)
    async with playing(Reply(named(A, STOP)), tls=tls) as server:
        monkeypatch.delenv("SSL_CERT_FILE", raising=False)
        monkeypatch.delenv("SSL_CERT_DIR", raising=False)
        with pytest.raises(ProviderError) as caught:
            await read(server.url)
        assert caught.value.kind == "config", "waiting does not help"
        assert "SSL_CERT_FILE" in str(caught.value)
        assert server.requests == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        for _ in range(2):
            assert await read(server.url) == [A, STOP]
        assert server.requests[0].headers["host"] == server.url.removeprefix("https://")
        with pytest.raises(ProviderError, match="Cannot reach svc"):
            await read(server.url.replace("127.0.0.1", "localhost"))  # not a name of the certificate


@pytest.mark.parametrize(
    ("in_folder", "in_file", "reached"), [(True, False, True), (False, True, True), (False, False, False)]
)
async def test_the_file_of_the_system_is_read_only_if_its_folder_is_not_enough(
    in_folder: bool,
    in_file: bool,
    reached: bool,
    certificate: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    folder, file = tmp_path / "certs", tmp_path / "bundle.pem"
    folder.mkdir()
    name = hash_of(certificate[0]) if in_folder else "00000000"
    (folder / f"{name}.0").write_bytes(certificate[0].read_bytes() if in_folder else b"")
    file.write_bytes(certificate[0].read_bytes() if in_file else b"this cannot be read")
    for variable in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(variable, raising=False)
    paths = ssl.get_default_verify_paths()._replace(openssl_cafile=str(file), openssl_capath=str(folder))
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: paths)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate)
    async with playing(Reply(named(A, STOP)), tls=tls) as server:
        if reached:
            assert await read(server.url) == [A, STOP]
            return
        for _ in range(2):
            with pytest.raises(ProviderError, match="Cannot reach svc"):
                await read(server.url)


def unanswered() -> tuple[list[socket.socket], tuple[Any, ...]]:
    """Sockets to close, and an address of this machine that answers no attempt to connect: its queue is full. IPv6 where the
    machine has it."""
    family, host = (socket.AF_INET6, "::1") if socket.has_ipv6 and _has_loopback6() else (socket.AF_INET, "127.0.0.2")
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.bind((host, 0))
    listening.listen(0)
    sockets = [listening]
    for _ in range(3):
        sockets.append(waiting := socket.socket(family, socket.SOCK_STREAM))
        waiting.setblocking(False)
        waiting.connect_ex(listening.getsockname())
    return sockets, (family, socket.SOCK_STREAM, 6, "", listening.getsockname())


def _has_loopback6() -> bool:
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as tried:
        try:
            tried.bind(("::1", 0))
        except OSError:
            return False
    return True


@pytest.mark.parametrize("eager", [False, True])
async def test_the_second_address_of_a_name_is_tried_where_the_first_does_not_answer(
    eager: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Textual makes all tasks eager, where asyncio's own attempt at two addresses fails in early releases of 3.12 and 3.13."""
    if eager:
        factory = getattr(asyncio, "eager_task_factory", None)
        if factory is None:
            pytest.skip("Python 3.11 has no eager tasks")
        asyncio.get_running_loop().set_task_factory(factory)
    sockets, silent = unanswered()
    async with playing(Reply(named(A, STOP)), Reply(named(A, STOP))) as server:
        port = int(server.url.rpartition(":")[2])
        answers = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))
        asked: list[str] = []

        def lookup(host: str, *_: Any, **__: Any) -> list[Any]:
            asked.append(host)
            return [silent, answers]

        monkeypatch.setattr(socket, "getaddrinfo", lookup)
        assert await read(f"http://localhost:{port}") == [A, STOP]
        assert asked == ["localhost"]
        assert await read(server.url) == [A, STOP]  # an address is not looked up
        assert asked == ["localhost"]
        await h11_client.aclose_all()
    for held in sockets:
        held.close()


async def test_a_packed_answer_is_unpacked_and_a_packing_that_is_unknown_is_said() -> None:
    body = named(A, STOP)
    for coding, sent in (("gzip", gzip.compress(body)), ("identity", body)):
        async with playing(Reply(sent, content_encoding=coding, split=7)) as server:
            assert await read(server.url) == [A, STOP]
    async with playing(Reply(b"\x1b\x00", content_encoding="br")) as server:
        with pytest.raises(ProviderError) as caught:
            await read(server.url)
    assert caught.value.kind == "garbled"


async def test_a_packed_answer_is_unpacked_in_pieces() -> None:
    """A few kilobytes become gigabytes: the limit of a reply counts before all of it is in memory."""

    class Once:
        left: bytes | None = gzip.compress(bytes(5 * MAX_PIECE))

        async def read_chunk(self) -> bytes | None:
            found, self.left = self.left, None
            return found

    head = h11.Response(status_code=200, headers=[("content-encoding", "gzip")])
    sizes = [len(piece) async for piece in Response(Once(), head, "").aiter_bytes()]  # type: ignore[arg-type]
    assert (max(sizes), sum(sizes)) == (MAX_PIECE, 5 * MAX_PIECE)


@pytest.mark.parametrize("good_bye", [b"", b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n\r\n"])
async def test_a_connection_that_the_service_gave_up_is_not_used_again(good_bye: bytes) -> None:
    body = named(A, STOP)
    head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body)
    gone: list[asyncio.Event] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        gone.append(over := asyncio.Event())
        request = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(request.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]))
        writer.write(head + body)
        await writer.drain()
        writer.write(good_bye)
        writer.close()
        await writer.wait_closed()
        over.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        for number in range(3):
            assert await read(url) == [A, STOP]
            await asyncio.wait_for(gone[number].wait(), 60)
            await asyncio.sleep(0)  # what was said is heard in the next round of the loop
    assert len(gone) == 3


async def test_a_slow_reader_gets_everything_and_holds_little(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    received = h11_client.Connection.data_received

    def read(self: h11_client.Connection, data: bytes) -> None:
        reads.append(len(data))
        received(self, data)

    monkeypatch.setattr(h11_client.Connection, "data_received", read)
    piece = bytes(range(256)) * 64
    async with playing(Reply(piece * 300, split=len(piece))) as server:
        at = endpoint(server.url)
        answer = await h11_client.post(at, at.url("/v1"), [b"{}"], {})
        got, largest = 0, 0
        async for data in answer.aiter_bytes():
            got += len(data)
            largest = max(largest, len(data))
            await asyncio.sleep(0.001)
        await answer.aclose()
    assert got == 300 * len(piece)
    assert largest <= h11_client.READ_BUFFER_BYTES + 512 * 1024
    assert max(reads) <= h11_client.READ_BYTES
