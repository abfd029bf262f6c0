"""Logins to MCP servers: one file (mode 0600) for each server in `mcp-logins/` of the configuration folder.

A login is used only for the name and the address for which it was made, and its refresh token is sent only to the issuer
that gave it. Tokens are masked wherever text is shown or stored from the moment that they are read.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from friday_cli.core.protocol.errors import FridayError
from friday_cli.core.text import known_keys
from friday_cli.system import atomic_file
from friday_cli.system.paths import config_dir

from .entry import ServerEntry

POLL_S = 0.05
LOCK_S = 30.0
"""How long to wait for another process that renews the same login, in seconds."""
EARLY_S = 10.0
"""How long before its end a token is renewed, in seconds."""


class Login(msgspec.Struct, omit_defaults=True):
    """A login as it is stored. `client`, `tokens`, `authorization` and `resource` are JSON objects of OAuth: the
    registered client, the tokens, and the metadata of the issuer and of the server. `expires_at`: Unix time, 0 if not
    known. `wanted_scope`: the scopes that the server found missing; the next login asks for them."""

    server: str
    issuer: str
    client: dict[str, Any]
    tokens: dict[str, Any] = {}
    expires_at: float = 0
    authorization: dict[str, Any] | None = None
    resource: dict[str, Any] | None = None
    wanted_scope: str = ""

    def __repr__(self) -> str:
        return f"Login({self.server!r}, {self.issuer!r})"  # the rest contains secrets

    @property
    def access_token(self) -> str:
        """The token of requests, "" if there is none."""
        return str(self.tokens.get("access_token") or "")

    @property
    def is_fresh(self) -> bool:
        """Whether the token is valid for some seconds more."""
        return bool(self.access_token) and not (self.expires_at and time.time() > self.expires_at - EARLY_S)

    def remember(self) -> None:
        """Mask the secrets of this login by their value from now on."""
        secrets = (self.tokens.get("access_token"), self.tokens.get("refresh_token"), self.client.get("client_secret"))
        known_keys.remember(value for value in secrets if isinstance(value, str))


class LoginFile:
    """The file with the login to the server of `entry`."""

    def __init__(self, entry: ServerEntry) -> None:
        import hashlib  # takes 3 ms

        self._client_id = entry.oauth.client_id if entry.oauth else ""
        address = hashlib.sha256(entry.url.encode()).hexdigest()[:16]
        self.path = logins_dir() / f"{entry.name}-{address}.json"

    def read(self) -> Login | None:
        """The stored login; None if there is none, or if it is of another client id than the entry's.

        Raises FridayError if the file cannot be read.
        """
        try:
            login = msgspec.json.decode(self.path.read_bytes(), type=Login)
        except FileNotFoundError:
            return None
        except OSError as failed:
            raise FridayError(f"{self.path}: cannot be read: {failed.strerror}.") from None
        except msgspec.DecodeError:
            return None  # a new login replaces it
        login.remember()
        other_client = self._client_id and login.client.get("client_id") != self._client_id
        return None if other_client else login

    def write(self, login: Login) -> None:
        """Store `login`. Raises OSError."""
        login.remember()
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        atomic_file.replace_bytes(self.path, msgspec.json.encode(login), mode=0o600)

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Hold the lock that all processes share for this login. Raises FridayError if another one does not release it,
        OSError."""
        import fcntl

        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self.path.with_suffix(".lock")
        lock = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            for _ in range(int(LOCK_S / POLL_S)):
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    await asyncio.sleep(POLL_S)
            else:
                raise FridayError(f"Another process holds {path} for more than {LOCK_S:g} s.")
            yield
        finally:
            os.close(lock)


def logins_dir() -> Path:
    """The folder with all logins."""
    return config_dir() / "mcp-logins"


def remove_logins(name: str) -> bool:
    """Remove the logins of the server `name` at all its addresses; False if there are none. Raises OSError."""
    files = [path for path in logins_dir().glob(f"{name}-*") if path.stem[len(name) + 1 :].isalnum()]
    for path in files:
        path.unlink(missing_ok=True)
    return any(path.suffix == ".json" for path in files)


def uses_oauth(entry: ServerEntry) -> bool:
    """Whether requests to this server are signed with a stored login: HTTP without an Authorization header."""
    return entry.transport == "http" and not any(name.lower() == "authorization" for name in entry.headers)
