"""Logins to HTTP servers: made with a browser, stored, renewed once for all processes, and refused in one line."""

from __future__ import annotations

import asyncio
import socket
import stat
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import msgspec
import pytest

from friday_cli.core.protocol.errors import FridayError
from friday_cli.core.text.known_keys import mask_keys
from friday_cli.mcp.entry import OAuthSettings, ServerEntry
from friday_cli.mcp.login import log_in
from friday_cli.mcp.oauth import ServerAuth
from friday_cli.mcp.tokens import Login, LoginFile, logins_dir, remove_logins
from tests.servers.oauth_server import OAuthService, oauth_server


@pytest.fixture
def service() -> Iterator[OAuthService]:
    with oauth_server() as running:
        yield running


def entry(service: OAuthService, **settings: object) -> ServerEntry:
    return ServerEntry(name="notes", transport="http", url=service.url, oauth=msgspec.convert(settings, OAuthSettings))


async def logged_in(service: OAuthService, *, spare: bool = False, **settings: object) -> Login:
    """Log in as a person does whose browser is on this machine. `spare`: the browser opens a connection that it never uses."""
    visits = set()
    spares: list[socket.socket] = []

    def show(line: str) -> None:
        if line.startswith("http"):
            visits.add(asyncio.ensure_future(asyncio.to_thread(visit, line)))

    def visit(address: str) -> None:
        if spare:
            back = urlsplit(parse_qs(urlsplit(address).query)["redirect_uri"][0])
            spares.append(socket.create_connection((back.hostname or "", back.port or 0)))
        with urllib.request.urlopen(address, timeout=20) as page:
            page.read()

    try:
        async with asyncio.timeout(30):
            return await log_in(entry(service, **settings), show)
    finally:
        for each in spares:
            each.close()
        await asyncio.gather(*visits)


@asynccontextmanager
async def client(service: OAuthService) -> AsyncIterator[tuple[httpx2.AsyncClient, ServerAuth]]:
    """The HTTP client of a session."""
    auth = ServerAuth(entry(service))
    async with httpx2.AsyncClient(auth=auth) as found:
        yield found, auth


async def call(service: OAuthService) -> tuple[int, str]:
    """One request of a session: the status and the problem."""
    async with client(service) as (connection, auth):
        return (await connection.post(service.url, json={})).status_code, auth.problem


async def test_a_login_is_stored_for_its_address_and_masked_everywhere(home: Path, service: OAuthService) -> None:
    login = await logged_in(service)
    assert (login.server, login.issuer, await call(service)) == (service.url, f"{service.origin}", (200, ""))
    (path,) = logins_dir().glob("*.json")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    for secret in (login.tokens["access_token"], login.tokens["refresh_token"]):
        assert secret in path.read_text()
        assert mask_keys(f"<{secret}>") == "<[secret]>"
        assert secret not in repr(login)
    LoginFile(entry(service)).write(msgspec.structs.replace(login, tokens={"access_token": "only-written"}))
    assert mask_keys("<only-written>") == "<[secret]>"
    LoginFile(entry(service)).write(login)
    moved = msgspec.structs.replace(entry(service), url=f"{service.origin}/other")
    assert (LoginFile(moved).read(), LoginFile(entry(service, clientId="else")).read()) == (None, None)
    assert (remove_logins("note"), remove_logins("notes"), remove_logins("notes")) == (False, True, False)
    assert await call(service) == (401, "it needs a login. Run `friday mcp login notes`.")


async def test_a_login_ends_although_the_browser_keeps_a_connection(home: Path, service: OAuthService) -> None:
    assert (await logged_in(service, spare=True)).server == service.url


async def test_an_expired_login_is_renewed_once_by_all_processes(home: Path, service: OAuthService) -> None:
    service.expires_in = 0
    await logged_in(service)
    service.requests.clear()
    service.expires_in = 3600
    async with client(service) as (one, _), client(service) as (other, _):
        answers = await asyncio.gather(*(c.post(service.url, json={}) for c in (one, other, one, other)))
        assert [a.status_code for a in answers] == [200] * 4
        assert sorted(service.requests) == ["POST /mcp 200"] * 4 + ["POST /token 200"]
        service.revoke()  # the end was not known, as with a server that names none
        answers = await asyncio.gather(*(c.post(service.url, json={}) for c in (one, other)))
        assert [a.status_code for a in answers] == [200] * 2
    assert service.requests.count("POST /token 200") == 2


@pytest.mark.parametrize(
    ("broken", "problem", "kept"),
    [
        ("refused", "its login has expired. Run `friday mcp login notes`.", False),
        ("down", "its login could not be renewed: HTTP 503.", True),
        ("moved", "its login could not be renewed: HTTP 404.", True),
        ("scope", "it asks for more rights than you gave (write). Run `friday mcp login notes`.", True),
    ],
)
async def test_a_request_without_a_login_says_what_to_do(
    home: Path, service: OAuthService, broken: str, problem: str, kept: bool
) -> None:
    await logged_in(service)
    if broken == "scope":
        service.scope = "write"
    else:
        service.revoke(refresh=broken == "refused")
        service.down = {"down": 503, "moved": 404}.get(broken, 0)
    status, said = await call(service)
    assert (status, said) == (403 if broken == "scope" else 401, problem)
    stored = LoginFile(entry(service)).read()
    assert stored is not None
    assert bool(stored.tokens) is kept
    if broken == "scope":
        await logged_in(service)
        assert service.authorized[-1]["scope"] == "write"
        assert await call(service) == (200, "")
    assert len(service.registered) == 1  # the registration is used again


async def test_a_refusal_for_want_of_rights_keeps_what_another_process_renewed(
    home: Path, service: OAuthService
) -> None:
    await logged_in(service)
    async with client(service) as (connection, _):
        assert (await connection.post(service.url, json={})).status_code == 200
        renewed = LoginFile(entry(service)).read()
        assert renewed is not None
        renewed.tokens["refresh_token"] = "from-another-process"
        LoginFile(entry(service)).write(renewed)
        service.scope = "write"
        assert (await connection.post(service.url, json={})).status_code == 403
    stored = LoginFile(entry(service)).read()
    assert stored is not None
    assert (stored.tokens["refresh_token"], stored.wanted_scope) == ("from-another-process", "write")


async def test_the_entry_decides_client_and_scope(home: Path, service: OAuthService) -> None:
    await logged_in(service, clientId="given", scope="read")
    (asked,) = service.authorized
    assert (asked["client_id"], asked["scope"], service.registered) == ("given", "read", [])


async def test_an_answer_of_another_issuer_is_refused(home: Path, service: OAuthService) -> None:
    service.iss = "https://else.example"
    with pytest.raises(FridayError, match=r"The login to notes failed: .*the answer names another issuer"):
        await logged_in(service)
    assert not LoginFile(entry(service)).read()
    assert "POST /token 200" not in service.requests


async def test_a_login_in_the_clear_is_refused(home: Path, service: OAuthService) -> None:
    service.consents_at = "http://login.example"
    with pytest.raises(FridayError, match=r"The login to notes failed: http://login\.example/authorize is not https\."):
        await logged_in(service)
    assert service.authorized == []
