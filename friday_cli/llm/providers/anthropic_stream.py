"""A reply from its raw events: an accumulator that takes what services send, not only what they should send."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.messages import AnyPart, Message, Opaque, Text, Thinking, ToolCall, Usage
from friday_cli.core.protocol.provider import CallChunk, Chunk, ReplyDone, ServerSearch, Stop, TextChunk, ThinkingChunk

from ..transport.server_searches import search_of
from ..transport.text import Pieces, plain, whole_json
from ..transport.tool_arguments import as_text, call_of, parse_arguments

CUT = "the reply reached its output limit before the arguments were complete; the call was not run"
LATE = "the end mark of the reply was missing; it looks complete"
_STOPS: dict[str, Stop] = {
    "end_turn": "end_turn", "stop_sequence": "end_turn", "tool_use": "tool_use", "max_tokens": "max_tokens",
    "pause_turn": "pause_turn", "refusal": "refusal", "model_context_window_exceeded": "context",
}  # fmt: skip
_MOST = 10**9


class _ContentBlock:
    """One content block while it comes. `text` gathers text or thinking, `json` the arguments of a call."""

    def __init__(self, data: dict[str, Any], ordinal: int = 0) -> None:
        self.kind = str(data.get("type"))
        self.data = data
        self.ordinal = ordinal
        self.text, self.json = Pieces(), Pieces()
        self.signature: list[str] = []
        self.citations: list[Any] = []
        self.closed = False

    @property
    def untouched(self) -> bool:
        return not (self.text.size or self.json.size or self.signature)


class AnthropicStream:
    """Takes raw events of one reply; `take` gives chunks to show, `done` the whole message.

    `taken` are the call ids of the history: a call that comes under one of them gets another.
    """

    def __init__(self, service: str, origin: str, *, taken: set[str] | None = None) -> None:
        self._service, self._origin = service, origin
        self._taken = set(taken or ())
        self._id: object = None
        self._usage: dict[str, Any] = {}
        self._reset()

    def _reset(self) -> None:
        self._blocks: list[_ContentBlock] = []
        self._at: dict[int | None, _ContentBlock] = {}
        self._calls = 0
        self._stop = ""
        self._details: dict[str, Any] = {}
        self._ended = False

    def take(self, event: dict[str, Any]) -> Iterator[Chunk]:
        """The chunks an event gives. Unknown events give none. Raises ProviderError("garbled") for arguments of nothing."""
        index = event.get("index")
        index = (
            index if isinstance(index, int) else None
        )  # nothing else is a place, and a list cannot even be looked up
        match event.get("type"):
            case "message_start":
                self._start(_dict(event.get("message")))
            case "content_block_start":
                yield from self._open(index, _dict(event.get("content_block")))
            case "content_block_delta":
                yield from self._add(index, _dict(event.get("delta")))
            case "content_block_stop":
                if block := self._at.get(index):
                    block.closed = True
            case "message_delta":
                delta = _dict(event.get("delta"))
                if isinstance(stop := delta.get("stop_reason"), str):
                    self._stop = stop
                self._details = _dict(delta.get("stop_details")) or self._details
                self._count(event.get("usage"))
            case "message_stop":
                self._ended = True

    def _start(self, message: dict[str, Any]) -> None:
        """A message begins; another one in the same stream starts the reply anew, a repeated one changes nothing."""
        if self._blocks and (message.get("id") is None or message.get("id") != self._id):
            self._reset()
        self._id = message.get("id")
        self._count(message.get("usage"))

    def _open(self, index: int | None, data: dict[str, Any]) -> Iterator[Chunk]:
        known = self._at.get(index)
        if known is not None and not known.closed:
            same = known.kind == data.get("type") and known.data.get("id") == data.get("id")
            if same and known.untouched:
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
        self._at[index] = block
        return block

    def _add(self, index: int | None, delta: dict[str, Any]) -> Iterator[Chunk]:
        block, kind = self._at.get(index), delta.get("type")
        if block is None:
            if kind == "input_json_delta":
                raise ProviderError("garbled", f"{self._service} sent arguments of a call that it never began.")
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
        """Counts are cumulative: a later one stands for the earlier one, a missing one changes nothing."""
        self._usage.update({k: v for k, v in _dict(usage).items() if v is not None})

    @property
    def begun(self) -> bool:
        """Whether anything came that is paid for."""
        return bool(self._usage or self._blocks)

    @property
    def _size(self) -> int:
        return sum(b.text.size + b.json.size for b in self._blocks)

    def usage(self, prompt: Callable[[], int]) -> Usage:
        """The tokens as reported; where the service reports none that can be true, estimated from `prompt`
        (which is asked then: it counts a whole history) and the size."""
        said = self._usage
        fresh, written = _tokens(said.get("input_tokens")), _tokens(said.get("cache_creation_input_tokens"))
        read, output = _tokens(said.get("cache_read_input_tokens")), _tokens(said.get("output_tokens"))
        estimated = False
        if not fresh + written + read:
            fresh, estimated = prompt(), True
        guess = (self._size + 3) // 4
        if (not output and guess) or (not self._stop and guess > output):
            output, estimated = guess, True
        return Usage(
            fresh, read, written, output,
            reasoning=min(output, _tokens(_dict(said.get("output_tokens_details")).get("thinking_tokens"))),
            cached="cache_read_input_tokens" in said or "cache_creation_input_tokens" in said,
            estimated=estimated,
            searches=self._searched(),
        )  # fmt: skip

    def _searched(self) -> int:
        """Web searches that are paid for: as reported, else those that brought a result."""
        said = _dict(self._usage.get("server_tool_use")).get("web_search_requests")
        return sum(not s.error for s in self._searches()) if said is None else _tokens(said)

    def _searches(self) -> tuple[ServerSearch, ...]:
        """The searches whose results came within this reply; after a pause the query stands in the reply before."""
        asked = {b.data.get("id"): b for b in self._blocks if b.kind == "server_tool_use"}
        made = []
        for block in self._blocks:
            if block.kind == "web_search_tool_result":
                call_id, rows = block.data.get("tool_use_id"), block.data.get("content")
                wish = asked.get(call_id)
                words = parse_arguments(wish.json.text)[0] if wish and wish.json.size else {}
                query = words.get("query") or (_dict(wish.data.get("input")).get("query") if wish else "")
                error = "" if isinstance(rows, list) else str(_dict(rows).get("error_code") or "no result")
                pages = [
                    (row.get("title"), row.get("url")) for row in map(_dict, rows if isinstance(rows, list) else ())
                ]
                made.append(search_of(str(call_id)[:256], query, pages, error=error))
        return tuple(made)

    def done(self, prompt: Callable[[], int]) -> ReplyDone:
        """The reply, once its events are over. Raises ProviderError with the usage known: truncated or empty."""
        usage = self.usage(prompt)
        if not self._stop or not (self._ended or all(b.closed for b in self._blocks)):
            raise ProviderError("truncated", f"The reply of {self._service} ended early.", usage=usage)
        stop = _STOPS.get(self._stop, "other")
        note = "" if self._ended else LATE
        if stop == "other":
            note = f"the service stopped for a reason unknown here: {plain(self._stop, 60)}"
        parts = [part for block in self._blocks for part in self._parts(block)]
        if stop in ("max_tokens", "context"):
            parts = _cut(parts, self._blocks)
        elif stop == "refusal":
            parts = [part for part in parts if not isinstance(part, ToolCall)]
            note = _refusal(self._details)
        message = Message("assistant", tuple(parts))
        stop = _agreed(stop, message)
        if stop in ("end_turn", "other") and not message.calls and not message.text.strip():
            raise ProviderError("empty", f"{self._service} sent a reply with neither text nor calls.", usage=usage)
        return ReplyDone(message, usage, stop, note, self._searches())

    def _parts(self, block: _ContentBlock) -> Iterator[AnyPart]:
        text = block.text.text
        if block.kind == "text":
            if text:
                yield Text(text)
                if block.citations:
                    yield Opaque(self._origin, {**block.data, "text": text, "citations": whole_json(block.citations)})
        elif block.kind == "thinking":
            data = {**block.data, "thinking": text, "signature": "".join(block.signature)}
            yield Thinking(text, self._origin, data)
        elif block.kind == "tool_use":
            yield self._call(block)
        else:
            data = dict(block.data)
            if block.json.size:
                data["input"] = parse_arguments(block.json.text)[0]
            yield Opaque(self._origin, whole_json(data))

    def _call(self, block: _ContentBlock) -> ToolCall:
        given = block.data.get("input")
        text = block.json.text
        if not text and given not in (None, {}, ""):
            text = given if isinstance(given, str) else as_text(given)
        call_id = block.data.get("id")
        if not isinstance(call_id, str) or not call_id or call_id in self._taken:
            call_id = f"toolu_{secrets.token_hex(12)}"
        self._taken.add(call_id)
        return call_of(call_id, _name(block.data), text)


def _cut(parts: list[AnyPart], blocks: list[_ContentBlock]) -> list[AnyPart]:
    """A reply that hit a limit: the call it ended in counts only if its arguments are visibly complete."""
    last = parts[-1] if parts else None
    if isinstance(last, ToolCall) and blocks[-1].kind == "tool_use" and (last.error or not last.arguments):
        parts = [*parts[:-1], msgspec.structs.replace(last, arguments={}, error=CUT)]
    return parts


def _agreed(stop: Stop, message: Message) -> Stop:
    """The stop that fits what came: some services name another."""
    if message.calls and stop in ("end_turn", "other"):
        return "tool_use"
    if not message.calls and stop == "tool_use":
        return "end_turn"
    return stop


def _refusal(details: dict[str, Any]) -> str:
    said = [details.get("explanation"), details.get("category")]
    words = next((plain(w) for w in said if isinstance(w, str) and w.strip()), "")
    return f"the model refused: {words}" if words else "the model refused"


def _name(data: dict[str, Any]) -> str:
    name = data.get("name")
    return name[:256] if isinstance(name, str) else ""


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _tokens(value: object) -> int:
    return min(_MOST, max(0, value)) if isinstance(value, int) and not isinstance(value, bool) else 0
