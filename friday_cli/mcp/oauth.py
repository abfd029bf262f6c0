"""OAuth of HTTP servers: signs requests with the stored login, renews it, and makes a new one with a person at a browser.

Discovery (RFC 9728, RFC 8414), registration, PKCE and the check of `iss` (RFC 9207) are the library's. Imports `mcp`, so it is
imported with the first connection only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.client.auth.utils import (
    extract_field_from_www_auth,
    extract_resource_metadata_from_www_auth,
    extract_scope_from_www_auth,
    is_valid_client_metadata_url,
    union_scopes,
)
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)

from friday_cli.core.protocol.background_tasks import BackgroundTasks
from friday_cli.core.protocol.errors import FridayError
from friday_cli.core.text.sanitize import mask, sanitize_line

from .entry import OAuthSettings, ServerEntry
from .login_network import LoginNetwork, LoginRefused
from .tokens import Login, LoginFile

RENEW_S = 60.0
"""Longest time to renew a login, in seconds. It is not cancelled with the request that needs it: the issuer may have
replaced the refresh token already."""
logging.getLogger("mcp").propagate = False  # it logs what servers send; a person reads our one line about it
logging.getLogger("mcp").addHandler(logging.NullHandler())
UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
TRUST_HINT = "Set SSL_CERT_FILE to a file with the CA certificates of your network"
REQUEST_S = 30.0
"""Seconds without a byte of an answer during a login."""
_REFUSALS = frozenset(
    (
        "access_denied",
        "invalid_request",
        "unauthorized_client",
        "unsupported_response_type",
        "invalid_scope",
        "server_error",
        "temporarily_unavailable",
    )
)
"""What an issuer may answer instead of a code (RFC 6749, 4.1.2.1)."""

Consent = Callable[[str], Awaitable[str]]
"""Lets a person open this address and returns the address to which the browser was sent back."""


class ServerAuth(OAuthClientProvider):
    """Signs the requests to one server. `problem` is why it could not, as words after the server's name; "" if it could.

    A session has no `consent`: a request that needs a login gets the server's refusal, and `problem` names the command.
    With `consent` the library's flow makes a login when the server asks for one or for more scopes, and with `force` at the
    first request in any case.
    """

    def __init__(
        self,
        entry: ServerEntry,
        *,
        consent: Consent | None = None,
        redirect_uri: str = "",
        force: bool = False,
        network: LoginNetwork | None = None,
    ) -> None:
        self._network = network
        settings = entry.oauth or OAuthSettings()
        by_document = is_valid_client_metadata_url(settings.client_id)
        self._fixed_client = "" if by_document else settings.client_id
        self._scope = settings.scope
        self._name = entry.name
        self._file = LoginFile(entry)
        self._login: Login | None = None
        self._renewing = asyncio.Lock()
        self._tasks = BackgroundTasks()
        self._consent = consent
        self._forced = force
        self._address = ""
        self.problem = ""
        redirect_uris = [redirect_uri or "http://127.0.0.1/callback"]
        metadata = OAuthClientMetadata.model_validate(
            {"client_name": "Friday", "redirect_uris": redirect_uris, "token_endpoint_auth_method": "none"}
        )
        super().__init__(
            entry.url,
            metadata,
            _Storage(self),
            self._show_address,
            self._await_redirect,
            client_metadata_url=settings.client_id if by_document else None,
        )

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        await self._load()
        reason = ""
        if self._login and not self._login.is_fresh and not self._forced:
            reason = await self._renew(self._login.access_token)
        used = "" if self._forced else self._sign(request)
        response = yield request
        if response.status_code == 401 and used and not (reason := await self._renew(used)):
            self._sign(request)
            response = yield request
        step_up = response.status_code == 403 and _field(response, "error") == "insufficient_scope"
        if self._forced and response.status_code != 401:
            response = httpx2.Response(401, request=request)
        if response.status_code != 401 and not step_up:
            if response.is_success:
                self.problem = ""
        elif self._consent:
            self._prepare_login(response)
            async with aclosing(super()._auth_flow(request)) as flow:
                await anext(flow)  # the request, which was answered
                with suppress(StopAsyncIteration):
                    step = await flow.asend(self._with_scope(response))
                    while True:
                        step = await flow.asend((yield step))
        else:
            self.problem = await self._more_rights(response) if step_up else reason or self._login_needed(used)

    # ---- the stored login ----

    async def _load(self) -> None:
        if self._login is None and (login := self._file.read()):
            self._take(login)
        self._initialized = True  # the library would read the storage without the end of the token

    def _take(self, login: Login) -> None:
        """Use this login from now on."""
        context = self.context
        try:
            context.current_tokens = OAuthToken.model_validate(login.tokens) if login.tokens else None
            context.client_info = OAuthClientInformationFull.model_validate(login.client)
            context.oauth_metadata = OAuthMetadata.model_validate(login.authorization) if login.authorization else None
            resource = login.resource
            context.protected_resource_metadata = (
                ProtectedResourceMetadata.model_validate(resource) if resource else None
            )
        except ValueError:
            return  # as if there were none
        context.token_expiry_time = login.expires_at or None
        self._login = login

    def _sign(self, request: httpx2.Request) -> str:
        """Add the token to a request and return it, "" if there is none."""
        token = self._login.access_token if self._login else ""
        if token:
            request.headers["Authorization"] = f"Bearer {token}"
        return token

    def store(self) -> None:
        """Write the login that the library holds. Raises OSError."""
        context = self.context
        assert context.client_info
        assert context.current_tokens
        issuer = str(context.oauth_metadata.issuer) if context.oauth_metadata else self._expected_issuer()
        self._login = Login(
            server=context.server_url,
            issuer=issuer,
            client=_json(context.client_info) or {},
            tokens=_json(context.current_tokens) or {},
            expires_at=context.token_expiry_time or 0,
            authorization=_json(context.oauth_metadata),
            resource=_json(context.protected_resource_metadata),
        )
        self._file.write(self._login)

    # ---- renewing ----

    async def _renew(self, used: str) -> str:
        """Replace the token `used`, once for all requests and processes. Returns why it could not, "" if it could."""
        return await asyncio.shield(self._tasks.start(self._renew_stored(used)))

    async def _renew_stored(self, used: str) -> str:
        try:
            async with asyncio.timeout(RENEW_S), self._renewing, self._file.locked():
                stored = self._file.read()
                if stored and stored.is_fresh and stored.access_token != used:
                    self._take(stored)  # another request or process was faster
                    return ""
                if stored is None or not stored.tokens.get("refresh_token"):
                    return self._login_needed(used)
                return await self._refresh(stored)
        except TimeoutError:
            reason = f"no answer in {RENEW_S:g} s"
        except (httpx2.HTTPError, OAuthFlowError, FridayError, OSError) as failed:
            reason = failure_text(failed)
        return f"its login could not be renewed: {reason}."

    async def _refresh(self, stored: Login) -> str:
        """Renew `stored`, and store the new one. Raises httpx2.HTTPError, OAuthFlowError, OSError."""
        self._take(stored)
        async with http_client(LoginNetwork(self.context.server_url)) as client:
            response = await client.send(await self._refresh_token(), follow_redirects=False)
        if response.status_code not in (200, 400, 401):  # not an answer about this login
            raise FridayError(f"HTTP {response.status_code}")
        if await self._handle_refresh_response(response):  # stores it
            return ""
        stored.tokens = {}
        self._file.write(stored)
        self._take(stored)
        return self._login_needed("expired")

    def _login_needed(self, used: str) -> str:
        state = "its login has expired." if used or self._login else "it needs a login."
        return f"{state} Run `friday mcp login {self._name}`."

    async def _more_rights(self, response: httpx2.Response) -> str:
        """The line for a refusal for want of scopes, which the next login asks for."""
        scope = sanitize_line(extract_scope_from_www_auth(response) or "", 200)
        with suppress(FridayError, OSError):  # then the next login does not ask for them by itself
            async with self._file.locked():
                if scope and (stored := self._file.read()):  # another process may have renewed it
                    stored.wanted_scope = union_scopes(stored.wanted_scope, scope) or ""
                    self._file.write(stored)
        missing = f" ({scope})" if scope else ""
        return f"it asks for more rights than you gave{missing}. Run `friday mcp login {self._name}`."

    # ---- a new login ----

    def _prepare_login(self, response: httpx2.Response) -> None:
        """Give the library's flow the client to use, and no token that was refused."""
        self._forced = False
        if response.status_code == 401:
            self.context.clear_tokens()
        client, redirect_uris = self.context.client_info, self.context.client_metadata.redirect_uris or []
        if client and not self._fixed_client and client.redirect_uris != redirect_uris:
            self.context.client_info = None  # register again, for this port
        if self._fixed_client and self.context.client_info is None:
            self.context.client_info = OAuthClientInformationFull(
                client_id=self._fixed_client, token_endpoint_auth_method="none", redirect_uris=redirect_uris
            )

    def _with_scope(self, response: httpx2.Response) -> httpx2.Response:
        """The refusal as the library reads it, with the scopes of the settings and those that were found missing."""
        wanted = self._login.wanted_scope if self._login else ""
        scope = self._scope or extract_scope_from_www_auth(response)
        if not self._scope and not wanted:
            return response
        fields = {
            "error": _field(response, "error"),
            "resource_metadata": extract_resource_metadata_from_www_auth(response),
            "scope": union_scopes(scope, wanted),
        }
        challenge = ", ".join(f'{name}="{value}"' for name, value in fields.items() if value)
        headers = {"www-authenticate": f"Bearer {challenge}"}
        return httpx2.Response(response.status_code, headers=headers, request=response.request)

    async def _show_address(self, address: str) -> None:
        """Keep the address for `_await_redirect`. Raises LoginRefused if it, or another one that was found, may not be used."""
        assert self._network
        if urlsplit(address).fragment:  # RFC 6749, 3.1: the library would write the parameters behind it
            raise LoginRefused("the issuer's address of the login has a `#`, which is not allowed there")
        found = self.context.oauth_metadata
        more = (found.issuer, found.token_endpoint, found.registration_endpoint) if found else ()
        for url in (self.context.server_url, address, *(str(one) for one in more if one)):
            await self._network.require(url)
        self._address = address

    async def _await_redirect(self) -> AuthorizationCodeResult:
        assert self._consent
        query = parse_qs(urlsplit(await self._consent(self._address)).query)
        found = {name: values[0] for name, values in query.items()}
        if "error" in found:
            raise LoginRefused(
                f"the issuer answered {found['error'] if found['error'] in _REFUSALS else 'with an error'}"
            )
        metadata = self.context.oauth_metadata
        if metadata and found.get("iss", str(metadata.issuer)).rstrip("/") != str(metadata.issuer).rstrip("/"):
            raise LoginRefused("the answer names another issuer")
        return AuthorizationCodeResult(code=found.get("code", ""), state=found.get("state"), iss=found.get("iss"))


