"""The Chat Completions API: builds the JSON of a request and accumulates the stream of a reply. No I/O.

Sources: OpenAI API reference, "Create chat completion" and "Chat completion chunk"; the vendors' pages on
compatibility with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.messages import AnyPart, Image, Message, Opaque, Text, Thinking, ToolCall
from friday_cli.core.protocol.provider import CallChunk, Chunk, Request, Stop, TextChunk, ThinkingChunk

from ..transport.endpoint import Endpoint
from ..transport.error_mapping import from_error
from ..transport.text import StreamedText, dict_in, dicts_in, text_in
from ..transport.tool_arguments import api_tool_name, as_text, incomplete
from .encoded_history import EncodedHistory
from .openai_parts import (
    NO_IMAGE,
    OpenAIQuirks,
    OpenAIStream,
    StreamedToolCall,
    ThinkTag,
    cache_key,
    call_ids_for,
    effort_for,
    result_text,
)
from .service_provider import ServedModel, temperature_for

_STOPS: dict[str, Stop] = {
    "stop": "end_turn", "eos": "end_turn", "end": "end_turn", "end_turn": "end_turn", "stop_sequence": "end_turn",
    "tool_calls": "end_turn", "function_call": "end_turn", "tool_use": "end_turn",
    "length": "max_tokens", "max_tokens": "max_tokens",
    "model_length": "context", "model_context_window_exceeded": "context", "context_length_exceeded": "context",
    "content_filter": "refusal", "refusal": "refusal", "sensitive": "refusal", "safety": "refusal",
    "recitation": "refusal", "prohibited_content": "refusal",
}  # fmt: skip
_NO_SIGNATURE = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""Gemini accepts this instead of the signature of a call that it did not make (Gemini API, "Thought signatures")."""
_SIGNED = ("reasoning_details", "thinking_blocks")
"""Fields of a reply with blocks of reasoning that have signatures: of OpenRouter, of litellm."""
_REASONING = ("reasoning_content", "reasoning")
_TEXT_ONLY = frozenset(("role", "content"))
"""Fields of a piece that is nothing but text."""
_CALL_EXTRAS = ("extra_content", "provider_specific_fields")
"""Fields of a call or a reply with signatures: of Gemini, of litellm."""
_ERROR_REASONS = frozenset(("error", "network_error", "insufficient_system_resource", "malformed_function_call"))


# ---- the request ------------------------------------------------------------


def chat_request(
    request: Request, model: ServedModel, quirks: OpenAIQuirks, history: EncodedHistory | None = None
) -> dict[str, Any]:
    """The JSON of a request. Reasoning and extra fields are sent only to the origin that made them. `history` encodes the
    messages."""
    origin = model.origin

    def items(messages: Sequence[Message], first: bool) -> list[dict[str, Any]]:
        system = {"role": quirks.system_role, "content": request.system}
        return [*([system] if first and request.system else []), *_messages(messages, quirks, origin)]

    sent = request.messages
    messages = (
        items(sent, True) if history is None else history.encode(sent, items, (origin, request.system, quirks.omitted))
    )
    body: dict[str, Any] = {"model": model.name, "messages": messages, "stream": True}
    if quirks.stream_usage:
        body["stream_options"] = {"include_usage": True}
    if limit := min((n for n in (request.max_output, model.max_output) if n > 0), default=0):
        body[quirks.max_tokens] = limit
    if request.tools:
        body["tools"] = [
            {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.schema}}
            for t in request.tools
        ]
        if request.tool_choice == "none":
            body["tool_choice"] = "none"
    if (effort := effort_for(request, quirks)) is not None:
        body["reasoning_effort"] = effort
    if (temperature := temperature_for(request, quirks.temperature)) is not None:
        body["temperature"] = temperature
    if quirks.auto_cache:
        body["cache_control"] = {"type": "ephemeral"}
    if quirks.cache_key and request.cache_key:
        body["prompt_cache_key"] = cache_key(request, model.name)
    return body


