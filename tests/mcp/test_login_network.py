"""What a login may reach: addresses of a public server never lead into this machine, its network or a cloud's metadata service."""

from __future__ import annotations

import ipaddress
import json
import socket
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from friday_cli.core.protocol.errors import FridayError
from friday_cli.mcp import login_network, oauth
from friday_cli.mcp.entry import ServerEntry
from friday_cli.mcp.login import log_in
from friday_cli.mcp.login_network import LoginNetwork, LoginRefused

SERVER = "https://notes.example/mcp"
NAMES = {
    "notes.example": "93.184.216.34", "issuer.example": "93.184.216.35", "inside.example": "10.0.0.1", "loop.example": "127.0.0.1",
    "metadata.google.internal": "169.254.169.254", "mapped.example": "::ffff:127.0.0.1", "nat.example": "64:ff9b::a9fe:a9fe",
    "intranet.corp": "10.1.1.1", "login.corp": "10.1.1.2",
}  # fmt: skip
CANARY = "CANARY-METADATA-CREDENTIALS"
INSIDE = [
    "https://127.0.0.1/x", "https://localhost/x", "https://169.254.169.254/latest/meta-data", "https://10.0.0.1/x", "https://[::1]/x",
    "https://inside.example/x", "https://loop.example/x", "https://metadata.google.internal/x", "https://mapped.example/x",
    "https://nat.example/x", "https://2130706433/x", "https://0x7f.1/x", "https://0/x", "https://192.168.1.1:8443/x", "https://unknown.example/x",
    "http://issuer.example/x", "file:///etc/passwd", "gopher://issuer.example/x",
]  # fmt: skip


async def resolve(host: str, port: int) -> Sequence[str]:
    """As the system does, numbers in odd forms included."""
    if host in NAMES:
        return [NAMES[host]]
    if host == "localhost":
        return ["127.0.0.1"]
    odd = {"2130706433": "127.0.0.1", "0x7f.1": "127.0.0.1", "0": "0.0.0.0"}
    try:
        return [str(ipaddress.ip_address(odd.get(host, host)))]
    except ValueError:
        raise OSError("no such host") from None


def pinned(host: str) -> str:
    """The IP address of the host of a request, with a port or without: of a name, or of a number of IPv4 however it is written."""
    name = host.partition(":")[0].rstrip(".")
    try:
        return socket.inet_ntoa(socket.inet_aton(name))  # "172.016.1" is 172.14.0.1
    except OSError:
        return NAMES.get(name, host)


class Internet:
    """Answers as the server and the issuer do; `said` replaces what one of them says. `reached` are the hosts that got requests."""

    def __init__(self, **said: object) -> None:
        self.said = said
        self.reached: list[str] = []

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        host, path = request.headers["host"], request.url.path
        assert request.url.host in (pinned(host), host.strip("[]")), "the address is pinned"
        self.reached.append(host)
        if host not in ("notes.example", "issuer.example", "intranet.corp", "login.corp"):
            return httpx2.Response(200, json={"secret": CANARY})
        home = "login.corp" if host in ("intranet.corp", "login.corp") else "issuer.example"
        if path == "/mcp":
            where = self.said.get("resource_metadata", f"https://{host}/meta")
            return httpx2.Response(401, headers={"www-authenticate": f'Bearer resource_metadata="{where}"'})
        if path == "/meta" or "oauth-protected-resource" in path:
            return self._said("meta", {"resource": f"https://{host}/mcp", "authorization_servers": [f"https://{home}"]})
        if "well-known" in path:
            found = {
                "issuer": f"https://{home}",
                "authorization_endpoint": f"https://{home}/authorize",
                "token_endpoint": f"https://{home}/token",
                "registration_endpoint": f"https://{home}/register",
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
            }
            return self._said("issuer", found)
        if path == "/register":
            return self._said("registered", {**json.loads(request.content), "client_id": "c"}, 201)
        return self._said("token", {"access_token": "t", "token_type": "Bearer"})

    def _said(self, name: str, usual: dict[str, object], status: int = 200) -> httpx2.Response:
        said = self.said.get(name, {})
        return said if isinstance(said, httpx2.Response) else httpx2.Response(status, json={**usual, **said})  # type: ignore[dict-item]

    async def login(self, server: str = SERVER) -> str:
        """The words that the login fails with; "" if it would go on to the browser."""
        network = LoginNetwork(server, resolve=resolve, transport=httpx2.MockTransport(self.answer))
        shown: list[str] = []

        class Shown(Exception):
            pass

        def show(line: str) -> None:
            shown.append(line)
            raise Shown

        try:
            await log_in(ServerEntry(name="notes", transport="http", url=server), show, network=network)
        except Shown:
            return ""
        except FridayError as failed:
            assert shown == []
            return str(failed)
        raise AssertionError("no login without a browser")


WAYS = {
    "resource_metadata": lambda url: {"resource_metadata": url},
    "authorization_servers": lambda url: {"meta": {"authorization_servers": [url]}},
    "registration_endpoint": lambda url: {"issuer": {"registration_endpoint": url}},
    "authorization_endpoint": lambda url: {"issuer": {"authorization_endpoint": url}},
    "token_endpoint": lambda url: {"issuer": {"token_endpoint": url}},
    "redirect of the metadata": lambda url: {"meta": httpx2.Response(302, headers={"location": url})},
    "redirect of the issuer": lambda url: {"issuer": httpx2.Response(307, headers={"location": url})},
    "redirect of the registration": lambda url: {"registered": httpx2.Response(308, headers={"location": url})},
}


