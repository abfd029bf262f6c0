"""What went wrong with a request, as one `ProviderError` with the right kind and one clear line."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Mapping
from typing import Any

from friday_cli.core.protocol.errors import TRANSIENT, ErrorKind, ProviderError

from .endpoint import Endpoint
from .text import is_html, plain, title_of

_CODES: dict[str, ErrorKind] = {
    "insufficient_quota": "quota", "billing_error": "quota", "billing_hard_limit_reached": "quota",
    "billing_not_active": "quota", "access_terminated": "quota", "insufficient_balance": "quota",
    "rate_limit_error": "rate", "rate_limit_exceeded": "rate", "too_many_requests": "rate", "rate_limit": "rate",
    "requests": "rate", "tokens": "rate", "throttling": "rate", "throttlingexception": "rate",
    "resource_exhausted": "rate",
    "overloaded_error": "overloaded", "overloaded": "overloaded", "engine_overloaded": "overloaded",
    "server_is_overloaded": "overloaded", "slow_down": "overloaded", "service_unavailable": "overloaded",
    "unavailable": "overloaded", "serviceunavailableexception": "overloaded", "model_overloaded": "overloaded",
    "api_error": "server", "server_error": "server", "internal_server_error": "server", "internal_error": "server",
    "timeout_error": "server", "internal": "server", "internalserverexception": "server",
    "modelstreamerrorexception": "server", "vector_store_timeout": "server",
    "authentication_error": "auth", "invalid_api_key": "auth", "permission_error": "auth", "unauthenticated": "auth",
    "permission_denied": "auth", "invalid_authentication": "auth", "account_deactivated": "auth",
    "not_found_error": "not_found", "model_not_found": "not_found", "deploymentnotfound": "not_found",
    "not_found": "not_found",
    "request_too_large": "context", "context_length_exceeded": "context", "exceed_context_size_error": "context",
    "context_window_exceeded": "context", "prompt_too_long": "context",
    "invalid_request_error": "invalid", "invalid_prompt": "invalid", "validationexception": "invalid",
    "invalid_argument": "invalid", "invalid_image": "invalid", "badrequesterror": "invalid",
    "content_filter": "refusal", "content_policy_violation": "refusal", "cyber_policy": "refusal",
    "bio_policy": "refusal", "misalignment_policy_violation": "refusal", "image_content_policy_violation": "refusal",
    "data_residency_mismatch": "invalid", "invalid_image_format": "invalid", "invalid_base64_image": "invalid",
    "invalid_image_url": "invalid", "invalid_image_mode": "invalid", "image_too_large": "invalid",
    "image_too_small": "invalid", "image_parse_error": "invalid", "image_file_too_large": "invalid",
    "unsupported_image_media_type": "invalid", "empty_image_file": "invalid", "failed_to_download_image": "invalid",
    "image_file_not_found": "invalid",
}  # fmt: skip
_STATUSES: dict[int, ErrorKind] = {
    401: "auth", 402: "quota", 403: "auth", 404: "not_found", 408: "server", 409: "server", 413: "context",
    425: "server", 429: "rate", 498: "server", 499: "server", 502: "server", 503: "overloaded", 529: "overloaded",
}  # fmt: skip
_OVERRULE = frozenset(("quota", "context", "refusal", "overloaded"))
"""Kinds that a code in the body may name against the HTTP status (429 for a spent quota, 400 for a full context)."""
_FULL = (
    "prompt is too long", "context length", "context window", "context_length", "maximum context", "too many tokens",
    "input is too long", "exceeds the maximum number of tokens", "exceed context limit", "context size",
    "maximum prompt length", "input length and `max_tokens` exceed", "reduce the length of the messages",
)  # fmt: skip
_SPENT = (
    "credit balance is too low", "exceeded your current quota", "insufficient credits", "insufficient balance",
    "spend limit", "spending limit", "billing hard limit", "out of credits", "usage limits",
)  # fmt: skip
_SAYING: dict[str, str] = {
    "rate": "is limiting the rate of requests",
    "overloaded": "is overloaded",
    "server": "had an internal error",
    "quota": "refused: the credit or quota of this key is used up",
    "invalid": "refused the request as invalid",
    "not_found": "does not know this model or address",
    "context": "refused: the conversation is larger than the model's context",
    "refusal": "refused the request for its content",
}
_UNREADY = {
    408: "gave up waiting for the request",
    409: "could not take the request now",
    425: "could not take the request now",
}
"""What a status below 500 says where the request may be sent again."""


class Unreachable(Exception):
    """No connection could be made; says why."""


class Refused(Exception):
    """An HTTP answer that is no success, with the beginning of its body."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(f"status {status}")
        self.status, self.headers, self.body = status, headers, body


