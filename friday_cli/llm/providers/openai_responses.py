"""The Responses API: builds the JSON of a request and accumulates the stream of a reply. No I/O.

Sources: OpenAI API reference, "Create a model response" and "Streaming events" of Responses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.messages import (
    AnyPart,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    without_thinking,
)
from friday_cli.core.protocol.provider import CallChunk, Chunk, Request, ServerSearch, Stop, TextChunk, ThinkingChunk

from ..transport.endpoint import Endpoint
from ..transport.error_mapping import from_error
from ..transport.text import StreamedText, dict_in, dicts_in, text_in
from ..transport.tool_arguments import api_tool_name, as_text, incomplete
from .encoded_history import UNREAD, EncodedHistory
from .openai_parts import (
    NO_IMAGE,
    OpenAIQuirks,
    OpenAIStream,
    StreamedToolCall,
    cache_key,
    call_ids_for,
    effort_for,
    marked_system,
    result_text,
)
from .openai_responses_items import OutputItem, searches_in, stored_fields
from .service_provider import ServedModel, temperature_for

_MIN_OUTPUT = 16
"""The lowest `max_output_tokens` that the service accepts."""
_ITEM_FIELDS = "friday_items"
"""The type of the opaque block with fields of the reply's items (id, status, phase), which are sent back with them."""


# ---- the request ------------------------------------------------------------


def responses_request(
    request: Request, model: ServedModel, quirks: OpenAIQuirks, history: EncodedHistory | None = None
) -> dict[str, Any]:
    """The JSON of a request. The service stores nothing (`store` is false), so encrypted reasoning is sent along, except that of the
    first messages which it cannot read. `history` encodes the messages."""
    origin, unread = model.origin, request.provider_state.get(UNREAD, 0)
    system = marked_system(request.system) if quirks.cache_marks else None

    def items(messages: Sequence[Message], first: bool) -> list[dict[str, Any]]:
        return [*([system] if first and system else []), *_input(messages, quirks, origin)]

    sent, variant = request.messages, (origin, request.system if system else "", unread)
    if unread:
        sent = (*map(without_thinking, sent[:unread]), *sent[unread:])
    messages = items(sent, True) if history is None else history.encode(sent, items, variant)
    body: dict[str, Any] = {"model": model.name, "input": messages, "stream": True, "store": False}
    if request.system and system is None:
        body["instructions"] = request.system
    if limit := min((n for n in (request.max_output, model.max_output) if n > 0), default=0):
        body["max_output_tokens"] = max(_MIN_OUTPUT, limit)
    tools: list[dict[str, Any]] = [
        {"type": "function", "name": t.name, "description": t.description, "parameters": t.schema, "strict": False}
        for t in request.tools
    ]
    include = ["reasoning.encrypted_content"] if quirks.reasoning else []
    if model.searches and all(t.name != "web_search" for t in request.tools):
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
    if (temperature := temperature_for(request, quirks.temperature)) is not None:
        body["temperature"] = temperature
    if include:
        body["include"] = include
    if quirks.cache_key and request.cache_key:
        body["prompt_cache_key"] = cache_key(request, model.name)
    return body


def _input(messages: Sequence[Message], quirks: OpenAIQuirks, origin: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    ids: dict[str, str] = {}
    for message in messages:
        if message.role == "assistant":
            ids = call_ids_for(message, origin, form=quirks.call_ids)
            items += _assistant(message, ids, origin)
        elif message.role == "tool":
            for result in message.results:
                text = result_text(result)
                parts: list[Text | Image] = [*([Text(text)] if text else []), *result.images]
                output = [_content_part(p, quirks) for p in parts] if result.images else text
                items.append(
                    {
                        "type": "function_call_output",
                        "call_id": ids.get(result.call_id, result.call_id),
                        "output": output,
                    }
                )
        elif content := [_content_part(p, quirks) for p in message.parts if isinstance(p, Text | Image)]:
            items.append({"type": "message", "role": "user", "content": content})
    return items


def _content_part(part: Text | Image, quirks: OpenAIQuirks) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text}
    if not quirks.images:
        return {"type": "input_text", "text": NO_IMAGE}
    return {"type": "input_image", "detail": "auto", "image_url": f"data:{part.media_type};base64,{part.data}"}


def _assistant(message: Message, ids: dict[str, str], origin: str) -> list[dict[str, Any]]:
    """The items of an assistant message, in order. Blocks of another origin and trailing reasoning are left out."""
    messages, calls = _item_fields(message, origin)
    items: list[dict[str, Any]] = []
    for part in message.parts:
        match part:
            case Text(text=text) if text:
                content = [{"type": "output_text", "text": text, "annotations": []}]
                fields = messages.pop(0) if messages else {}
                items.append({"type": "message", "role": "assistant", "content": content} | fields)
            case ToolCall():
                item = {"type": "function_call", "call_id": ids[part.id], "name": api_tool_name(part.name)}
                items.append(item | {"arguments": as_text(part.arguments)} | calls.get(part.id, {}))
            case Thinking(data=dict() as data) if part.origin == origin:
                if data.get("encrypted_content") or data.get("content"):  # else the service would look the item up
                    items.append(data)
            case Opaque(data=data) if part.origin == origin and data.get("type") != _ITEM_FIELDS:
                items.append(data)
            case _:
                pass
    while items and items[-1]["type"] == "reasoning":
        items.pop()
    return items


