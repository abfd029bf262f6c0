"""Maps a failed request to a `ProviderError` with a kind, a one-line message and a hint.

The codes are those of Anthropic ("Errors"), OpenAI ("Error codes"), Google, AWS and common gateways.
"""

from __future__ import annotations

import json
import logging
import math
import re
import sys
import time
from collections.abc import Mapping
from typing import Any

from friday_cli.core.protocol.errors import TRANSIENT, ErrorKind, ProviderError
from friday_cli.core.text.lazy_regex import pattern
from friday_cli.system.connection_failure import no_connection

from .endpoint import Endpoint
from .sse import SSEParser
from .text import dict_in, html_title, is_html, one_line, text_in

log = logging.getLogger(__name__)

_CODES_OF: dict[ErrorKind, str] = {
    "quota": "insufficient_quota billing_error billing_hard_limit_reached billing_not_active access_terminated "
             "insufficient_balance",
    "rate": "rate_limit_error rate_limit_exceeded too_many_requests rate_limit requests tokens throttling "
            "throttlingexception resource_exhausted",
    "overloaded": "overloaded_error overloaded engine_overloaded server_is_overloaded slow_down service_unavailable "
                  "unavailable serviceunavailableexception model_overloaded",
    "server": "api_error server_error internal_server_error internal_error timeout_error internal "
              "internalserverexception modelstreamerrorexception vector_store_timeout",
    "auth": "authentication_error invalid_api_key permission_error unauthenticated permission_denied "
            "invalid_authentication account_deactivated",
    "not_found": "not_found_error model_not_found deploymentnotfound not_found",
    "context": "request_too_large context_length_exceeded exceed_context_size_error context_window_exceeded "
               "prompt_too_long",
    "bad_call": "tool_use_failed",
    "refusal": "content_filter content_policy_violation cyber_policy bio_policy misalignment_policy_violation "
               "image_content_policy_violation",
    "invalid": "invalid_request_error invalid_prompt validationexception invalid_argument invalid_image badrequesterror "
               "data_residency_mismatch invalid_image_format invalid_base64_image invalid_image_url invalid_image_mode "
               "image_too_large image_too_small image_parse_error image_file_too_large unsupported_image_media_type "
               "empty_image_file failed_to_download_image image_file_not_found",
}  # fmt: skip
_CODES = {code: kind for kind, codes in _CODES_OF.items() for code in codes.split()}
_STATUSES: dict[int, ErrorKind] = {
    401: "auth", 402: "quota", 403: "auth", 404: "not_found", 408: "server", 409: "server", 413: "context",
    425: "server", 429: "rate", 498: "server", 499: "server", 501: "invalid", 502: "server", 503: "overloaded",
    529: "overloaded",
}  # fmt: skip
_BODY_WINS = frozenset(("quota", "context", "refusal", "overloaded"))
"""Kinds for which a code in the body overrides the HTTP status (429 for a used-up quota, 400 for a full context)."""
_CONTEXT_PHRASES = (
    "prompt is too long", "context length", "context window", "context_length", "maximum context", "too many tokens",
    "input is too long", "exceeds the maximum number of tokens", "exceed context limit", "context size",
    "maximum prompt length", "input length and `max_tokens` exceed", "reduce the length of the messages",
    "prompt exceeds max length", "exceeded model token limit", "exceeds the limit of", "range of input length",
    "`inputs` tokens + `max_new_tokens` must be <=",
)  # fmt: skip
_QUOTA_PHRASES = (
    "credit balance is too low", "exceeded your current quota", "insufficient credits", "insufficient balance",
    "spend limit", "spending limit", "billing hard limit", "out of credits", "usage limits",
)  # fmt: skip
_REQUEST_IDS = ("request-id", "x-request-id")
"""Headers with the id by which a service finds a request again."""
_AGAIN_IN = pattern(r"try again in (\d+(?:\.\d+)?)\s?(ms|s|m)\b", re.I)
_MODEL_PHRASES = ("invalid model name", "model not found", "unknown model", "no such model")
"""Phrases by which gateways refuse a model with the status 400."""
_DESCRIPTIONS: dict[str, str] = {
    "rate": "is limiting the rate of requests",
    "overloaded": "is overloaded",
    "server": "had an internal error",
    "quota": "refused: the credit or quota of this key is used up",
    "invalid": "refused the request as invalid",
    "not_found": "does not know this model or address",
    "context": "refused: the conversation is larger than the model's context",
    "refusal": "refused the request for its content",
    "bad_call": "could not read the tool call of the model",
}
_RETRYABLE = {
    408: "gave up waiting for the request",
    409: "could not accept the request now",
    425: "could not accept the request now",
}
"""Descriptions of the statuses below 500 after which the request can be retried."""


