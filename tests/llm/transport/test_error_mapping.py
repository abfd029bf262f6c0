from __future__ import annotations

import time
from email.utils import formatdate
from typing import Any

import httpx2
import pytest

from friday_cli.core.protocol.errors import TRANSIENT, ProviderError
from friday_cli.llm.transport import Endpoint
from friday_cli.llm.transport.error_mapping import from_error, from_exception, from_status, retry_after
from friday_cli.llm.transport.idle_timeout import StreamIdle
from friday_cli.llm.transport.proxy import proxy_for

KEY = "sk-ant-api03-0123456789abcdef"
HERE = Endpoint(
    service="anthropic", base_url="https://api.example.org", headers={"x-api-key": KEY}, key_name="ANTHROPIC_API_KEY"
)


def answer(status: int, body: object, **headers: str) -> ProviderError:
    response = httpx2.Response(
        status,
        headers={k.replace("_", "-"): v for k, v in headers.items()},
        **({"json": body} if not isinstance(body, str) else {"text": body}),  # type: ignore[arg-type]
    )
    return from_status(HERE, status, response.headers, response.content)


def claude(kind: str, message: str = "words", **details: Any) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message, **details}, "request_id": "r"}


def gpt(message: str, kind: str | None = None, code: Any = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


STATUSES: list[tuple[int, Any, str]] = [
    (429, claude("rate_limit_error"), "rate"),
    (429, gpt("Rate limit reached", "tokens", "rate_limit_exceeded"), "rate"),
    (429, gpt("You exceeded your current quota", "insufficient_quota", "insufficient_quota"), "quota"),
    (429, "", "rate"),
    (429, claude("rate_limit_error", "x", details={"error_code": "enforced_spend_limit_reached"}), "quota"),
    (402, gpt("Insufficient credits"), "quota"),
    (400, claude("invalid_request_error", "Your credit balance is too low to access the API."), "quota"),
    (429, claude("rate_limit_error", "Your credit balance is too low"), "quota"),
    (403, gpt("no", "billing_error"), "auth"),
    (529, claude("overloaded_error", "Overloaded"), "overloaded"),
    (503, gpt("The engine is overloaded", "server_error"), "overloaded"),
    (500, claude("api_error"), "server"),
    (500, gpt("busy", "engine_overloaded"), "overloaded"),
    (502, "<html><title>502 Bad Gateway</title><body>secret page</body></html>", "server"),
    (504, "upstream timed out", "server"),
    (520, "", "server"),
    (400, claude("invalid_request_error", "tools.0: bad schema"), "invalid"),
    (501, claude("api_error", "not implemented"), "invalid"),
    (400, claude("invalid_request_error", "messages.3: tool_use ids without tool_result"), "invalid"),
    (400, claude("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"), "context"),
    (400, gpt("This model's maximum context length is 8192 tokens", "invalid_request_error"), "context"),
    (400, gpt("x", "invalid_request_error", "context_length_exceeded"), "context"),
    (400, gpt("the request exceeds the available context size", "exceed_context_size_error", 400), "context"),
    (400, gpt("blocked", None, "content_filter"), "refusal"),
    (413, claude("request_too_large"), "context"),
    (413, "<html>too large", "context"),
    (422, {"detail": [{"loc": ["body"], "msg": "field required"}]}, "invalid"),
    (401, claude("authentication_error", "invalid x-api-key"), "auth"),
    (401, gpt(f"Incorrect API key provided: {KEY}"), "auth"),
    (403, claude("permission_error"), "auth"),
    (404, claude("not_found_error", "model: nope"), "not_found"),
    (404, gpt("The model `x` does not exist", "invalid_request_error", "model_not_found"), "not_found"),
    (400, gpt("no such model", "invalid_request_error", "model_not_found"), "not_found"),
    (404, "404 page not found", "not_found"),
    (404, {"error": "model 'x' not found, try pulling it first"}, "not_found"),
    (408, "", "server"),
    (409, "", "server"),
    (425, "", "server"),
    (418, "", "invalid"),
    (400, {"error": {"message": "litellm: Invalid model name passed in model=gpt-9. Call `/v1/models`"}}, "not_found"),
    (400, 'event: error\ndata: {"error": {"message": "prompt is too long"}}\n\n', "context"),
    (400, gpt("Failed to call a function.", "invalid_request_error", "tool_use_failed"), "bad_call"),
    (400, "[" * 100_000, "invalid"),
    (400, "null", "invalid"),
    (400, [{"error": {"message": "list", "status": "INVALID_ARGUMENT"}}], "invalid"),
]


@pytest.mark.parametrize(("status", "body", "kind"), STATUSES)
def test_kind_of_a_status(status: int, body: Any, kind: str) -> None:
    error = answer(status, body)
    assert (error.kind, error.status) == (kind, status)
    text = str(error)
    assert KEY not in text
    assert "<" not in text.replace("> 200000", "")
    assert "secret page" not in text
    assert "\n" not in text
    assert len(text) < 600
    assert error.message.endswith((".", "…"))


BEHIND: list[tuple[Any, str]] = [
    ('{"error": {"message": "max_tokens is too large"}}', "max_tokens is too large"),
    ({"error": {"message": "no such tool"}}, "no such tool"),
    ("upstream said no", "upstream said no"),
    ('event: error\ndata: {"message": "in a stream"}\n\n', "in a stream"),
    (7, ""),
    (None, ""),
]


@pytest.mark.parametrize(("raw", "reason"), BEHIND)
def test_the_reason_of_the_service_behind_a_gateway_is_shown(raw: Any, reason: str) -> None:
    error = {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw, "provider_name": "X"}}
    shown = answer(400, {"error": error}).message
    expected = f": Provider returned error. {reason}." if reason else ": Provider returned error."
    assert shown.endswith(expected)
    streamed = from_error(HERE, {"error": error}).message
    assert streamed.endswith(expected)