def _item_fields(message: Message, origin: str) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """The stored fields of a reply's messages (in order) and calls (by id); no messages if their number differs."""
    blocks = [p.data for p in message.parts if isinstance(p, Opaque) and p.origin == origin]
    stored = next((data for data in blocks if data.get("type") == _ITEM_FIELDS), {})
    messages = list(stored.get("messages", ()))
    texts = sum(isinstance(p, Text) and bool(p.text) for p in message.parts)
    return (messages if len(messages) == texts else []), dict(stored.get("calls", {}))


# ---- the reply --------------------------------------------------------------


_DELTAS = {
    "response.output_text": "output_text",
    "response.refusal": "refusal",
    "response.reasoning_summary_text": "summary_text",
    "response.reasoning_text": "reasoning_text",
}
_THINKING = ("summary_text", "reasoning_text")
_REASONS: dict[str, Stop] = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}


class SeenEvents:
    """The sequence numbers of the events of a reply. They are ignored after two different events had the same one."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}
        self._valid = True

    def repeats(self, event: dict[str, Any]) -> bool:
        """Whether this event was already received."""
        number = event.get("sequence_number")
        if not self._valid or not isinstance(number, int):
            return False
        content = hash((str(event.get("type")), str(event.get("output_index")), str(event.get("delta"))))
        if number not in self._seen:
            self._seen[number] = content
            return False
        self._valid = self._seen[number] == content
        return self._valid


class ResponsesStream(OpenAIStream):
    """Accumulates the events of one reply. `ended` is True after response.completed or response.incomplete."""

    def __init__(self, endpoint: Endpoint, origin: str, request: Request) -> None:
        super().__init__(endpoint, origin, request)
        self._items: list[OutputItem] = []
        self._by_position: dict[tuple[int, str], OutputItem] = {}
        self._last_position = 0
        self._calls = 0
        self._seen = SeenEvents()
        self._response_id = ""
        self._goes_on = False
        """Whether the service said that its turn has not ended."""

    def feed(self, event: dict[str, Any]) -> Iterator[Chunk]:
        """The chunks of an event. Raises ProviderError if the service reports a failure."""
        if self.ended or self._seen.repeats(event):
            return
        kind = text_in(event.get("type"))
        if not kind and event.get("object") == "response":  # the whole reply instead of a stream
            kind, event = f"response.{text_in(event.get('status'))}", {"response": event}
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
            yield from self._end(step, dict_in(event.get("response")))

    def parts(self) -> tuple[AnyPart, ...]:
        """The parts of the message so far; complete if `ended`. Raises ProviderError for a call without a name."""
        parts: list[AnyPart] = []
        calls: list[ToolCall] = []
        stored: dict[str, Any] = {"type": _ITEM_FIELDS, "messages": [], "calls": {}}
        for item in sorted(self._items, key=lambda i: i.position):
            if item.kind == "function_call":
                if item.call.name:
                    calls.append(call := item.call.call(self._used_call_ids))
                    parts.append(call)
                    stored["calls"][call.id] = stored_fields(item, "id", "status")
                elif self.ended and item.call.arguments.size:
                    raise ProviderError("garbled", f"{self._endpoint.service} sent a tool call without a name.")
            elif item.kind == "message":
                if text := item.text("output_text", "refusal"):
                    fields = stored_fields(item, "id", "status", "phase")
                    parts.append(Text(text, fields.get("phase") == "commentary"))
                    stored["messages"].append(fields)
                if refused := item.text("refusal"):
                    self.stop, self.note = "refusal", refused
            elif item.kind == "reasoning":
                text = item.text(*_THINKING, between="\n\n")
                if text or item.final is not None:
                    parts.append(Thinking(text, self._origin, item.final))
            elif item.final is not None:
                parts.append(Opaque(self._origin, item.final))
        if any(stored["messages"]) or any(stored["calls"].values()):
            parts.append(Opaque(self._origin, stored))
        return self._apply_stop(parts, calls)

    def searches(self) -> tuple[ServerSearch, ...]:
        """The web searches that the service ran in this reply, each with its pages."""
        return searches_in(sorted(self._items, key=lambda i: i.position))

    def _apply_stop(self, parts: list[AnyPart], calls: list[ToolCall]) -> tuple[AnyPart, ...]:
        """The parts without calls after a refusal; at the output limit with an incomplete last call marked."""
        if self.stop == "refusal":
            return tuple(p for p in parts if not isinstance(p, ToolCall))
        if self.stop == "max_tokens":
            last = calls[-1] if calls else None
            return tuple(incomplete(p) if isinstance(p, ToolCall) and p is last else p for p in parts)
        if calls and self.ended and self.stop == "end_turn":
            self.stop = "tool_use"
        texts = [p.commentary for p in parts if isinstance(p, Text)]
        if self.ended and self.stop == "end_turn" and (self._goes_on or (texts and all(texts))):
            self.stop = "unfinished"
        return tuple(parts)

    def _created(self, event: dict[str, Any]) -> None:
        response_id = text_in(dict_in(event.get("response")).get("id"))
        if self._items and self._response_id and response_id not in ("", self._response_id):
            raise ProviderError("garbled", f"{self._endpoint.service} started a second reply inside the first.")
        self._response_id = response_id or self._response_id

    def _item_for(self, event: dict[str, Any], kind: str, *, new: bool = False) -> OutputItem:
        """The item that an event belongs to, by position and kind. `new`: the event starts an item.

        Some services change the id of an item within the stream; others give all items the same position.
        """
        index = event.get("output_index")
        position = index if isinstance(index, int) else self._last_position
        item = self._by_position.get((position, kind))
        if item is None or (new and item.final is not None):
            item = self._by_position[position, kind] = OutputItem(kind, position, StreamedToolCall(self._calls))
            self._items.append(item)
            self._calls += kind == "function_call"
        self._last_position = position
        return item

    def _text(self, event: dict[str, Any], kind: str, step: str) -> Iterator[Chunk]:
        item = self._item_for(event, "reasoning" if kind in _THINKING else "message")
        index = event.get("summary_index" if kind == "summary_text" else "content_index")
        key = (kind, index if isinstance(index, int) else 0)
        if step == "delta":
            yield from self._add_text(item, key, text_in(event.get("delta")))
        else:
            yield from self._add_missing_text(item, key, text_in(event.get("text")) or text_in(event.get("refusal")))

    def _add_text(self, item: OutputItem, key: tuple[str, int], text: str) -> Iterator[Chunk]:
        pieces = item.texts.get(key)
        if pieces is None:
            pieces = item.texts[key] = StreamedText()
            if key[0] in _THINKING and len(item.texts) > 1:
                yield ThinkingChunk("\n\n")
        if shown := pieces.add(text):
            yield ThinkingChunk(shown) if key[0] in _THINKING else TextChunk(shown)

    def _add_missing_text(self, item: OutputItem, key: tuple[str, int], text: str) -> Iterator[Chunk]:
        """Add the end of a finished text that no delta contained; some services send few deltas or none."""
        so_far = item.texts[key].text if key in item.texts else ""
        if len(text) > len(so_far) and text.startswith(so_far):
            yield from self._add_text(item, key, text[len(so_far) :])

    def _arguments(self, event: dict[str, Any], step: str) -> Iterator[Chunk]:
        call = self._item_for(event, "function_call").call
        text = text_in(event.get("delta" if step == "delta" else "arguments"))
        if step == "delta":
            call.arguments.add(text)
        elif text:
            call.arguments = StreamedText(text)
        call.name = call.name or text_in(event.get("name"))
        yield CallChunk(call.index, call.name, call.arguments.size)

    def _item(self, event: dict[str, Any], item: dict[str, Any], *, final: bool) -> Iterator[Chunk]:
        if not (kind := text_in(item.get("type"))):
            return
        found = self._item_for(event, kind, new=not final)
        if final:
            found.final = item
        if kind == "function_call":
            call = found.call
            call.id = text_in(item.get("call_id")) or call.id
            call.name = text_in(item.get("name")) or call.name
            if final and (text := text_in(item.get("arguments"))):
                call.arguments = StreamedText(text)
            yield CallChunk(call.index, call.name, call.arguments.size)
        elif final and kind in ("message", "reasoning"):
            for field in ("summary", "content"):
                for index, piece in enumerate(dicts_in(item.get(field))):
                    key = (text_in(piece.get("type")), index)
                    if key[0] in ("output_text", "refusal", *_THINKING):
                        yield from self._add_missing_text(
                            found, key, text_in(piece.get("text")) or text_in(piece.get("refusal"))
                        )

    def _end(self, step: str, response: dict[str, Any]) -> Iterator[Chunk]:
        if isinstance(usage := response.get("usage"), dict):
            self.reported = usage
        if step in ("failed", "cancelled"):
            error = response.get("error") or {"type": "server_error", "message": f"the response {step}"}
            raise from_error(self._endpoint, error)
        output = dicts_in(response.get("output"))
        if len(output) > sum(item.final is not None for item in self._items):
            for index, item in enumerate(output):
                yield from self._item({"output_index": index}, item, final=True)
        sealed = {text_in(item.get("id")): item.get("encrypted_content") for item in output}
        for made in self._items:  # litellm seals its reasoning only here
            final = made.final or {}
            found = sealed.get(text_in(final.get("id")))
            if made.kind == "reasoning" and found and not final.get("encrypted_content"):
                made.final = {**final, "encrypted_content": found}
        self.ended, self._goes_on = True, response.get("end_turn") is False
        self.tier = text_in(response.get("service_tier"))
        reason = text_in(dict_in(response.get("incomplete_details")).get("reason"))
        if step == "incomplete":
            self.stop = _REASONS.get(reason, "other")
            self.note = "" if self.stop == "max_tokens" else reason or "the response is incomplete"