class ConnectFailed(Exception):
    """No connection could be made; the message gives the reason."""


class HTTPStatusError(Exception):
    """An HTTP response other than a success, with the beginning of its body."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(f"status {status}")
        self.status, self.headers, self.body = status, headers, body


def from_status(
    endpoint: Endpoint, status: int, headers: Mapping[str, str], body: bytes | str | Mapping[str, Any]
) -> ProviderError:
    """The error for an HTTP response other than a success. The lookup in `headers` must ignore case."""
    if 300 <= status < 400:
        return _redirected(endpoint, status, headers)
    data, detail = _parse_body(body)
    kind, detail = _classify(_error_in(data), status, detail)
    what = kind
    if headers.get("x-should-retry", "").lower() == "false" and kind in TRANSIENT:
        kind = "quota" if kind == "rate" else "invalid"
    elif headers.get("x-should-retry", "").lower() == "true" and kind == "invalid":
        kind = "server"
    request_id = next((headers[name] for name in _REQUEST_IDS if headers.get(name)), "") or _request_id(data)
    error = _error(endpoint, what, status, detail, retry_after(headers, data), request_id=request_id)
    return error if what == kind else error.but(kind=kind)


def _request_id(data: Any) -> str:
    return text_in(data.get("request_id")) if isinstance(data, dict) else ""


def from_error(endpoint: Endpoint, error: Any) -> ProviderError:
    """The error that a service reports inside a stream with status 200: an `error` event, or a field `error`."""
    kind, detail = _classify(_error_in(error), 0, "")
    return _error(endpoint, kind, 0, detail, retry_after({}, error), request_id=_request_id(error))


def from_exception(endpoint: Endpoint, error: BaseException) -> ProviderError:
    """The error for any exception of an HTTP library, a decoder or this package."""
    from .idle_timeout import StreamIdle

    if isinstance(error, ProviderError):
        return error
    if isinstance(error, BaseExceptionGroup):
        return from_exception(endpoint, error.exceptions[0])
    if isinstance(error, HTTPStatusError):
        return from_status(endpoint, error.status, error.headers, error.body)
    name, host = endpoint.service, endpoint.host
    if isinstance(error, StreamIdle):
        return ProviderError("stall", f"{name} sent no {error.what} for {error.seconds:g} s ({host}).")
    if isinstance(error, ConnectFailed):
        return _unreachable(endpoint, error)
    if "httpx2" in sys.modules and (found := _from_httpx2(endpoint, error)) is not None:
        return found
    if isinstance(error, UnicodeEncodeError) or type(error).__name__ == "LocalProtocolError":  # of h11
        return invalid_header(endpoint)
    if isinstance(error, ValueError):
        return _undecodable(endpoint)
    if isinstance(error, OSError | EOFError) or type(error).__name__ == "RemoteProtocolError":  # of h11
        return _connection_lost(endpoint, error)
    if isinstance(error, ImportError):
        return ProviderError("config", f"{name}: {_exception_text(endpoint, error)}.")
    log.error("request to %s (%s)", name, host, exc_info=error)
    what = f"An internal error of Friday ended the request to {name} ({host})."
    return ProviderError("garbled", what, hint="Please report it; `friday ask --debug` writes the details to a log.")


def _from_httpx2(endpoint: Endpoint, error: BaseException) -> ProviderError | None:
    """The error for an exception of httpx2; None for any other exception."""
    import httpx2

    name = endpoint.service
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError):
        return _unreachable(endpoint, error)
    if isinstance(error, httpx2.InvalidURL | httpx2.UnsupportedProtocol):
        return ProviderError(
            "config",
            f"{name}: base_url is not an http or https URL.",
            hint="Set base_url to a URL such as https://host/v1.",
        )
    if isinstance(error, httpx2.LocalProtocolError) and "header" in str(error).lower():
        return invalid_header(endpoint)
    if isinstance(error, httpx2.TimeoutException):
        return ProviderError("stall", f"{name} did not accept or send data in time ({endpoint.host}).")
    if isinstance(error, httpx2.DecodingError):
        return _undecodable(endpoint)
    if isinstance(error, httpx2.HTTPError | httpx2.StreamError):
        return _connection_lost(endpoint, error)
    return None


def _undecodable(endpoint: Endpoint) -> ProviderError:
    return ProviderError("garbled", f"{endpoint.service} sent data that cannot be decoded ({endpoint.host}).")


def _connection_lost(endpoint: Endpoint, error: BaseException) -> ProviderError:
    from .wrong_service import not_http  # most requests do not fail

    if (found := not_http(endpoint, str(error))) is not None:
        return found
    text = f"The connection to {endpoint.service} was lost ({endpoint.host}): {_exception_text(endpoint, error)}."
    return ProviderError("network", text)


def invalid_header(endpoint: Endpoint, name: str = "") -> ProviderError:
    """The error for a configured header with invalid characters. The message does not contain its value."""
    where = f"the header {name!r}" if name and not endpoint.is_secret(name) else endpoint.key_name or "the key"
    return ProviderError(
        "config",
        f"{endpoint.service}: {where} contains characters that are not allowed in an HTTP header.",
        hint="Set it again, without line breaks or non-ASCII characters.",
    )


def retry_after(headers: Mapping[str, str], body: Any = None) -> float | None:
    """Seconds to wait before a retry, as reported by the service; None if it reports nothing valid.

    Read from `retry-after-ms`, `retry-after` (seconds or an HTTP date), Google's `retryDelay`, and OpenAI's words in a stream.
    """
    for key, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(key, "").strip()
        if not text:
            continue
        try:
            seconds = float(text) * unit
        except ValueError:
            seconds = _seconds_until(text, headers.get("date", ""))
        if math.isfinite(seconds) and seconds >= 0:
            return seconds
    error = _error_in(body)
    details = error.get("details")
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and delay[:-1].replace(".", "", 1).isdigit() and delay.endswith("s"):
            return float(delay[:-1])
    if said := _AGAIN_IN().search(text_in(error.get("message"))):
        return float(said[1]) * {"ms": 0.001, "s": 1.0, "m": 60.0}[said[2]]
    return None


def _seconds_until(text: str, now: str) -> float:
    """Seconds from one HTTP date to the other, at least 0; NaN if `text` is not a date. Without `now` from the clock."""
    when, start = _timestamp(text), _timestamp(now)
    seconds = when - (time.time() if math.isnan(start) else start)
    return 0.0 if seconds < 0 else seconds


def _timestamp(text: str) -> float:
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return math.nan


def _parse_body(body: bytes | str | Mapping[str, Any]) -> tuple[Any, str]:
    """The JSON of a body (None if it is not JSON), and the message to use if the JSON has none."""
    if isinstance(body, Mapping):
        return dict(body), ""
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    if text.startswith(("event:", "data:", "id:", ":")):  # an error in the form of a stream
        parser = SSEParser()
        events = [*parser.feed(text.encode()), *parser.close()]
        text = next((event.data for event in events if event.data.strip()), text)
    if is_html(text):
        return None, html_title(text)
    try:
        return json.loads(text), ""
    except (ValueError, RecursionError):
        return None, one_line(text)


def _error_in(data: Any) -> dict[str, Any]:
    """The dict that describes the error; services put it in different places."""
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


def _classify(error: dict[str, Any], status: int, detail: str) -> tuple[ErrorKind, str]:
    """Kind and message of an error. The codes in the body are used where the HTTP status is not specific enough."""
    detail = _detail(error) or detail
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
    if any("spend_limit" in c or "insufficient" in c for c in codes) or any(
        phrase in lower for phrase in _QUOTA_PHRASES
    ):
        found.insert(0, "quota")
    by_status: ErrorKind = _STATUSES.get(status) or ("server" if status >= 500 else "invalid" if status else "server")
    for kind in found:
        if kind in _BODY_WINS and by_status != "auth":
            return kind, detail
    if by_status == "invalid" or (not status and found[:1] == ["invalid"]):
        if any(phrase in lower for phrase in _CONTEXT_PHRASES):
            return "context", detail
        if any(phrase in lower for phrase in _MODEL_PHRASES):
            return "not_found", detail
        return next((k for k in found if k not in TRANSIENT), "invalid"), detail
    return (found[0] if found and not status else by_status), detail


def _detail(error: Mapping[str, Any]) -> str:
    """The message of an error, with the reason of the service behind a gateway (OpenRouter's `metadata.raw`), and the text
    of a call that could not be read (Groq)."""
    found = [error.get("message")]
    raw = dict_in(error.get("metadata")).get("raw")
    if isinstance(raw, str | Mapping) and raw:
        data, text = _parse_body(raw)
        found.append(_error_in(data).get("message") or text)
    if failed := text_in(error.get("failed_generation")):
        found.append(f"It wrote: {failed}")
    texts = [text.strip() for text in found if isinstance(text, str) and text.strip()]
    return " ".join(text if text[-1] in ".:!?" else f"{text}." for text in texts) if len(texts) > 1 else "".join(texts)


def _error(
    endpoint: Endpoint, kind: ErrorKind, status: int, detail: str, after: float | None, *, request_id: str = ""
) -> ProviderError:
    name = endpoint.service
    words = [*([str(status)] if status else []), *([f"request {one_line(request_id, 80)}"] if request_id else [])]
    number = f" ({', '.join(words)})" if words else ""
    hint = ""
    if kind == "auth":
        credentials = endpoint.key_name or "the configured credentials"
        what = f"refused the credentials: {credentials}" if status != 403 else f"does not allow this to {credentials}"
        hint = "Check that key; it was not changed." if endpoint.key_name else "Check them; they were not changed."
    else:
        what = _DESCRIPTIONS[kind]
    if kind == "not_found":
        hint = f"Check the model's name and the base_url ({endpoint.host})."
    if kind == "server" and status in _RETRYABLE:
        what = _RETRYABLE[status]
    detail = one_line(endpoint.redact(detail)).rstrip(".")
    message = f"{name} {what}{number}" + (f": {detail}." if detail else ".")
    return ProviderError(kind, message, hint=hint, status=status, retry_after=after)


def _redirected(endpoint: Endpoint, status: int, headers: Mapping[str, str]) -> ProviderError:
    from urllib.parse import urlsplit

    try:
        target = urlsplit(headers.get("location", "")).netloc.rpartition("@")[2] or endpoint.host
    except ValueError:
        target = "an invalid URL"
    return ProviderError(
        "config",
        f"{endpoint.service} ({endpoint.host}) redirects to {one_line(target, 100)} ({status}); the key was not sent there.",
        hint="Set base_url to the URL that does not redirect.",
        status=status,
    )


def _unreachable(endpoint: Endpoint, error: Exception) -> ProviderError:
    from .proxy import proxy_for  # most requests do not fail
    from .wrong_service import PLAIN_HTTP

    proxy = proxy_for(endpoint)
    through = f" through the proxy {proxy}" if proxy else ""
    why = no_connection(_exception_text(endpoint, error))
    message = f"Cannot reach {endpoint.service} at {endpoint.host}{through}: {why}."
    if "CERTIFICATE" in why.upper():  # waiting does not help
        hint = "Set SSL_CERT_FILE to a file with the CA certificates of your network."
        return ProviderError("config", message, hint=hint)
    if any(words in why.upper() for words in PLAIN_HTTP):
        what = f"{endpoint.service} at {endpoint.host} does not speak https: {why}."
        return ProviderError("config", what, hint="Is this an http:// address? Then set base_url to it.")
    return ProviderError(
        "network",
        message,
        hint="Check the network" + (", the proxy" if proxy else "") + ", and the address (base_url) if you set one.",
    )


def _exception_text(endpoint: Endpoint, error: BaseException) -> str:
    """The message of an exception or of its cause; the exception's name if neither has one."""
    cause: BaseException | None = error
    while cause is not None and not str(cause).strip():
        cause = cause.__cause__ or cause.__context__
    return one_line(endpoint.redact(str(cause)), 200).rstrip(".") if cause is not None else type(error).__name__
