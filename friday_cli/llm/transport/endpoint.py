"""The address, headers and timeouts of a model service. Its `repr` never shows a secret."""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import Any, Literal
from urllib.parse import SplitResult, urlsplit

import msgspec

from friday_cli.core.text.lazy_regex import pattern

_SECRET_NAME = pattern(r"auth|key|token|secret|cookie|password|credential", re.I)
_SECRET_TEXT = pattern(
    r"(?i:(?<=bearer ))(?=[^\s\"',]*\d)[^\s\"',]{6,}"
    r"|\b(?:sk|rk|pk|gsk|xai|ghp|github_pat)[-_][A-Za-z0-9*._-]{6,}"
    r"|\b(?:AKIA|AIza)[A-Za-z0-9_-]{10,}"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_.-]{8,}"
)


@lru_cache(maxsize=64)
def is_loopback(url: str) -> bool:
    """Whether a URL points to this machine. Only the text is checked; no host name is resolved."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_headers(text: str) -> dict[str, str]:
    """Headers from lines of `Name: value`, as the SDKs read them from the environment; the names in lower case."""
    pairs = (line.partition(":") for line in text.split("\n"))
    return {name.strip().lower(): value.strip() for name, colon, value in pairs if colon}


IDLE_S, FIRST_S = 180.0, 1800.0
"""Seconds to wait for any data, and for the first data of a local server, which may read a long prompt slowly."""


ANSWERED: set[str] = set()
"""Origins that answered a request in this process: they speak HTTP, with the scheme of their address."""


Transport = Literal["http", "sdk"]
"""What sends requests: Friday itself, or the official SDK."""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A model service. All durations are seconds."""

    service: str
    """Its name in messages."""
    base_url: str
    headers: dict[str, str] = {}
    """Sent with every request; they include the key."""
    key_name: str = ""
    """The variable or config key that an authentication error names."""
    connect_s: float = 10.0
    idle_s: float = IDLE_S
    """Limits the wait for any byte; at least `first_s` before the first event."""
    first_s: float = 0.0
    event_idle_s: float = 300.0
    """Limits the wait for an event other than a ping; at least `first_s` before the first event."""
    sdk: Literal["anthropic", "openai"] = "openai"
    """Selects, with `platform`, the SDK's client class for the `sdk` transport."""
    platform: Literal["", "profile", "bedrock", "mantle", "vertex", "foundry", "azure"] = ""
    options: dict[str, Any] = {}
    """Further arguments of that class (region, project, resource, API version)."""
    models: tuple[str, ...] = ()
    """Known model ids, for suggestions in an error."""
    transport: Transport = "http"
    """What sends requests if it is not on a platform, which only the SDK knows."""
    extra: dict[str, Any] = {}
    """More fields of each request."""

    def __repr__(self) -> str:
        return f"Endpoint({self.service!r}, {self.host!r})"

    def __rich_repr__(self) -> Any:
        yield self.service
        yield self.host

    @property
    def over_sdk(self) -> bool:
        """Whether the official SDK sends the requests."""
        return bool(self.platform) or self.transport == "sdk"

    @property
    def address(self) -> SplitResult:
        """The parts of the base URL; all empty if it is not a URL."""
        try:
            return urlsplit(self.base_url)
        except ValueError:
            return urlsplit("")

    @property
    def host(self) -> str:
        """Host and port without user name and password; the platform's name if there is no URL."""
        return self.address.netloc.rpartition("@")[2] or self.platform or self.service

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return f"{self.address.scheme}://{self.host}"

    def url(self, path: str) -> str:
        """The URL of `path` below the base URL. The query of the base URL is kept at the end."""
        base, separator, query = self.base_url.partition("?")
        return base.rstrip("/") + path + separator + query

    @staticmethod
    def is_secret(header: str) -> bool:
        """Whether a header of this name probably contains a secret."""
        return _SECRET_NAME().search(header) is not None

    @property
    def secrets(self) -> tuple[str, ...]:
        """All values that must not be shown, longest first."""
        found = [v for k, v in self.headers.items() if _SECRET_NAME().search(k)]
        found += [v for k, v in self.options.items() if isinstance(v, str) and _SECRET_NAME().search(k)]
        found += [v for v in (self.address.password, self.address.query) if v]
        found = [word for value in found for word in value.split()[1:] or [value]]  # without a scheme such as Bearer
        return tuple(sorted({v for v in found if len(v) > 5}, key=len, reverse=True))

    @property
    def rate_limit_key(self) -> str:
        """The same text for endpoints that share a rate limit: the service and a short hash of the key."""
        import hashlib

        material = "\0".join((self.origin, self.platform, *self.secrets))
        return f"{self.service}-{hashlib.sha256(material.encode('utf-8', 'replace')).hexdigest()[:8]}"

    @property
    def is_loopback(self) -> bool:
        """Whether the service runs on this machine. Such a service is never reached through a proxy."""
        return is_loopback(self.base_url)

    def redact(self, text: str) -> str:
        """`text` with this endpoint's secrets, and anything that looks like a key, replaced by `[key]`."""
        for secret in self.secrets:
            text = text.replace(secret, "[key]")
        return _SECRET_TEXT().sub("[key]", text)