def _messages(messages: Sequence[Message], quirks: OpenAIQuirks, origin: str) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    ids: dict[str, str] = {}
    for message in messages:
        if message.role == "assistant":
            ids = call_ids_for(message, origin, form=quirks.call_ids)
            if entry := _assistant(message, quirks, origin, ids):
                out.append(entry)
        elif message.role == "tool":
            _add_results(out, message, quirks, ids)
        else:
            _add_user(out, [_content_part(p, quirks) for p in message.parts if isinstance(p, Text | Image)])
    for entry in out:
        content = entry["content"]
        if isinstance(content, list) and all(part["type"] == "text" for part in content):
            entry["content"] = "\n\n".join(part["text"] for part in content)
    return out


def _add_user(out: list[dict[str, Any]], content: list[dict[str, Any]]) -> None:
    """Append to a preceding user message: the chat templates of local models refuse two in a row."""
    if not content:
        return
    if out and out[-1]["role"] == "user":
        out[-1]["content"] += content
    else:
        out.append({"role": "user", "content": content})


def _add_results(out: list[dict[str, Any]], message: Message, quirks: OpenAIQuirks, ids: dict[str, str]) -> None:
    images: list[dict[str, Any]] = []
    for result in message.results:
        text = result_text(result)
        entry: dict[str, Any] = {
            "role": "tool",
            "tool_call_id": ids.get(result.call_id, result.call_id),
            "content": text,
        }
        if result.images:
            content = [_content_part(image, quirks) for image in result.images]
            if quirks.tool_images:
                entry["content"] = [*([{"type": "text", "text": text}] if text else []), *content]
            else:
                entry["content"] = text or "(image in the next message)"
                images += [{"type": "text", "text": f"Images of the tool result {entry['tool_call_id']}:"}, *content]
        out.append(entry)
    _add_user(out, images)


def _content_part(part: Text | Image, quirks: OpenAIQuirks) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if not quirks.images:
        return {"type": "text", "text": NO_IMAGE}
    return {"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{part.data}"}}


def _assistant(message: Message, quirks: OpenAIQuirks, origin: str, ids: dict[str, str]) -> dict[str, Any] | None:
    own = [p for p in message.parts if isinstance(p, Thinking | Opaque) and p.origin == origin]
    extras: dict[str, Any] = {}
    fields: dict[str, Any] = {}
    for part in own:
        if isinstance(part, Opaque):
            extras |= part.data.get("call_extras") or {}
            fields |= part.data.get("message_fields") or {}
    entry: dict[str, Any] = {"role": "assistant", "content": message.text or None}
    if message.calls:
        if quirks.signed_calls and not extras:
            extras = {message.calls[0].id: {"extra_content": _NO_SIGNATURE}}
        entry["tool_calls"] = [_tool_call(call, ids[call.id], extras.get(call.id) or {}) for call in message.calls]
    elif not message.text:
        return None
    entry |= fields
    _add_reasoning(entry, [p for p in own if isinstance(p, Thinking)], quirks)
    return {key: value for key, value in entry.items() if key not in quirks.omitted}


def _add_reasoning(entry: dict[str, Any], own: list[Thinking], quirks: OpenAIQuirks) -> None:
    """Add the reasoning of a reply to it, in the field in which the service sent it, or its blocks with signatures."""
    thinking = "".join(p.text for p in own)
    stored: dict[str, Any] = {}
    for part in own:
        stored |= part.data or {}
    if signed := [name for name in _SIGNED if stored.get(name)]:
        entry |= {name: stored[name] for name in signed}
    elif (field := stored.get("field")) == "content":
        texts = [{"type": "text", "text": entry["content"]}] if entry["content"] else []
        entry["content"] = [{"type": "thinking", "thinking": [{"type": "text", "text": thinking}]}, *texts]
    elif (field := quirks.reasoning_field or field) and (thinking or "tool_calls" in entry):
        entry[field] = thinking


def _tool_call(call: ToolCall, call_id: str, extra: dict[str, Any]) -> dict[str, Any]:
    function = {"name": api_tool_name(call.name), "arguments": as_text(call.arguments)}
    stored_before = extra and not any(field in extra for field in _CALL_EXTRAS)  # only the value of `extra_content`
    return {"id": call_id, "type": "function", "function": function} | (
        {"extra_content": extra} if stored_before else extra
    )


