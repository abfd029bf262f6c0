"""Accumulates a reply from the stream events of the Messages API ("Streaming messages").

It also accepts streams of other servers that deviate from the documentation.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import msgspec

from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.messages import AnyPart, Message, Opaque, Text, Thinking, ToolCall, Usage
from friday_cli.core.protocol.provider import (
    CallChunk,
    Chunk,
    ReplyDone,
    Request,
    RestartChunk,
    ServerSearch,
    Stop,
    TextChunk,
    ThinkingChunk,
    UsageChunk,
)

from ..transport.endpoint import Endpoint
from ..transport.text import StreamedText, dict_in, dicts_in, one_line, replace_surrogates_in, text_in
from ..transport.tool_arguments import as_text, call_of, incomplete, parse_arguments
from .service_provider import ReplyStream, charged_cost, has_content, server_search

NO_END_MARK = "the reply has no message_stop event, but it looks complete"
_STOPS: dict[str, Stop] = {
    "end_turn": "end_turn", "stop_sequence": "end_turn", "tool_use": "tool_use", "max_tokens": "max_tokens",
    "pause_turn": "pause_turn", "refusal": "refusal", "model_context_window_exceeded": "context",
}  # fmt: skip
_USUAL = ("", "standard", "global", "not_available")
"""Tiers, speeds and places that have the list price."""
_MOST = 10**9


class _ContentBlock:
    """A content block while it is streamed. `text` is its text or thinking, `json` the arguments of a call."""

    def __init__(self, data: dict[str, Any], ordinal: int = 0) -> None:
        self.kind = str(data.get("type"))
        self.data = data
        self.ordinal = ordinal
        self.text, self.json = StreamedText(), StreamedText()
        self.signature: list[str] = []
        self.citations: list[Any] = []
        self.closed = False


class AnthropicStream(ReplyStream):
    """Accumulates one reply: `feed` returns chunks to show, `finish` the whole message."""

    def __init__(self, endpoint: Endpoint, origin: str, request: Request) -> None:
        super().__init__(endpoint, origin, request)
        self._id: object = None
        self._usage: dict[str, Any] = {}
        self._reset()

    def _reset(self) -> None:
        self._blocks: list[_ContentBlock] = []
        self._by_index: dict[int | None, _ContentBlock] = {}
        self._calls = 0
        self._stop = ""
        self._details: dict[str, Any] = {}
        self.ended = False

    def feed(self, event: dict[str, Any]) -> Iterator[Chunk]:
        """The chunks of an event. Raises ProviderError for the arguments of a call that was not started."""
        index = event.get("index")
        index = index if isinstance(index, int) else None  # other types may not even be hashable
        match event.get("type"):
            case "message_start":
                if self._start(dict_in(event.get("message"))):
                    yield RestartChunk()
                if self._usage:
                    yield UsageChunk(self._counted())
            case "content_block_start":
                yield from self._start_block(index, dict_in(event.get("content_block")))
            case "content_block_delta":
                yield from self._add(index, dict_in(event.get("delta")))
            case "content_block_stop":
                if block := self._by_index.get(index):
                    block.closed = True
            case "message_delta":
                delta = dict_in(event.get("delta"))
                if isinstance(stop := delta.get("stop_reason"), str):
                    self._stop = stop
                self._details = dict_in(delta.get("stop_details")) or self._details
                self._count(event.get("usage"))
            case "message_stop":
                self.ended = True
            case "message":
                yield from self._whole(event)

    def _start(self, message: dict[str, Any]) -> bool:
        """Process message_start. A second message in the stream restarts the reply (True); a repeated one is ignored."""
        restarts = bool(self._blocks) and (message.get("id") is None or message.get("id") != self._id)
        if restarts:
            self._reset()
        self._id = message.get("id")
        self._count(message.get("usage"))
        return restarts

    def _whole(self, message: dict[str, Any]) -> Iterator[Chunk]:
        """Process a whole message, which some servers send instead of a stream."""
        self._start(message)
        for index, block in enumerate(dicts_in(message.get("content"))):
            yield from self._start_block(index, block)
            self._by_index[index].closed = True
        stop = message.get("stop_reason")
        self._stop, self.ended = stop if isinstance(stop, str) else "", True
        self._details = dict_in(message.get("stop_details"))

    def _start_block(self, index: int | None, data: dict[str, Any]) -> Iterator[Chunk]:
        known = self._by_index.get(index)
        if known is not None and not known.closed:
            same = known.kind == data.get("type") and known.data.get("id") == data.get("id")
            if same and not (known.text.size or known.json.size or known.signature):
                return
            known.closed = True
        block = self._new(index, data)
        for key in ("text", "thinking"):
            if block.kind == key and isinstance(first := data.get(key), str) and first:
                yield from self._add(index, {"type": f"{key}_delta", key: first})
        if block.kind == "thinking" and isinstance(signature := data.get("signature"), str) and signature:
            block.signature.append(signature)
        if block.kind == "text" and isinstance(cited := data.get("citations"), list):
            block.citations.extend(cited)
        if block.kind == "tool_use":
            yield CallChunk(block.ordinal, _name(data), 0)

    def _new(self, index: int | None, data: dict[str, Any]) -> _ContentBlock:
        block = _ContentBlock(data, self._calls)
        self._calls += block.kind == "tool_use"
        self._blocks.append(block)
        self._by_index[index] = block
        return block

    def _add(self, index: int | None, delta: dict[str, Any]) -> Iterator[Chunk]:
        block, kind = self._by_index.get(index), delta.get("type")
        if block is None:
            if kind == "input_json_delta":
                message = f"{self._endpoint.service} sent arguments for a tool call that was not started."
                raise ProviderError("garbled", message)
            if kind not in ("text_delta", "thinking_delta"):
                return
            block = self._new(index, {"type": str(kind).removesuffix("_delta")})
        if kind == "text_delta" and isinstance(piece := delta.get("text"), str):
            if shown := block.text.add(piece):
                yield TextChunk(shown)
        elif kind == "thinking_delta" and isinstance(piece := delta.get("thinking"), str):
            if shown := block.text.add(piece):
                yield ThinkingChunk(shown)
        elif kind == "signature_delta" and isinstance(piece := delta.get("signature"), str):
            block.signature.append(piece)
        elif kind == "citations_delta" and "citation" in delta:
            block.citations.append(delta["citation"])
        elif kind == "input_json_delta" and isinstance(piece := delta.get("partial_json"), str):
            block.json.add(piece)
            if block.kind == "tool_use":
                yield CallChunk(block.ordinal, _name(block.data), block.json.size)

    def _count(self, usage: object) -> None:
        """Update the token counts. They are cumulative: a later count replaces the earlier one."""
        self._usage.update({k: v for k, v in dict_in(usage).items() if v is not None})

    def usage(self) -> Usage | None:
        """The reported tokens; missing or impossible counts are estimated. None before anything has arrived."""
        return self._counted() if self._usage or self._blocks else None

    def _counted(self) -> Usage:
        usage = reported_usage(self._usage)
        fresh, output, estimated = usage.input, usage.output, usage.estimated
        if not fresh + usage.cache_write + usage.cache_read:
            fresh, estimated = self._estimated_input(), True
        estimate = (sum(b.text.size + b.json.size for b in self._blocks) + 3) // 4
        if (not output and estimate) or (not self._stop and estimate > output):
            output, estimated = estimate, True
        return msgspec.structs.replace(
            usage, input=fresh, output=output, estimated=estimated, searches=self._billed_searches()
        )

    def _billed_searches(self) -> int:
        """Number of billed web searches: as reported, else those with a result."""
        reported = dict_in(self._usage.get("server_tool_use")).get("web_search_requests")
        return sum(not s.error for s in self._searches()) if reported is None else _tokens(reported)

    def _searches(self) -> tuple[ServerSearch, ...]:
        """The searches with results in this reply. After a pause_turn the query is in the previous reply."""
        calls = {b.data.get("id"): b for b in self._blocks if b.kind == "server_tool_use"}
        searches = []
        for block in self._blocks:
            if block.kind == "web_search_tool_result":
                call_id, rows = block.data.get("tool_use_id"), block.data.get("content")
                call = calls.get(call_id)
                arguments = parse_arguments(call.json.text)[0] if call and call.json.size else {}
                query = arguments.get("query") or (dict_in(call.data.get("input")).get("query") if call else "")
                error = "" if isinstance(rows, list) else str(dict_in(rows).get("error_code") or "no result")
                pages = [(row.get("title"), row.get("url")) for row in dicts_in(rows)]
                searches.append(server_search(str(call_id)[:256], query, pages, error=error))
        return tuple(searches)

    def finish(self) -> ReplyDone:
        """The complete reply. Raises ProviderError("truncated" or "empty") with the known usage."""
        usage = self._counted()
        if not self._stop or not (self.ended or all(b.closed for b in self._blocks)):
            raise self._error("truncated", usage)
        stop = _STOPS.get(self._stop, "other")
        note = "" if self.ended else NO_END_MARK
        if stop == "other":
            note = f"unknown stop reason: {one_line(self._stop, 60)}"
        parts = [part for block in self._blocks for part in self._parts(block)]
        if stop in ("max_tokens", "context"):
            if self._blocks and self._blocks[-1].kind == "tool_use" and isinstance(last := parts[-1], ToolCall):
                parts[-1] = incomplete(last)
        elif stop == "refusal":
            parts = [part for part in parts if not isinstance(part, ToolCall)]
            note = _refusal(self._details)
        message = Message("assistant", tuple(parts), origin=self._origin)
        stop = _corrected(stop, message)
        if stop in ("end_turn", "other") and not has_content(message.parts):
            raise self._error("empty", usage)
        return ReplyDone(message, usage, stop, note, self._searches())

    def _parts(self, block: _ContentBlock) -> Iterator[AnyPart]:
        text = block.text.text
        if block.kind == "text":
            if text:
                yield Text(text)
                if block.citations:
                    yield Opaque(
                        self._origin, {**block.data, "text": text, "citations": replace_surrogates_in(block.citations)}
                    )
        elif block.kind == "thinking":
            data = {**block.data, "thinking": text, "signature": "".join(block.signature)}
            yield Thinking(text, self._origin, data)
        elif block.kind == "tool_use":
            yield self._call(block)
        else:
            data = dict(block.data)
            if block.json.size:
                data["input"] = parse_arguments(block.json.text)[0]
            yield Opaque(self._origin, replace_surrogates_in(data))

    def _call(self, block: _ContentBlock) -> ToolCall:
        initial = block.data.get("input")
        text = block.json.text
        if not text and initial not in (None, {}, ""):
            text = initial if isinstance(initial, str) else as_text(initial)
        call_id = block.data.get("id")
        if not isinstance(call_id, str) or not call_id or call_id in self._used_call_ids:
            call_id = f"toolu_{secrets.token_hex(12)}"
        self._used_call_ids[call_id] = None
        return call_of(call_id, _name(block.data), text)


def reported_usage(reported: dict[str, Any]) -> Usage:
    """The tokens that the service reports, and the web searches that it ran."""
    written, output = _tokens(reported.get("cache_creation_input_tokens")), _tokens(reported.get("output_tokens"))
    charged = charged_cost(reported)
    steps = dicts_in(reported.get("iterations"))  # those of other kinds are not in the sums
    unusual = text_in(reported.get("inference_geo")) not in _USUAL or any(s.get("type") != "message" for s in steps)
    return Usage(
        _tokens(reported.get("input_tokens")),
        _tokens(reported.get("cache_read_input_tokens")),
        written,
        output,
        reasoning=min(output, _tokens(dict_in(reported.get("output_tokens_details")).get("thinking_tokens"))),
        cached="cache_read_input_tokens" in reported or "cache_creation_input_tokens" in reported,
        estimated=unusual and not charged,
        searches=_tokens(dict_in(reported.get("server_tool_use")).get("web_search_requests")),
        kept_long=min(written, _tokens(dict_in(reported.get("cache_creation")).get("ephemeral_1h_input_tokens"))),
        tier=_tier(reported),
        **charged,
    )


def _corrected(stop: Stop, message: Message) -> Stop:
    """The stop reason that matches the content: some services report a wrong one."""
    if message.calls and stop in ("end_turn", "other"):
        return "tool_use"
    if not message.calls and stop == "tool_use":
        return "end_turn"
    return stop


def _refusal(details: dict[str, Any]) -> str:
    texts = [details.get("explanation"), details.get("category")]
    reason = next((one_line(text) for text in texts if isinstance(text, str) and text.strip()), "")
    return f"the model refused: {reason}" if reason else "the model refused"


def _name(data: dict[str, Any]) -> str:
    name = data.get("name")
    return name[:256] if isinstance(name, str) else ""


def _tokens(value: object) -> int:
    return min(_MOST, max(0, value)) if isinstance(value, int) and not isinstance(value, bool) else 0


def _tier(reported: dict[str, Any]) -> str:
    """The tier that served a reply, by its usage; "" if it does not say."""
    told = [one_line(word, 40) for key in ("speed", "service_tier") if (word := text_in(reported.get(key)))]
    return next((word for word in told if word not in _USUAL), "standard" if any(told) else "")
