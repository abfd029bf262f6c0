"""Logging in to a server with a person: the browser comes back to a port on 127.0.0.1, or its address is pasted."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthFlowError, OAuthRegistrationError

from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.system import own_programs

from .entry import ServerEntry
from .login_network import LoginNetwork, LoginRefused
from .oauth import Consent, ServerAuth, failure_text, http_client
from .tokens import Login, LoginFile

CONSENT_S = 600.0
"""How long a person has for the login, in seconds."""
CALLBACK = "/callback"
_PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
_HEADERS = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}
_LONGEST_PASTE = 20_000

Show = Callable[[str], None]


async def log_in(entry: ServerEntry, show: Show, *, browser: bool = True, network: LoginNetwork | None = None) -> Login:
    """Let a person log in to the server, store the login and return it. `show` prints what the person has to do. `network` sends
    the requests.

    `browser` False: the person opens the address anywhere and pastes the address of the page that does not load.
    Raises FridayError.
    """
    async with _listening(entry) as listener:
        consent = listener.consent(show) if browser else _paste(show)
        network = network or LoginNetwork(entry.url)
        auth = ServerAuth(entry, consent=consent, redirect_uri=listener.redirect_uri, force=True, network=network)
        try:
            async with http_client(network, headers=dict(entry.headers), auth=auth) as client:
                response = await client.post(entry.url, json=_PING, headers=_HEADERS)
        except OAuthRegistrationError as failed:
            hint = "If the service gave you a client id, put it into the server's entry as oauth.clientId."
            text = f"Friday could not register for a login to {entry.name}: {failure_text(failed)}."
            raise FridayError(text, hint=hint) from None
        except TimeoutError:
            hint = f"Run `friday mcp login {entry.name}` again."
            raise FridayError(f"No login for {entry.name} within {CONSENT_S / 60:g} minutes.", hint=hint) from None
        except (
            LoginRefused,
            OAuthFlowError,
            httpx2.HTTPError,
            httpx2.StreamError,
            httpx2.InvalidURL,
            OSError,
            ValueError,
        ) as failed:
            raise FridayError(f"The login to {entry.name} failed: {failure_text(failed)}.") from None
    login = LoginFile(entry).read()
    if login is None or response.status_code in (401, 403):
        raise FridayError(f"{entry.name} refuses the new login: HTTP {response.status_code}.")
    return login


class _Listener:
    """Takes the browser's return on 127.0.0.1."""

    def __init__(self) -> None:
        self.redirect_uri = ""
        self._state = ""
        self._answering: set[asyncio.Task[None] | None] = set()
        self._returned: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def consent(self, show: Show) -> Consent:
        """Opens the browser and waits for its return. Raises TimeoutError."""

        async def consent(address: str) -> str:
            self._state = parse_qs(urlsplit(address).query)["state"][0]
            opened = _open_browser(address)
            show("Your browser shows the login. If it does not, open this address:" if opened else "Open this address:")
            show(address)
            return await asyncio.wait_for(self._returned, CONSENT_S)

        return consent

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request of the browser. Only one with the state of this login counts."""
        self._answering.add(task := asyncio.current_task())
        try:
            target = (await reader.readuntil(b"\r\n")).decode("latin-1").split(" ")[1]
            parts = urlsplit(target)
            known = parts.path == CALLBACK and self._state and parse_qs(parts.query).get("state") == [self._state]
            status, text = (
                ("200 OK", "You can close this page and return to Friday.") if known else ("404 Not Found", "")
            )
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\n"
                f"Connection: close\r\n\r\n{text}".encode()
            )
            await writer.drain()
            if known and not self._returned.done():
                self._returned.set_result(target)
        except (OSError, IndexError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # not a browser
        finally:
            writer.close()
            self._answering.discard(task)

    async def close(self) -> None:
        """End the connections that a browser opened in advance and does not use."""
        open_ = [task for task in self._answering if task is not None]
        for task in open_:
            task.cancel()
        await asyncio.gather(*open_, return_exceptions=True)


@asynccontextmanager
async def _listening(entry: ServerEntry) -> AsyncIterator[_Listener]:
    """A listener on the port of the settings, else on that of the last login, else on a free one. Raises UsageError."""
    wanted = entry.oauth.callback_port if entry.oauth else 0
    stored = LoginFile(entry).read()
    before = [urlsplit(uri).port or 0 for uri in (stored.client.get("redirect_uris") or [])[:1]] if stored else []
    listener = _Listener()
    for port in [wanted] if wanted else [*before, 0]:
        try:
            server = await asyncio.start_server(listener.answer, "127.0.0.1", port)
            break
        except OSError as failed:
            problem = f"port {port} on 127.0.0.1: {failed.strerror}"
    else:
        raise UsageError(f"The login to {entry.name} cannot wait for the browser: {problem}.")
    try:
        listener.redirect_uri = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{CALLBACK}"
        yield listener
    finally:
        server.close()  # `async with` waits for the connections from Python 3.12.1 on
        await listener.close()


def _paste(show: Show) -> Consent:
    async def consent(address: str) -> str:
        show("Open this address in a browser and log in:")
        show(address)
        show("Then paste the address of the page that does not load, and press Enter:")
        return await _line()

    return consent


async def _line() -> str:
    """One line of standard input. Raises LoginRefused if it ends."""
    loop, typed = asyncio.get_running_loop(), b""
    handle, ready = sys.stdin.fileno(), asyncio.Event()
    try:
        loop.add_reader(handle, ready.set)
        watched = True
    except OSError:
        watched = False  # a file, which never waits
    try:
        while b"\n" not in typed and len(typed) < _LONGEST_PASTE:
            if watched:
                await ready.wait()
                ready.clear()
            data = os.read(handle, 4096)
            if not data:
                break
            typed += data
    finally:
        loop.remove_reader(handle)
    if not typed.strip():
        raise LoginRefused("nothing was pasted")
    return typed.decode("utf-8", "replace").strip()


def _open_browser(address: str) -> bool:
    """Start the browser of this desktop. False if there is none."""
    desktop = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    program = own_programs.find_program("open" if sys.platform == "darwin" else "xdg-open", None)
    if not desktop or not program:
        return False
    quiet = subprocess.DEVNULL
    try:
        subprocess.Popen([program, address], stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
    except OSError:
        return False
    return True


def summary(login: Login) -> str:
    """The line about a new login, without secrets."""
    scope = sanitize_line(str(login.tokens.get("scope") or ""), 200)
    renewed = "renewed by itself" if login.tokens.get("refresh_token") else "not renewed"
    return f"by {sanitize_line(login.issuer, 200)}, {f'for {scope}, ' if scope else ''}{renewed}"