# ---- the reply --------------------------------------------------------------


class ChatStream(OpenAIStream):
    """Accumulates the events of one reply. `ended` is True after a finish reason, or after usage and `[DONE]`."""

    def __init__(self, endpoint: Endpoint, origin: str, request: Request) -> None:
        super().__init__(endpoint, origin, request)
        self.stop = "other"
        self._text, self._thinking, self._refusal = StreamedText(), StreamedText(), StreamedText()
        self._reasoning_field = ""
        self._details: dict[str, list[dict[str, Any]]] = {}
        self._fields: dict[str, Any] = {}
        self._tag = ThinkTag()
        self._calls: list[StreamedToolCall] = []
        self._by_index: dict[tuple[int, int], StreamedToolCall] = {}

    def feed(self, event: dict[str, Any]) -> Iterator[Chunk]:
        """The chunks of an event. Raises ProviderError if the service reports a failure."""
        self._update_usage(event)
        if event.get("type") == "[DONE]" and self.reported and not self.ended:
            self.ended, self.stop = True, "end_turn"  # Snowflake and others send no finish reason
        choices = event.get("choices")
        for position, choice in enumerate(dicts_in(choices)):
            self._update_usage(choice)
            delta = choice["delta"] if "delta" in choice else choice.get("message")
            if isinstance(delta, dict):
                yield from self._delta(delta, position)
            finish = choice.get("finish_reason")
            if isinstance(finish, str) and finish:
                self._finish(finish, choice.get("error"))
        if self.ended:
            yield from self._add_text(self._tag.end())

    def parts(self) -> tuple[AnyPart, ...]:
        """The parts of the message so far; complete if `ended`. Raises ProviderError for a call without a name."""
        refused = self._refusal.text
        if refused:
            self.stop, self.note = "refusal", refused
        thinking, text = self._thinking.text, self._text.text
        named = [call for call in self._calls if call.name]
        if self.ended and any(call.arguments.size for call in self._calls if not call.name):
            raise ProviderError("garbled", f"{self._endpoint.service} sent a tool call without a name.")
        calls = [call.call(self._used_call_ids) for call in named]
        if self.stop == "refusal":
            calls = []
        elif self.stop == "max_tokens":
            calls[-1:] = map(incomplete, calls[-1:])
        elif calls and self.ended:
            self.stop = "tool_use"
        extras = {c.id: s.extra for c, s in zip(calls, named, strict=False) if s.extra}
        parts: list[AnyPart] = []
        if thinking or self._details:
            field = {"field": self._reasoning_field} if self._reasoning_field else {}
            parts.append(Thinking(thinking, self._origin, {**self._details, **field} or None))
        if text:
            parts.append(Text(text))
        parts += calls
        if stored := {k: v for k, v in (("call_extras", extras), ("message_fields", self._fields)) if v}:
            parts.append(Opaque(self._origin, stored))
        return tuple(parts)

    def _update_usage(self, table: dict[str, Any]) -> None:
        self.tier = text_in(table.get("service_tier")) or self.tier
        for found in (table.get("usage"), dict_in(table.get("x_groq")).get("usage")):
            self.reported = dict_in(found) or self.reported

    def _finish(self, finish: str, error: object) -> None:
        reason = finish.lower()
        if reason in _ERROR_REASONS:
            message = f"the reply was aborted ({reason})"
            raise from_error(self._endpoint, error or {"type": "server_error", "message": message})
        self.ended = True
        self.stop = _STOPS.get(reason, "other")
        if self.stop == "other":
            self.note = f"unknown finish reason: {finish[:80]}"
        elif self.stop == "refusal":
            self.note = reason

    def _delta(self, delta: dict[str, Any], position: int) -> Iterator[Chunk]:
        content = delta.get("content")
        if isinstance(content, str) and delta.keys() <= _TEXT_ONLY:  # most pieces of a reply
            yield from self._add_text(content)
            return
        yield from self._reasoning(delta)
        for item in content if isinstance(content, list) else (content,):
            if isinstance(item, str):
                yield from self._add_text(item)
            elif isinstance(item, dict) and item.get("type") == "thinking":
                inner = item.get("thinking")
                texts = [inner] if isinstance(inner, str) else [text_in(t.get("text")) for t in dicts_in(inner)]
                self._reasoning_field = "content"
                for text in texts:
                    yield from self._add_thinking(text)
            elif isinstance(item, dict):
                yield from self._add_text(text_in(item.get("text")))
        if shown := self._refusal.add(text_in(delta.get("refusal"))):
            yield from self._add_text(shown)
        self._fields |= {key: found for key in _CALL_EXTRAS if (found := dict_in(delta.get(key)))}
        for piece in dicts_in(delta.get("tool_calls")):
            yield from self._add_call(piece, position)

    def _add_text(self, text: str) -> Iterator[Chunk]:
        thought, text = self._tag.split(text)
        if thought:
            yield from self._add_thinking(thought)
        if text and (shown := self._text.add(text)):
            yield TextChunk(shown)

    def _add_thinking(self, text: str) -> Iterator[Chunk]:
        if text and (shown := self._thinking.add(text)):
            yield ThinkingChunk(shown)

    def _reasoning(self, delta: dict[str, Any]) -> Iterator[Chunk]:
        """Reasoning text, in the first field where it appears; some services send it in two fields."""
        known = self._reasoning_field
        for field in (known,) if known in _REASONING else _REASONING:
            if text := text_in(delta.get(field)):
                self._reasoning_field = field
                yield from self._add_thinking(text)
                break
        for name in _SIGNED:
            for detail in dicts_in(delta.get(name)):
                self._add_detail(self._details.setdefault(name, []), detail)
                if not self._reasoning_field:
                    found = (text_in(detail.get(key)) for key in ("text", "summary", "thinking"))
                    yield from self._add_thinking(next(filter(None, found), ""))

    def _add_detail(self, details: list[dict[str, Any]], detail: dict[str, Any]) -> None:
        """Merge a piece of a block with a signature: texts of the same block are joined, other fields are replaced."""
        last = details[-1] if details else {}
        same = last.get("type") == detail.get("type") and last.get("index") == detail.get("index")
        streamed = detail.get("index") is not None or ("thinking" in detail and not last.get("signature"))
        if not last or not same or not streamed:
            details.append(dict(detail))
            return
        for key, value in detail.items():
            old = last.get(key)
            if key in ("text", "summary", "data", "thinking") and isinstance(old, str) and isinstance(value, str):
                last[key] = old + value
            elif value is not None:
                last[key] = value

    def _add_call(self, piece: dict[str, Any], position: int) -> Iterator[Chunk]:
        function = dict_in(piece.get("function"))
        call_id, name = text_in(piece.get("id")), text_in(function.get("name"))
        call = self._call_for(piece.get("index"), call_id, name, position)
        call.id = call.id or call_id
        if name and name != call.name and not call.arguments.size:
            call.name += name
        call.extra |= {key: found for key in _CALL_EXTRAS if (found := dict_in(piece.get(key)))}
        arguments = function.get("arguments")
        if isinstance(arguments, dict | list):
            arguments = as_text(arguments)
        if text_in(arguments):
            call.arguments.add(text_in(arguments))
        if name or arguments:
            yield CallChunk(call.index, call.name, call.arguments.size)

    def _call_for(self, index: object, call_id: str, name: str, position: int) -> StreamedToolCall:
        """The call that a piece belongs to: by index, else by id. A piece with another id and a name starts a call."""
        call: StreamedToolCall | None
        if isinstance(index, int):
            call = self._by_index.get((position, index))
            if call is not None and call_id and name and call.name and call.id not in ("", call_id):
                call = None
        elif call_id:
            call = next((known for known in self._calls if known.id == call_id), None)
        else:
            call = self._calls[-1] if self._calls and not name else None
        if call is None:
            call = StreamedToolCall(len(self._calls))
            self._calls.append(call)
        if isinstance(index, int):
            self._by_index[position, index] = call
        return call