class _Storage:
    """The library's view of the stored login. Reading is `ServerAuth._load`."""

    def __init__(self, auth: ServerAuth) -> None:
        self._auth = auth

    async def get_tokens(self) -> OAuthToken | None:
        return self._auth.context.current_tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._auth.store()

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._auth.context.client_info

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Nothing: it is stored with the tokens."""


def http_client(network: LoginNetwork, **more: Any) -> httpx2.AsyncClient:
    """A client for the requests of a login or of its renewal."""
    return httpx2.AsyncClient(transport=network, timeout=REQUEST_S, **more)


def failure_text(failed: BaseException) -> str:
    """Why a request to a server or an issuer failed, as one line without a final dot: in our words, because those of the library
    have parts of what the service answered."""
    match failed:
        case FridayError():
            return sanitize_line(mask(str(failed)), 300).rstrip(".")
        case OAuthRegistrationError():
            return "the service did not register Friday"
        case OAuthTokenError():
            return "the service gave no token"
        case OAuthFlowError() | ValueError():
            return "its answers are not those of a login"
        case httpx2.ConnectError() if UNTRUSTED in str(failed):
            return f"its certificate is not trusted. {TRUST_HINT}"
        case httpx2.ConnectError():
            return "it cannot be reached"
        case httpx2.TimeoutException() | TimeoutError():
            return "no answer in time"
        case OSError():
            return failed.strerror or "the network failed"
        case _:
            return "its answer could not be read"


def _field(response: httpx2.Response, name: str) -> str | None:
    return extract_field_from_www_auth(response, name)


def _json(model: Any) -> dict[str, Any] | None:
    return model.model_dump(mode="json", exclude_none=True) if model else None