def from_status(
    endpoint: Endpoint, status: int, headers: Mapping[str, str], body: bytes | str | Mapping[str, Any]
) -> ProviderError:
    """The error for an HTTP answer that is no success. `headers` must look names up without regard to case."""
    if 300 <= status < 400:
        return _redirected(endpoint, status, headers)
    data, detail = _read(body)
    kind, detail = _judge(_error_in(data), status, detail)
    if headers.get("x-should-retry", "").lower() == "false" and kind in TRANSIENT:
        kind = "quota" if kind == "rate" else "invalid"
    elif headers.get("x-should-retry", "").lower() == "true" and kind == "invalid":
        kind = "server"
    return _error(endpoint, kind, status, detail, retry_after(headers, data))


def from_error(endpoint: Endpoint, error: Any, *, status: int = 0) -> ProviderError:
    """The error that a service reports inside a stream with status 200: an `error` event or the `error` in one."""
    kind, detail = _judge(_error_in(error), status, "")
    return _error(endpoint, kind, status, detail, retry_after({}, error))


def from_exception(endpoint: Endpoint, error: BaseException) -> ProviderError:
    """The error for anything a client library, a decoder or this room may raise."""
    from .idle_timeout import StreamIdle

    if isinstance(error, ProviderError):
        return error
    if isinstance(error, BaseExceptionGroup):
        return from_exception(endpoint, error.exceptions[0])
    if isinstance(error, Refused):
        return from_status(endpoint, error.status, error.headers, error.body)
    name, host = endpoint.service, endpoint.host
    if isinstance(error, StreamIdle):
        return ProviderError("stall", f"{name} sent no {error.what} for {error.seconds:g} s ({host}).")
    if isinstance(error, Unreachable):
        return _unreachable(endpoint, error)
    if "httpx2" in sys.modules and (found := _from_httpx2(endpoint, error)) is not None:
        return found
    if isinstance(error, UnicodeEncodeError) or type(error).__name__ == "LocalProtocolError":  # of h11
        return bad_header(endpoint, "")
    if isinstance(error, ValueError):
        return ProviderError("garbled", f"{name} sent something that cannot be read ({host}).")
    if isinstance(error, OSError | EOFError) or type(error).__name__ == "RemoteProtocolError":  # of h11
        return ProviderError("network", f"The connection to {name} was lost ({host}): {_words(endpoint, error)}.")
    if isinstance(error, ImportError):
        return ProviderError("config", f"{name}: {_words(endpoint, error)}.")
    return ProviderError("garbled", f"{name}: {type(error).__name__}: {_words(endpoint, error)} ({host}).")


def _from_httpx2(endpoint: Endpoint, error: BaseException) -> ProviderError | None:
    """The error for one of httpx2, which only a process that has loaded it can have raised."""
    import httpx2

    name, host = endpoint.service, endpoint.host
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError):
        return _unreachable(endpoint, error)
    if isinstance(error, httpx2.InvalidURL | httpx2.UnsupportedProtocol):
        return ProviderError(
            "config",
            f"{name}: base_url is no http or https address.",
            hint="Set base_url to one, such as https://host/v1.",
        )
    if isinstance(error, httpx2.LocalProtocolError) and "header" in str(error).lower():
        return bad_header(endpoint, "")
    if isinstance(error, httpx2.TimeoutException):
        return ProviderError("stall", f"{name} did not take or send anything in time ({host}).")
    if isinstance(error, httpx2.DecodingError):
        return ProviderError("garbled", f"{name} sent something that cannot be read ({host}).")
    if isinstance(error, httpx2.HTTPError | httpx2.StreamError):
        return ProviderError("network", f"The connection to {name} was lost ({host}): {_words(endpoint, error)}.")
    return None


def bad_header(endpoint: Endpoint, name: str) -> ProviderError:
    """The error for a configured header that cannot be sent; its value is not told."""
    where = f"the header {name!r}" if name and not endpoint.is_secret(name) else endpoint.key_name or "the key"
    return ProviderError(
        "config",
        f"{endpoint.service}: {where} holds characters that no HTTP header may have.",
        hint="Set it again, without line breaks or letters outside ASCII.",
    )


def retry_after(headers: Mapping[str, str], body: Any = None) -> float | None:
    """Seconds until a retry makes sense, as the service says it; None where it says nothing usable."""
    for key, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(key, "").strip()
        if not text:
            continue
        try:
            seconds = float(text) * unit
        except ValueError:
            seconds = _until(text, headers.get("date", ""))
        if math.isfinite(seconds) and seconds >= 0:
            return seconds
    error = _error_in(body)
    details = error.get("details")
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and delay[:-1].replace(".", "", 1).isdigit() and delay.endswith("s"):
            return float(delay[:-1])
    return None


def _until(text: str, now: str) -> float:
    from email.utils import parsedate_to_datetime

    try:
        when = parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return math.nan
    try:
        start = parsedate_to_datetime(now).timestamp()
    except (ValueError, TypeError, OverflowError):
        start = time.time()
    return max(0.0, when - start)


def _read(body: bytes | str | Mapping[str, Any]) -> tuple[Any, str]:
    """The JSON of a body, or None, and the words to show where there is no better message."""
    if isinstance(body, Mapping):
        return dict(body), ""
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    if is_html(text):
        return None, title_of(text)
    try:
        return json.loads(text), ""
    except (ValueError, RecursionError):
        return None, plain(text)