def test_an_error_in_the_form_of_a_stream_is_shown_as_its_message() -> None:
    shown = answer(503, ': ping\n\nevent: error\ndata: {"error": {"message": "try later"}}\n\ndata: [DONE]\n\n').message
    assert shown.endswith("(503): try later.")


EVENTS: list[tuple[Any, str]] = [
    (claude("overloaded_error", "Overloaded"), "overloaded"),
    (claude("api_error"), "server"),
    (claude("rate_limit_error"), "rate"),
    (claude("invalid_request_error", "bad"), "invalid"),
    (claude("invalid_request_error", "prompt is too long: 5 tokens"), "context"),
    (claude("authentication_error"), "auth"),
    (claude("billing_error"), "quota"),
    (claude("not_found_error"), "not_found"),
    (claude("timeout_error"), "server"),
    (claude("new_error"), "server"),
    ({"type": "error", "code": "rate_limit_exceeded", "message": "slow", "param": None}, "rate"),
    ({"type": "error", "code": "insufficient_quota", "message": "no"}, "quota"),
    ({"type": "error", "error": {"code": "server_error", "message": "oops"}}, "server"),
    ({"error": {"code": 429, "message": "upstream"}}, "rate"),
    ({"error": {"code": 502, "message": "upstream"}, "choices": []}, "server"),
    ({"error": {"code": "503", "message": "upstream"}}, "overloaded"),
    ({"error": "model runner has crashed"}, "server"),
    ({"type": "error"}, "server"),
    ({"type": "error", "error": {"type": "throttlingException", "message": "x"}}, "rate"),
]


@pytest.mark.parametrize(("event", "kind"), EVENTS)
def test_kind_of_an_error_in_a_stream(event: Any, kind: str) -> None:
    assert from_error(HERE, event).kind == kind


def test_a_refused_key_is_named_and_not_shown() -> None:
    error = answer(401, claude("authentication_error", f"invalid x-api-key: {KEY[:12]}***{KEY[-4:]} or {KEY}"))
    assert "ANTHROPIC_API_KEY" in error.message
    assert "401" in error.message
    assert KEY not in str(error)
    assert KEY[-4:] not in str(error)


def test_a_page_is_told_by_its_title_and_words_are_made_plain() -> None:
    error = answer(502, "<!doctype html><html><head><title>502 &amp; Bad <i>Gateway</i></title>")
    assert error.message == "anthropic had an internal error (502): 502 Bad Gateway."
    error = answer(400, claude("invalid_request_error", "a\x1b]52;c;eA==\x07b\nc\u202ed"))
    assert error.message == "anthropic refused the request as invalid (400, request r): a ]52;c;eA== b c d."


