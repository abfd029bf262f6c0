"""An HTTP server that is an OAuth issuer and a protected resource in one, in a thread of its own.

with oauth_server() as service:
    ... service.url, service.requests, service.revoke()
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from .loopback_server import Handler, serving


class OAuthService:
    """What the service gave out and was asked. A refresh token works once. `expires_in`: seconds of its tokens; `down`: HTTP
    status with which tokens are refused; `scope`: what `/mcp` asks for; `iss`: the issuer it claims in redirects;
    `consents_at`: where it sends people."""

    def __init__(self, port: int) -> None:
        self.origin = f"http://127.0.0.1:{port}"
        self.url = f"{self.origin}/mcp"
        self.iss = self.consents_at = self.origin
        self.expires_in, self.down, self.scope = 3600, 0, ""
        self.requests: list[str] = []
        self.registered: list[dict[str, Any]] = []
        self.authorized: list[dict[str, str]] = []
        self._numbers = itertools.count(1)
        self._codes: dict[str, dict[str, str]] = {}
        self._refresh: set[str] = set()
        self._access: dict[str, str] = {}
        self._lock = threading.Lock()

    def revoke(self, *, refresh: bool = False) -> None:
        """Forget the access tokens, and with `refresh` the refresh tokens."""
        self._access.clear()
        if refresh:
            self._refresh.clear()

    def get(self, path: str, query: dict[str, str]) -> tuple[int, dict[str, str], Any]:
        """Answer a GET: metadata, or the redirect of a person who consented."""
        if path == "/.well-known/oauth-protected-resource/mcp":
            return 200, {}, {"resource": self.url, "authorization_servers": [self.origin]}
        if path == "/.well-known/oauth-authorization-server":
            return (
                200,
                {},
                {
                    "issuer": self.origin,
                    "authorization_endpoint": f"{self.consents_at}/authorize",
                    "token_endpoint": f"{self.origin}/token",
                    "registration_endpoint": f"{self.origin}/register",
                    "code_challenge_methods_supported": ["S256"],
                    "authorization_response_iss_parameter_supported": True,
                },
            )
        if path == "/authorize":
            code = f"code-{next(self._numbers)}"
            self._codes[code] = query
            self.authorized.append(query)
            back = urlencode({"code": code, "state": query["state"], "iss": self.iss})
            return 302, {"Location": f"{query['redirect_uri']}?{back}"}, None
        return 404, {}, None

    def post(self, path: str, body: bytes, authorization: str) -> tuple[int, dict[str, str], Any]:
        """Answer a POST: a registration, a request for tokens, or one to the resource."""
        with self._lock:
            if path == "/register":
                self.registered.append(json.loads(body))
                return 201, {}, {**json.loads(body), "client_id": f"client-{next(self._numbers)}"}
            if path == "/token":
                return self._token({name: values[0] for name, values in parse_qs(body.decode()).items()})
            if path == "/mcp":
                return self._resource(authorization.removeprefix("Bearer "))
        return 404, {}, None

    def _token(self, form: dict[str, str]) -> tuple[int, dict[str, str], Any]:
        if self.down:
            return self.down, {}, None
        if form["grant_type"] == "refresh_token":
            granted, scope = form["refresh_token"] in self._refresh, ""
            self._refresh.discard(form["refresh_token"])
        else:
            asked = self._codes.pop(form["code"])
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            granted, scope = (
                base64.urlsafe_b64encode(digest).decode().rstrip("=") == asked["code_challenge"],
                asked.get("scope", ""),
            )
        if not granted:
            return 400, {}, {"error": "invalid_grant"}
        number = next(self._numbers)
        access, refresh = f"access-token-{number}", f"refresh-token-{number}"
        self._access[access] = scope
        self._refresh.add(refresh)
        return (
            200,
            {},
            {
                "access_token": access,
                "refresh_token": refresh,
                "token_type": "bearer",
                "expires_in": self.expires_in,
                **({"scope": scope} if scope else {}),
            },
        )

    def _resource(self, token: str) -> tuple[int, dict[str, str], Any]:
        about = f'resource_metadata="{self.origin}/.well-known/oauth-protected-resource/mcp"'
        if token not in self._access:
            return 401, {"WWW-Authenticate": f"Bearer {about}"}, None
        if self.scope and self.scope not in self._access[token].split():
            challenge = f'Bearer error="insufficient_scope", scope="{self.scope}", {about}'
            return 403, {"WWW-Authenticate": challenge}, None
        return 200, {}, {"jsonrpc": "2.0", "id": 1, "result": {}}


@contextmanager
def oauth_server() -> Iterator[OAuthService]:
    """A running service on a free port of 127.0.0.1."""

    class Requests(Handler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            self._answer(*service.get(parts.path, {n: v[0] for n, v in parse_qs(parts.query).items()}))

        def do_POST(self) -> None:
            self._answer(*service.post(self.path, self.body(), self.headers.get("Authorization", "")))

        def _answer(self, status: int, headers: dict[str, str], document: Any) -> None:
            service.requests.append(f"{self.command} {urlsplit(self.path).path} {status}")
            self.answer(b"" if document is None else document, status, **headers)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Requests)
    server.daemon_threads = False
    service = OAuthService(server.server_port)
    with serving(server):
        yield service