@pytest.fixture(autouse=True)
def no_proxy_and_no_browser(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "DISPLAY",
        "WAYLAND_DISPLAY",
    ):
        monkeypatch.delenv(name, raising=False)


async def test_the_login_of_the_table_works_without_what_it_changes() -> None:
    internet = Internet()
    assert await internet.login() == ""
    assert set(internet.reached) == {"notes.example", "issuer.example"}


@pytest.mark.parametrize("url", INSIDE)
@pytest.mark.parametrize("way", WAYS)
async def test_no_address_of_a_public_server_leads_inside(way: str, url: str) -> None:
    internet = Internet(**WAYS[way](url))
    told = await internet.login()
    assert set(internet.reached) <= {"notes.example", "issuer.example"}
    assert CANARY not in told
    assert told or way.startswith("redirect") or not url.startswith("http"), "the library leaves out what is no address"


async def test_a_server_inside_may_name_addresses_inside_but_no_metadata_service() -> None:
    internet = Internet()
    assert await internet.login("https://intranet.corp/mcp") == ""
    assert set(internet.reached) == {"intranet.corp", "login.corp"}
    internet = Internet(resource_metadata="https://169.254.169.254/latest/meta-data")
    assert "is not used" in await internet.login("https://intranet.corp/mcp")
    assert set(internet.reached) == {"intranet.corp"}


async def test_an_address_of_the_login_with_a_fragment_is_refused() -> None:
    internet = Internet(**WAYS["authorization_endpoint"]("https://issuer.example/authorize#part"))
    assert "has a `#`" in await internet.login()


async def test_a_server_in_the_clear_gets_no_request() -> None:
    internet = Internet()
    assert "http://notes.example/mcp is not https" in await internet.login("http://notes.example/mcp")
    assert internet.reached == []


@pytest.mark.parametrize(
    "answers",
    [
        [["10.0.0.1"], ["93.184.216.34"]],
        [["93.184.216.34"], ["10.0.0.1"]],
        [["93.184.216.34", "10.0.0.1"]],
        [["::1", "2606:4700::1111"]],
        [[], ["127.0.0.1"], ["93.184.216.34"]],
    ],
)
async def test_a_server_whose_name_leads_inside_and_outside_is_not_one_inside(answers: list[list[str]]) -> None:
    waiting = list(answers)

    async def moving(host: str, port: int) -> Sequence[str]:
        if host != "notes.example":
            return await resolve(host, port)
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    network = LoginNetwork(SERVER, resolve=moving)
    for _ in range(3):
        pinned_to, _ = await network.require(SERVER) if answers[0] else ([], None)
        assert pinned_to == answers[0], "a name that was moved is reached where it was"
        if answers[0] != ["10.0.0.1"]:
            with pytest.raises(LoginRefused, match="inside your network"):
                await network.require("https://inside.example/x")


@pytest.mark.parametrize("part", ["meta", "issuer", "registered"])
@pytest.mark.parametrize("said", [
    httpx2.Response(200, json={"secret": CANARY}), httpx2.Response(200, text=CANARY), httpx2.Response(500, text=CANARY),
    httpx2.Response(400, json={"error": CANARY, "error_description": CANARY}), httpx2.Response(200, json=[CANARY]),
    httpx2.Response(200, json={"issuer": 5, "authorization_servers": CANARY, "client_id": {"x": CANARY}}),
], ids=lambda said: f"{said.status_code} {said.text[:12]}")  # fmt: skip
async def test_what_a_service_answers_is_in_no_error(part: str, said: httpx2.Response) -> None:
    told = await Internet(
        **{part: httpx2.Response(said.status_code, content=said.content, headers=said.headers)}
    ).login()
    for word in (CANARY, "pydantic", "validation error", "input_value", "Traceback"):
        assert word not in told


async def test_requests_and_answers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_network, "MOST_REQUESTS", 3)
    assert "it takes more than 3 requests" in await Internet().login()
    monkeypatch.undo()
    monkeypatch.setattr(login_network, "MOST_BYTES", 100)

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 50

    assert "its answer could not be read" in await Internet(meta=httpx2.Response(200, content=endless())).login()


def test_every_failure_has_words_of_our_own() -> None:
    kinds = [
        httpx2.RemoteProtocolError,
        httpx2.ConnectError,
        httpx2.ReadTimeout,
        httpx2.StreamError,
        oauth.OAuthFlowError,
        oauth.OAuthTokenError,
        oauth.OAuthRegistrationError,
        ValueError,
    ]
    for kind in kinds:
        assert CANARY not in oauth.failure_text(kind(CANARY)), kind


async def test_what_the_page_of_an_issuer_answers_is_not_shown() -> None:
    async def consent(address: str) -> str:
        state = parse_qs(urlsplit(address).query)["state"][0]
        return f"/callback?error={CANARY}&error_description={CANARY}&state={state}"

    network = LoginNetwork(SERVER, resolve=resolve, transport=httpx2.MockTransport(Internet().answer))
    auth = oauth.ServerAuth(
        ServerEntry(name="notes", transport="http", url=SERVER), consent=consent, force=True, network=network
    )
    with pytest.raises(LoginRefused, match="the issuer answered with an error"):
        async with oauth.http_client(network, auth=auth) as client:
            await client.post(SERVER, json={})