def _error_in(data: Any) -> dict[str, Any]:
    """The dict that describes the error, wherever a service puts it."""
    if isinstance(data, list) and data:
        data = data[0]
    if not isinstance(data, dict):
        return {"message": data} if isinstance(data, str) else {}
    error = data.get("error")
    if isinstance(error, dict):
        return error
    if isinstance(error, str):
        return {**data, "message": error, "type": ""} if not data.get("message") else {**data, "type": error}
    detail = data.get("detail")
    if "message" not in data and isinstance(detail, str):
        return {**data, "message": detail}
    return data


def _judge(error: dict[str, Any], status: int, detail: str) -> tuple[ErrorKind, str]:
    """Kind and message of an error: a code of the body counts where the status does not say enough."""
    message = error.get("message")
    if isinstance(message, str) and message.strip():
        detail = message
    extra = error.get("details")
    names = [error.get("code"), error.get("type"), error.get("status")]
    names.insert(0, extra.get("error_code") if isinstance(extra, dict) else None)
    codes = [n.lower() for n in names if isinstance(n, str)]
    numbers = [n for n in names if isinstance(n, int) and not isinstance(n, bool) and 400 <= n < 600]
    numbers += [int(c) for c in codes if c.isdigit() and len(c) == 3 and c[0] in "45"]
    if not status or status < 400:
        status = numbers[0] if numbers else 0
    lower = detail.lower()
    found: list[ErrorKind] = [_CODES[c] for c in codes if c in _CODES]
    if any("spend_limit" in c or "insufficient" in c for c in codes) or any(words in lower for words in _SPENT):
        found.insert(0, "quota")
    told: ErrorKind = _STATUSES.get(status) or ("server" if status >= 500 else "invalid" if status else "server")
    for kind in found:
        if kind in _OVERRULE and told != "auth":
            return kind, detail
    if told == "invalid" or (not status and found[:1] == ["invalid"]):
        if any(words in lower for words in _FULL):
            return "context", detail
        return next((k for k in found if k not in TRANSIENT), "invalid"), detail
    return (found[0] if found and not status else told), detail


def _error(endpoint: Endpoint, kind: ErrorKind, status: int, detail: str, after: float | None) -> ProviderError:
    name, number = endpoint.service, f" ({status})" if status else ""
    hint = ""
    if kind == "auth":
        blamed = endpoint.key_name or "the configured credentials"
        saying = f"refused the credentials: {blamed}" if status != 403 else f"does not allow this to {blamed}"
        hint = "Check that key; it was not changed." if endpoint.key_name else "Check them; they were not changed."
    else:
        saying = _SAYING[kind]
    if kind == "not_found":
        hint = f"Check the model's name and the base_url ({endpoint.host})."
    if kind == "server" and status in _UNREADY:
        saying = _UNREADY[status]
    detail = plain(endpoint.redact(detail)).rstrip(".")
    message = f"{name} {saying}{number}" + (f": {detail}." if detail else ".")
    return ProviderError(kind, message, hint=hint, status=status, retry_after=after)


def _redirected(endpoint: Endpoint, status: int, headers: Mapping[str, str]) -> ProviderError:
    from urllib.parse import urlsplit

    try:
        target = urlsplit(headers.get("location", "")).netloc.rpartition("@")[2] or endpoint.host
    except ValueError:
        target = "an address that cannot be read"
    return ProviderError(
        "config",
        f"{endpoint.service} ({endpoint.host}) redirects to {plain(target, 100)} ({status}); the key was not sent there.",
        hint="Set base_url to the address that answers itself.",
        status=status,
    )


def _unreachable(endpoint: Endpoint, error: Exception) -> ProviderError:
    proxy = proxy_for(endpoint)
    through = f" through the proxy {proxy}" if proxy else ""
    why = _words(endpoint, error)
    hint = "Check the network" + (", the proxy" if proxy else "") + " and base_url."
    if "CERTIFICATE" in why.upper():
        hint = "Set SSL_CERT_FILE to the certificates of your network."
    return ProviderError("network", f"Cannot reach {endpoint.service} at {endpoint.host}{through}: {why}.", hint=hint)


def _words(endpoint: Endpoint, error: BaseException) -> str:
    """What an exception says, or its name where it says nothing."""
    cause: BaseException | None = error
    while cause is not None and not str(cause).strip():
        cause = cause.__cause__ or cause.__context__
    return plain(endpoint.redact(str(cause)), 200).rstrip(".") if cause is not None else type(error).__name__


def proxy_for(endpoint: Endpoint) -> str:
    """The proxy from the environment that requests to this endpoint pass, without its password; "" for none."""
    from urllib.parse import urlsplit
    from urllib.request import getproxies, proxy_bypass

    parts = endpoint.address
    if endpoint.is_loopback or not parts.hostname or proxy_bypass(parts.hostname):
        return ""
    proxies = getproxies()
    found = urlsplit(proxies.get(parts.scheme) or proxies.get("all") or "")
    return f"{found.scheme}://{found.netloc.rpartition('@')[2]}" if found.netloc else ""
