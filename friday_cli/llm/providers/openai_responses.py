"""The Responses API: a request as its JSON, and the fold of its stream into one message. Pure, without any I/O."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.messages import AnyPart, Image, Message, Opaque, Text, Thinking, ToolCall
from friday_cli.core.protocol.provider import CallChunk, Chunk, Request, ServerSearch, Stop, TextChunk, ThinkingChunk

from ..transport.endpoint import Endpoint
from ..transport.error_mapping import from_error
from ..transport.server_searches import search_of
from ..transport.text import Pieces
from ..transport.tool_names import wire_name
from .openai_parts import (
    NO_IMAGE,
    OpenAIQuirks,
    ToolCallSlot,
    arguments_text,
    cache_key,
    call_id_for,
    cut_off,
    effort_for,
    result_text,
    tables_in,
    text_in,
)

_LEAST_OUTPUT = 16
"""Tokens below which the service refuses a limit."""
_MARKS = "friday_items"
"""The type of the block that keeps what a message and its calls were called in the reply (ids, phase)."""


# ---- the request ------------------------------------------------------------


def responses_body(
    request: Request, model: str, *, quirks: OpenAIQuirks, max_output: int, origin: str, web_search: bool = False
) -> dict[str, Any]:
    """The JSON of a request. Nothing is stored by the service, so reasoning travels with it, encrypted."""
    body: dict[str, Any] = {"model": model, "input": _input(request, quirks, origin), "stream": True, "store": False}
    if request.system:
        body["instructions"] = request.system
    if limit := min((n for n in (request.max_output, max_output) if n > 0), default=0):
        body["max_output_tokens"] = max(_LEAST_OUTPUT, limit)
    tools: list[dict[str, Any]] = [
        {"type": "function", "name": t.name, "description": t.description, "parameters": t.schema, "strict": False}
        for t in request.tools
    ]
    include = ["reasoning.encrypted_content"] if quirks.reasoning else []
    if web_search and all(t.name != "web_search" for t in request.tools):
        tools.append({"type": "web_search"})
        include.append("web_search_call.action.sources")
    if tools:
        body["tools"] = tools
        if request.tool_choice == "none":
            body["tool_choice"] = "none"
    reasoning: dict[str, Any] = {"summary": "auto"} if quirks.reasoning else {}
    if (effort := effort_for(request, quirks)) is not None:
        reasoning["effort"] = effort
    if reasoning:
        body["reasoning"] = reasoning
    if include:
        body["include"] = include
    if quirks.cache_key and request.cache_key:
        body["prompt_cache_key"] = cache_key(request)
    return body


def _input(request: Request, quirks: OpenAIQuirks, origin: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for message in request.messages:
        if message.role == "assistant":
            items += _assistant(message, quirks, origin)
        elif message.role == "tool":
            for result in message.results:
                text = result_text(result)
                shown: list[Text | Image] = [*([Text(text)] if text else []), *result.images]
                output = [_shown(p, quirks) for p in shown] if result.images else text
                items.append(
                    {"type": "function_call_output", "call_id": call_id_for(result.call_id, quirks), "output": output}
                )
        elif content := [_shown(p, quirks) for p in message.parts if isinstance(p, Text | Image)]:
            items.append({"type": "message", "role": "user", "content": content})
    return items


def _shown(part: Text | Image, quirks: OpenAIQuirks) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text}
    if not quirks.images:
        return {"type": "input_text", "text": NO_IMAGE}
    return {"type": "input_image", "detail": "auto", "image_url": f"data:{part.media_type};base64,{part.data}"}


def _assistant(message: Message, quirks: OpenAIQuirks, origin: str) -> list[dict[str, Any]]:
    """The items of a reply, in order. Blocks of another origin are left out, and so is reasoning that leads to none."""
    messages, called = _marks(message, origin)
    items: list[dict[str, Any]] = []
    for part in message.parts:
        match part:
            case Text(text=text) if text:
                content = [{"type": "output_text", "text": text, "annotations": []}]
                mark = messages.pop(0) if messages else {}
                items.append({"type": "message", "role": "assistant", "content": content} | mark)
            case ToolCall():
                item = {"type": "function_call", "call_id": call_id_for(part.id, quirks), "name": wire_name(part.name)}
                items.append(item | {"arguments": arguments_text(part)} | called.get(part.id, {}))
            case Thinking(data=dict() as data) if part.origin == origin and _returns(data):
                items.append(data)
            case Opaque(data=data) if part.origin == origin and data.get("type") != _MARKS:
                items.append(data)
            case _:
                pass
    while items and items[-1]["type"] == "reasoning":
        items.pop()
    return items


def _marks(message: Message, origin: str) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """What the messages (in order) and the calls (by id) of a reply were called, as far as it still fits."""
    kept = [p.data for p in message.parts if isinstance(p, Opaque) and p.origin == origin]
    marks = next((data for data in kept if data.get("type") == _MARKS), {})
    messages = list(marks.get("messages", ()))
    texts = sum(isinstance(p, Text) and bool(p.text) for p in message.parts)
    return (messages if len(messages) == texts else []), dict(marks.get("calls", {}))


def _returns(item: dict[str, Any]) -> bool:
    """Whether a reasoning item can go back: without its content the service would look it up, and has not stored it."""
    return bool(item.get("encrypted_content") or item.get("content"))


# ---- the reply --------------------------------------------------------------


class _OutputItem:
    """An output item while it comes in pieces."""

    def __init__(self, kind: str, place: int, slot: ToolCallSlot) -> None:
        self.kind, self.place = kind, place
        self.final: dict[str, Any] | None = None
        self.texts: dict[tuple[str, int], Pieces] = {}
        self.slot = slot

    def text(self, *kinds: str, between: str = "") -> str:
        """The texts of these kinds, joined in order: those of the finished item where it is there."""
        if self.final is not None:
            pieces = [p for key in ("summary", "content") for p in tables_in(self.final.get(key))]
            found = [text_in(p.get("text")) or text_in(p.get("refusal")) for p in pieces if p.get("type") in kinds]
            if any(found):
                return between.join(found)
        return between.join(p.text for (kind, _), p in sorted(self.texts.items(), key=lambda t: t[0]) if kind in kinds)


_DELTAS = {
    "response.output_text": "output_text",
    "response.refusal": "refusal",
    "response.reasoning_summary_text": "summary_text",
    "response.reasoning_text": "reasoning_text",
}
_THINKING = ("summary_text", "reasoning_text")
_REASONS: dict[str, Stop] = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}


class ResponsesFold:
    """Takes the events of one stream and becomes one message. `ended` once the response is completed or incomplete.

    `taken` are the call ids already in the history. `usage` is what the service reported, None so far.
    """

    def __init__(self, endpoint: Endpoint, origin: str, taken: set[str]) -> None:
        self.ended = False
        self.stop: Stop = "end_turn"
        self.note = ""
        self.usage: dict[str, Any] | None = None
        self._endpoint, self._origin, self._taken = endpoint, origin, taken
        self._items: list[_OutputItem] = []
        self._at_place: dict[tuple[int, str], _OutputItem] = {}
        self._last = 0
        self._calls = 0
        self._seen: dict[int, int] = {}
        self._numbered = True
        self._response = ""

    def feed(self, event: dict[str, Any]) -> Iterator[Chunk]:
        """The chunks that an event brings. Raises ProviderError where the service says that it failed."""
        if self.ended or self._repeated(event):
            return
        kind = text_in(event.get("type"))
        name, _, step = kind.rpartition(".")
        if name in _DELTAS and step in ("delta", "done"):
            yield from self._text(event, _DELTAS[name], step)
        elif name == "response.function_call_arguments":
            yield from self._arguments(event, step)
        elif name == "response.output_item" and isinstance(item := event.get("item"), dict):
            yield from self._item(event, item, final=step == "done")
        elif kind == "response.created":
            self._created(event)
        elif kind in ("response.completed", "response.incomplete", "response.failed", "response.cancelled"):
            response = event.get("response")
            yield from self._end(step, response if isinstance(response, dict) else {})

    def parts(self) -> tuple[AnyPart, ...]:
        """The message, once `ended`; before, what there is of it. Raises ProviderError for a call without a name."""
        parts: list[AnyPart] = []
        calls: list[ToolCall] = []
        marks: dict[str, Any] = {"type": _MARKS, "messages": [], "calls": {}}
        for item in sorted(self._items, key=lambda i: i.place):
            if item.kind == "function_call":
                if (call := self._called(item)) is not None:
                    calls.append(call)
                    parts.append(call)
                    marks["calls"][call.id] = _mark(item, "id", "status")
            elif item.kind == "message":
                if text := item.text("output_text", "refusal"):
                    parts.append(Text(text))
                    marks["messages"].append(_mark(item, "id", "status", "phase"))
                if refused := item.text("refusal"):
                    self.stop, self.note = "refusal", refused
            elif item.kind == "reasoning":
                text = item.text(*_THINKING, between="\n\n")
                if text or item.final is not None:
                    parts.append(Thinking(text, self._origin, item.final))
            elif item.final is not None:
                parts.append(Opaque(self._origin, item.final))
        if any(marks["messages"]) or any(marks["calls"].values()):
            parts.append(Opaque(self._origin, marks))
        return self._settled(parts, calls)

    def searches(self) -> tuple[ServerSearch, ...]:
        """The web searches that the service ran within this reply, each with the pages it names for it.

        Pages that the text cites and no search names stand with the last one.
        """
        made: list[tuple[str, object, list[tuple[object, object]]]] = []
        cited: list[tuple[object, object]] = []
        for item in sorted(self._items, key=lambda i: i.place):
            data = item.final or {}
            action = data.get("action")
            if item.kind == "web_search_call" and isinstance(action, dict) and action.get("type") == "search":
                pages = [(row.get("title"), row.get("url")) for row in tables_in(action.get("sources"))]
                made.append((text_in(data.get("id")) or f"ws_{item.place}", action.get("query"), pages))
            elif item.kind == "message":
                marks = [
                    mark for piece in tables_in(data.get("content")) for mark in tables_in(piece.get("annotations"))
                ]
                cited += [(m.get("title"), m.get("url")) for m in marks if m.get("type") == "url_citation"]
        if made:
            made[-1][2].extend(cited)
        return tuple(search_of(call_id, query, pages) for call_id, query, pages in made)

    def _settled(self, parts: list[AnyPart], calls: list[ToolCall]) -> tuple[AnyPart, ...]:
        if self.stop == "refusal":
            return tuple(p for p in parts if not isinstance(p, ToolCall))
        if self.stop == "max_tokens":
            mended = {call.id: call for call in cut_off(list(calls))}
            return tuple(mended[p.id] if isinstance(p, ToolCall) else p for p in parts)
        if calls and self.ended and self.stop == "end_turn":
            self.stop = "tool_use"
        return tuple(parts)

    def _called(self, item: _OutputItem) -> ToolCall | None:
        if item.slot.name:
            return item.slot.call(self._taken)
        if self.ended and item.slot.arguments.size:
            raise ProviderError("garbled", f"{self._endpoint.service} sent a tool call without a name.")
        return None

    def _repeated(self, event: dict[str, Any]) -> bool:
        """Whether this very event was there before. Numbers that are no count of events are not believed."""
        number = event.get("sequence_number")
        if not self._numbered or not isinstance(number, int):
            return False
        what = hash((str(event.get("type")), str(event.get("output_index")), str(event.get("delta"))))
        if number not in self._seen:
            self._seen[number] = what
            return False
        self._numbered = self._seen[number] == what
        return self._numbered

    def _created(self, event: dict[str, Any]) -> None:
        response = event.get("response")
        response_id = text_in(response.get("id")) if isinstance(response, dict) else ""
        if self._items and self._response and response_id not in ("", self._response):
            raise ProviderError("garbled", f"{self._endpoint.service} began a second reply inside the first.")
        self._response = response_id or self._response

    def _at(self, event: dict[str, Any], kind: str, *, new: bool = False) -> _OutputItem:
        """The item an event belongs to, by place and kind: ids change in mid-stream at some services, and others
        give every item the same place. `new` tells that the event begins one."""
        index = event.get("output_index")
        place = index if isinstance(index, int) else self._last
        item = self._at_place.get((place, kind))
        if item is None or (new and item.final is not None):
            item = self._at_place[place, kind] = _OutputItem(kind, place, ToolCallSlot(self._calls))
            self._items.append(item)
            self._calls += kind == "function_call"
        self._last = place
        return item

    def _text(self, event: dict[str, Any], kind: str, step: str) -> Iterator[Chunk]:
        item = self._at(event, "reasoning" if kind in _THINKING else "message")
        index = event.get("summary_index" if kind == "summary_text" else "content_index")
        key = (kind, index if isinstance(index, int) else 0)
        if step == "delta":
            yield from self._show(item, key, text_in(event.get("delta")))
        else:
            yield from self._rest(item, key, text_in(event.get("text")) or text_in(event.get("refusal")))

    def _show(self, item: _OutputItem, key: tuple[str, int], text: str) -> Iterator[Chunk]:
        pieces = item.texts.get(key)
        if pieces is None:
            pieces = item.texts[key] = Pieces()
            if key[0] in _THINKING and len(item.texts) > 1:
                yield ThinkingChunk("\n\n")
        if shown := pieces.add(text):
            yield ThinkingChunk(shown) if key[0] in _THINKING else TextChunk(shown)

    def _rest(self, item: _OutputItem, key: tuple[str, int], whole: str) -> Iterator[Chunk]:
        """What a finished text has beyond its deltas; some services send few or none."""
        so_far = item.texts[key].text if key in item.texts else ""
        if len(whole) > len(so_far) and whole.startswith(so_far):
            yield from self._show(item, key, whole[len(so_far) :])

    def _arguments(self, event: dict[str, Any], step: str) -> Iterator[Chunk]:
        slot = self._at(event, "function_call").slot
        text = text_in(event.get("delta" if step == "delta" else "arguments"))
        if step == "delta":
            slot.arguments.add(text)
        elif text:
            slot.arguments = Pieces()
            slot.arguments.add(text)
        slot.name = slot.name or text_in(event.get("name"))
        yield CallChunk(slot.index, slot.name, slot.arguments.size)

    def _item(self, event: dict[str, Any], item: dict[str, Any], *, final: bool) -> Iterator[Chunk]:
        if not (kind := text_in(item.get("type"))):
            return
        found = self._at(event, kind, new=not final)
        if final:
            found.final = item
        if kind == "function_call":
            slot = found.slot
            slot.id = text_in(item.get("call_id")) or slot.id
            slot.name = text_in(item.get("name")) or slot.name
            if final and (text := text_in(item.get("arguments"))):
                slot.arguments = Pieces()
                slot.arguments.add(text)
            yield CallChunk(slot.index, slot.name, slot.arguments.size)
        elif final and kind in ("message", "reasoning"):
            for where in ("summary", "content"):
                for index, piece in enumerate(tables_in(item.get(where))):
                    key = (text_in(piece.get("type")), index)
                    if key[0] in ("output_text", "refusal", *_THINKING):
                        yield from self._rest(found, key, text_in(piece.get("text")) or text_in(piece.get("refusal")))

    def _end(self, step: str, response: dict[str, Any]) -> Iterator[Chunk]:
        if isinstance(usage := response.get("usage"), dict):
            self.usage = usage
        if step in ("failed", "cancelled"):
            error = response.get("error") or {"type": "server_error", "message": f"the response {step}"}
            raise from_error(self._endpoint, error)
        output = tables_in(response.get("output"))
        if len(output) > sum(item.final is not None for item in self._items):
            for index, item in enumerate(output):
                yield from self._item({"output_index": index}, item, final=True)
        self.ended = True
        details = response.get("incomplete_details")
        reason = text_in(details.get("reason")) if isinstance(details, dict) else ""
        if step == "incomplete":
            self.stop = _REASONS.get(reason, "other")
            self.note = "" if self.stop == "max_tokens" else reason or "the response is incomplete"


def _mark(item: _OutputItem, *keys: str) -> dict[str, Any]:
    final = item.final or {}
    kept = {key: final[key] for key in keys if final.get(key) is not None}
    if "id" not in kept:
        kept.pop("status", None)
    return kept
