"""Parses the bytes of a response into event dicts; shared by all transports."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from friday_cli.core.protocol.errors import ProviderError

from . import error_mapping
from .endpoint import Endpoint
from .idle_timeout import IdleTimeout, StreamIdle
from .sse import ServerEvent, SSEParser
from .text import deeper_than, dict_in, html_title, is_html, one_line

FINAL_EVENTS = frozenset(("message_stop", "response.completed", "response.incomplete", "response.failed", "[DONE]"))
"""Types of the events that end a reply."""
CLOSE_GRACE_S = 0.25
"""Seconds to wait for the end of the response after a final event, so that its connection can be reused."""
REPLY_LIMIT = 256 * 1024 * 1024
"""Maximum bytes of one response."""
DEPTH_LIMIT = 200
"""Maximum levels of nesting in an event: code that walks through values is recursive, and Python's limit is 1,000."""
_SNIFF_BYTES = 4096
COST_HEADER = "x-litellm-response-cost"
"""US dollars that litellm's proxy charges for a reply that is not streamed (litellm documentation, "Response Headers")."""


_Item = TypeVar("_Item")


def parse_events(
    endpoint: Endpoint, chunks: AsyncIterator[bytes], headers: Mapping[str, str], idle_timeout: IdleTimeout
) -> AsyncGenerator[dict[str, Any], None]:
    """The events in `chunks`, independent of the response's content type. A whole reply as one JSON document is one event;
    its usage gets the cost that a gateway reports in the `headers`.

    Raises ProviderError for an error event, an invalid event, and bytes that are not an event stream. Exceptions of
    the connection pass through.
    """
    parser, head, total, seen = SSEParser(), bytearray(), 0, False

    def parse(chunk: bytes | None) -> Iterator[dict[str, Any]]:
        nonlocal total, seen
        total += len(chunk or b"")
        if total > REPLY_LIMIT:
            raise ProviderError("garbled", f"{endpoint.service} sent more than {REPLY_LIMIT >> 20} MB in one reply.")
        if not seen and (len(head) < _SNIFF_BYTES or head.lstrip()[:1] == b"{"):
            head.extend(chunk or b"")
        for sent in parser.feed(chunk) if chunk is not None else parser.close():
            if (event := _event(endpoint, sent, last=chunk is None)) is not None:
                seen = True
                yield event
        if chunk is None and not seen and (reply := _whole_reply(bytes(head))) is not None:
            yield _with_cost(reply, headers)

    return read_events(endpoint, chunks, idle_timeout, parse, lambda: _no_events(endpoint, bytes(head[:_SNIFF_BYTES])))


async def read_events(
    endpoint: Endpoint,
    items: AsyncIterator[_Item],
    idle_timeout: IdleTimeout,
    parse: Callable[[_Item | None], Iterable[dict[str, Any]]],
    no_events: Callable[[], ProviderError],
) -> AsyncGenerator[dict[str, Any], None]:
    """The events that `parse` finds in each item (None at the end of the stream). Raises the errors they report.

    Each event except a ping, and one whose `sequence_number` was there before, resets the event timeout, and a ping while a block is written: the service may hold back the arguments of a
    call until they are complete. `no_events` is the error for a stream without events.
    """
    seen = ended = writing = False
    highest = -1
    item: _Item | None
    while True:
        try:
            with idle_timeout.waiting():
                item = await anext(items, None)
        except StreamIdle:
            if ended:
                return
            raise
        for event in parse(item):
            seen = True
            if _is_error(event):
                raise error_mapping.from_error(endpoint, event)
            kind = event.get("type")
            writing = kind == "content_block_start" or (writing and kind != "content_block_stop")
            number = event.get("sequence_number")
            repeated = isinstance(number, int) and number <= highest  # a stream that repeats itself is not alive
            highest = number if isinstance(number, int) and not repeated else highest
            if (kind != "ping" or writing) and not repeated:
                idle_timeout.event()
            yield event
            if not ended and event.get("type") in FINAL_EVENTS:
                ended = True
                idle_timeout.shorten(CLOSE_GRACE_S)
        if item is None:
            break
    if not seen:
        raise no_events()


def _event(endpoint: Endpoint, sent: ServerEvent, *, last: bool) -> dict[str, Any] | None:
    """The dict of an event, None if it has none. An incomplete event at the end of the stream is ignored."""
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
        raise ProviderError("garbled", f"{endpoint.service} sent an event that is not JSON.") from None
    if not isinstance(value, dict):
        return None
    if sent.name not in ("", "message") and not isinstance(value.get("type"), str):
        value["type"] = sent.name
    return value


def _whole_reply(body: bytes) -> dict[str, Any] | None:
    """The reply in a response that is not a stream, None if it is something else."""
    try:
        value = decode(body.decode("utf-8", "replace")) if body.lstrip()[:1] == b"{" else None
    except ValueError:
        return None
    is_reply = isinstance(value, dict) and any(
        value.get(key) and isinstance(value[key], list) for key in ("choices", "content", "output")
    )
    return value if is_reply else None


def _with_cost(reply: dict[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
    """A whole reply with the cost in its usage. Of a stream the cost is not known yet when the headers are sent."""
    with suppress(ValueError):
        reply["usage"] = {"cost": float(headers.get(COST_HEADER, "")), **dict_in(reply.get("usage"))}
    return reply


def decode(text: str) -> Any:
    """Decode JSON as services write it: NaN, control characters and lone surrogates are accepted. Raises ValueError."""
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
    """Whether an event reports a failed request: its type is `error`, or it has a top-level `error`."""
    return event.get("type") == "error" or bool(
        event.get("error") and not str(event.get("type")).startswith("response.")
    )


def empty_response(endpoint: Endpoint) -> ProviderError:
    """The error for a response with status 200 and no content."""
    return ProviderError("empty", f"{endpoint.service} sent an empty response ({endpoint.host}).")


def _no_events(endpoint: Endpoint, head: bytes) -> ProviderError:
    """The error for a response with status 200 and no event: an empty body, a web page or a JSON document."""
    text = head.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    name = endpoint.service
    if not text:
        return empty_response(endpoint)
    if is_html(text):
        title = html_title(text)
        return ProviderError(
            "garbled",
            f"{name} sent a web page instead of a reply ({endpoint.host})" + (f": {title}." if title else "."),
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
            f"{name} sent one JSON document instead of a stream ({endpoint.host}).",
            hint="This server does not seem to stream; check base_url and `api`.",
        )
    if text.startswith((":", "event:", "data:", "id:", "retry:")):
        return ProviderError("empty", f"{name} sent a stream without events ({endpoint.host}).")
    return ProviderError("garbled", f"{name} did not send an event stream: {one_line(endpoint.redact(text), 80)}")
