"""From the bytes of an answer to event dicts; the same for every transport."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import msgspec

from friday_cli.core.protocol.errors import ProviderError

from . import error_mapping
from .endpoint import Endpoint
from .idle_timeout import IdleTimeout, StreamIdle
from .sse import ServerEvent, SSEParser
from .text import deeper_than, is_html, plain, title_of

ENDS = frozenset(("message_stop", "response.completed", "response.incomplete", "response.failed", "[DONE]"))
"""Events after which nothing is awaited any more."""
AFTER_END_S = 0.25
"""How long an ended answer may take to close, so that its connection can be used again."""
REPLY_LIMIT = 256 * 1024 * 1024
"""Bytes of one answer; what floods beyond it is no reply."""
DEPTH_LIMIT = 200
"""Levels of nesting that an event may have: what walks through values calls itself, and Python allows 1,000 calls."""
_SNIFFED = 4096


async def events_in(
    endpoint: Endpoint, chunks: AsyncIterator[bytes], watch: IdleTimeout
) -> AsyncGenerator[dict[str, Any], None]:
    """The events in `chunks`, whatever the content type claims.

    Raises ProviderError for an error event, for bytes that are no event stream and for a broken event, and lets what
    the connection raises pass.
    """
    parser, head, total, seen, ended = SSEParser(), b"", 0, False, False
    chunk: bytes | None = b""
    while chunk is not None:
        try:
            chunk = await _next(chunks, watch)
        except StreamIdle:
            if ended:
                return
            raise
        total += len(chunk or b"")
        if total > REPLY_LIMIT:
            raise ProviderError("garbled", f"{endpoint.service} sent more than {REPLY_LIMIT >> 20} MB in one answer.")
        if not seen and len(head) < _SNIFFED:
            head += (chunk or b"")[:_SNIFFED]
        for sent in parser.feed(chunk) if chunk is not None else parser.close():
            event = _event(endpoint, sent, last=chunk is None)
            if event is None:
                continue
            seen = True
            judged(endpoint, event, watch)
            yield event
            if not ended and event.get("type") in ENDS:
                ended = True
                watch.shorten(AFTER_END_S)
    if not seen:
        raise _no_reply(endpoint, head)


def judged(endpoint: Endpoint, event: dict[str, Any], watch: IdleTimeout) -> None:
    """Raise the ProviderError that an event reports; let any other event but a ping count as a sign of life."""
    if _is_error(event):
        raise error_mapping.from_error(endpoint, event)
    if event.get("type") != "ping":
        watch.event()


async def _next(chunks: AsyncIterator[bytes], watch: IdleTimeout) -> bytes | None:
    with watch.waiting():
        return await anext(chunks, None)


def _event(endpoint: Endpoint, sent: ServerEvent, *, last: bool) -> dict[str, Any] | None:
    """The dict of an event, or None where it carries none. A half event at the end of the stream counts as not sent."""
    data = sent.data.strip()
    if data == "[DONE]":
        return {"type": "[DONE]"}
    if not data:
        return {"type": sent.name} if sent.name == "ping" else None
    try:
        value = decode(data)
    except ValueError:
        if last:
            return None
        raise ProviderError("garbled", f"{endpoint.service} sent an event that is no JSON.") from None
    if not isinstance(value, dict):
        return None
    if sent.name not in ("", "message") and not isinstance(value.get("type"), str):
        value["type"] = sent.name
    return value


def decode(text: str) -> Any:
    """JSON as services write it: NaN, control characters and single surrogates pass. Raises ValueError."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        try:
            value = json.loads(text, strict=False)
        except RecursionError:
            raise ValueError("nested too deeply") from None
    if text.count("[") + text.count("{") > DEPTH_LIMIT and deeper_than(value, DEPTH_LIMIT):
        raise ValueError("nested too deeply")
    return value


def _is_error(event: dict[str, Any]) -> bool:
    """Whether an event reports that the request failed: `error` by type, or an error object at its top."""
    return event.get("type") == "error" or bool(
        event.get("error") and not str(event.get("type")).startswith("response.")
    )


def _no_reply(endpoint: Endpoint, head: bytes) -> ProviderError:
    """The error for an answer with status 200 that held no event: nothing, a web page or a document."""
    text = head.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    name = endpoint.service
    if not text:
        return ProviderError("empty", f"{name} sent an empty answer ({endpoint.host}).")
    if is_html(text):
        title = title_of(text)
        return ProviderError(
            "garbled",
            f"{name} sent a web page in place of a reply ({endpoint.host})" + (f": {title}." if title else "."),
            hint="Check base_url.",
        )
    if text[0] in "{[":
        try:
            value = decode(text)
        except ValueError:
            value = None
        if isinstance(value, dict) and value.get("error"):
            return error_mapping.from_error(endpoint, value)
        return ProviderError(
            "config",
            f"{name} answered with one JSON document, not with a stream ({endpoint.host}).",
            hint="This server does not seem to stream; check base_url and `api`.",
        )
    if text.startswith((":", "event:", "data:", "id:", "retry:")):
        return ProviderError("empty", f"{name} sent a stream without any event ({endpoint.host}).")
    return ProviderError("garbled", f"{name} sent no event stream: {plain(endpoint.redact(text), 80)}")