@pytest.mark.parametrize(("headers", "body", "expected"), [
    ({}, None, None),
    ({"retry-after": "2"}, None, 2.0),
    ({"retry-after": "0.5"}, None, 0.5),
    ({"retry-after": "3600"}, None, 3600.0),
    ({"retry-after": "0"}, None, 0.0),
    ({"retry-after": "-5"}, None, None),
    ({"retry-after": "soon"}, None, None),
    ({"retry-after": "nan"}, None, None),
    ({"retry-after": "inf"}, None, None),
    ({"retry-after": ""}, None, None),
    ({"retry-after-ms": "1500", "retry-after": "9"}, None, 1.5),
    ({"retry-after-ms": "x", "retry-after": "9"}, None, 9.0),
    ({"retry-after": "Fri, 20 Nov 2026 10:00:30 GMT", "date": "Fri, 20 Nov 2026 10:00:00 GMT"}, None, 30.0),
    ({"retry-after": "Fri, 20 Nov 2026 09:00:00 GMT", "date": "Fri, 20 Nov 2026 10:00:00 GMT"}, None, 0.0),
    ({"retry-after": "Fri, 99 Nov 2026 10:00:30 GMT"}, None, None),
    ({}, {"error": {"details": [{"@type": "x"}, {"retryDelay": "34.5s"}]}}, 34.5),
    ({}, {"error": {"details": [{"retryDelay": "soon"}]}}, None),
])  # fmt: skip
def test_retry_after(headers: dict[str, str], body: Any, expected: float | None) -> None:
    assert retry_after(httpx2.Headers(headers), body) == expected


def test_retry_after_as_a_date_without_a_clock_of_the_server() -> None:
    seconds = retry_after(httpx2.Headers({"retry-after": formatdate(time.time() + 100, usegmt=True)}))
    assert seconds is not None
    assert 90 < seconds <= 100


def test_x_should_retry_is_obeyed() -> None:
    assert answer(500, "", x_should_retry="false").kind not in TRANSIENT
    assert answer(429, "", x_should_retry="false").kind not in TRANSIENT
    assert answer(529, "", x_should_retry="False").kind not in TRANSIENT
    assert answer(400, "", x_should_retry="true").kind in TRANSIENT
    assert answer(401, "", x_should_retry="true").kind == "auth"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_names_its_target(status: int) -> None:
    error = answer(status, "", location="https://u:pw@evil.example/v1?x=1")
    assert error.kind == "config"
    assert "evil.example" in error.message
    assert "pw" not in error.message


RAISED: list[tuple[BaseException, str]] = [
    (httpx2.ConnectError("Connection refused"), "network"),
    (httpx2.ConnectTimeout(""), "network"),
    (httpx2.ProxyError("403 Forbidden"), "network"),
    (httpx2.ReadError(""), "network"),
    (httpx2.RemoteProtocolError("peer closed connection"), "network"),
    (httpx2.ReadTimeout(""), "stall"),
    (httpx2.WriteError("broken pipe"), "network"),
    (httpx2.DecodingError("bad gzip"), "garbled"),
    (httpx2.StreamClosed(), "network"),
    (httpx2.UnsupportedProtocol("no scheme"), "config"),
    (httpx2.InvalidURL("no"), "config"),
    (httpx2.LocalProtocolError(f"Illegal header value b'{KEY}\\n'"), "config"),
    (httpx2.LocalProtocolError("the connection is closed"), "network"),
    (UnicodeEncodeError("ascii", f"{KEY}é", 30, 31, "no"), "config"),
    (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"), "garbled"),
    (ValueError("no JSON"), "garbled"),
    (AssertionError(), "garbled"),
    (RuntimeError("x"), "garbled"),
    (RecursionError(), "garbled"),
    (ConnectionResetError(104, "Connection reset by peer"), "network"),
    (StreamIdle("events", 300), "stall"),
    (ExceptionGroup("g", [httpx2.ReadError("gone")]), "network"),
]


@pytest.mark.parametrize(("raised", "kind"), RAISED, ids=lambda v: type(v).__name__ if not isinstance(v, str) else v)
def test_kind_of_an_exception(raised: BaseException, kind: str) -> None:
    error = from_exception(HERE, raised)
    assert error.kind == kind
    assert KEY not in str(error)
    assert "anthropic" in error.message
    assert error.message.endswith(".")


def test_an_internal_error_is_a_sentence_and_its_traceback_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    error = from_exception(HERE, AssertionError())
    assert error.message == "An internal error of Friday ended the request to anthropic (api.example.org)."
    assert caplog.records[0].exc_info is not None


def test_where_connecting_failed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://user:pa55word@proxy.example:3128")
    error = from_exception(HERE, httpx2.ConnectError("[Errno 111] Connection refused"))
    for words in ("api.example.org", "http://proxy.example:3128", "connection refused"):
        assert words in error.message
    assert "pa55word" not in str(error)
    monkeypatch.setenv("no_proxy", "example.org")
    assert proxy_for(HERE) == ""
    tls = from_exception(HERE, httpx2.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed"))
    assert "SSL_CERT_FILE" in tls.hint
