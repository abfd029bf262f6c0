"""Chat Completions: a request as its JSON, and the fold of its stream into one message. Pure, without any I/O."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.messages import AnyPart, Image, Message, Opaque, Text, Thinking, ToolCall
from friday_cli.core.protocol.provider import CallChunk, Chunk, Request, ServerSearch, Stop, TextChunk, ThinkingChunk

from ..transport.endpoint import Endpoint
from ..transport.error_mapping import from_error
from ..transport.text import Pieces
from ..transport.tool_arguments import as_text
from ..transport.tool_names import wire_name
from .openai_parts import (  # fmt: skip
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

_STOPS: dict[str, Stop] = {
    "stop": "end_turn", "eos": "end_turn", "end": "end_turn", "end_turn": "end_turn", "stop_sequence": "end_turn",
    "tool_calls": "end_turn", "function_call": "end_turn", "tool_use": "end_turn",
    "length": "max_tokens", "max_tokens": "max_tokens",
    "model_length": "context", "model_context_window_exceeded": "context", "context_length_exceeded": "context",
    "content_filter": "refusal", "refusal": "refusal", "sensitive": "refusal", "safety": "refusal",
    "recitation": "refusal", "prohibited_content": "refusal",
}  # fmt: skip
_UNSIGNED = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""What Gemini takes in place of the signature of a call that it did not make."""
_BROKEN = frozenset(("error", "network_error", "insufficient_system_resource", "malformed_function_call"))


# ---- the request ------------------------------------------------------------


def chat_body(request: Request, model: str, *, quirks: OpenAIQuirks, max_output: int, origin: str) -> dict[str, Any]:
    """The JSON of a request. Reasoning and extras go back only to the `origin` they came from."""
    body: dict[str, Any] = {"model": model, "messages": _messages(request, quirks, origin), "stream": True}
    if quirks.stream_usage:
        body["stream_options"] = {"include_usage": True}
    if limit := min((n for n in (request.max_output, max_output) if n > 0), default=0):
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
    if quirks.cache_key and request.cache_key:
        body["prompt_cache_key"] = cache_key(request)
    return body


def _messages(request: Request, quirks: OpenAIQuirks, origin: str) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    if request.system:
        out.append({"role": quirks.system_role, "content": request.system})
    for message in request.messages:
        if message.role == "assistant":
            if said := _assistant(message, quirks, origin):
                out.append(said)
        elif message.role == "tool":
            _add_results(out, message, quirks)
        else:
            _add_user(out, [_shown(p, quirks) for p in message.parts if isinstance(p, Text | Image)])
    for said in out:
        content = said["content"]
        if isinstance(content, list) and all(part["type"] == "text" for part in content):
            said["content"] = "\n\n".join(part["text"] for part in content)
    return out


def _add_user(out: list[dict[str, Any]], content: list[dict[str, Any]]) -> None:
    """Append to the last user message where there is one: templates of local models refuse two in a row."""
    if not content:
        return
    if out and out[-1]["role"] == "user":
        out[-1]["content"] += content
    else:
        out.append({"role": "user", "content": content})


def _add_results(out: list[dict[str, Any]], message: Message, quirks: OpenAIQuirks) -> None:
    pictures: list[dict[str, Any]] = []
    for result in message.results:
        text = result_text(result)
        entry: dict[str, Any] = {"role": "tool", "tool_call_id": call_id_for(result.call_id, quirks), "content": text}
        if result.images:
            shown = [_shown(image, quirks) for image in result.images]
            if quirks.tool_images:
                entry["content"] = [*([{"type": "text", "text": text}] if text else []), *shown]
            else:
                entry["content"] = text or "(the picture follows)"
                pictures += [{"type": "text", "text": f"Pictures of the tool result {entry['tool_call_id']}:"}, *shown]
        out.append(entry)
    _add_user(out, pictures)


def _shown(part: Text | Image, quirks: OpenAIQuirks) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if not quirks.images:
        return {"type": "text", "text": NO_IMAGE}
    return {"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{part.data}"}}


def _assistant(message: Message, quirks: OpenAIQuirks, origin: str) -> dict[str, Any] | None:
    own = [p for p in message.parts if isinstance(p, Thinking | Opaque) and p.origin == origin]
    extras: dict[str, Any] = {}
    for part in own:
        if isinstance(part, Opaque):
            extras |= part.data.get("call_extras") or {}
    said: dict[str, Any] = {"role": "assistant", "content": message.text or None}
    if message.calls:
        if quirks.signed_calls and not extras:
            extras = {message.calls[0].id: _UNSIGNED}
        said["tool_calls"] = [_called(call, quirks, extras) for call in message.calls]
    elif not message.text:
        return None
    thinking = "".join(p.text for p in own if isinstance(p, Thinking))
    if quirks.reasoning_field == "content":
        if thinking:
            texts = [{"type": "text", "text": message.text}] if message.text else []
            said["content"] = [{"type": "thinking", "thinking": [{"type": "text", "text": thinking}]}, *texts]
    elif quirks.reasoning_field and (thinking or message.calls):
        said[quirks.reasoning_field] = thinking
    details = [d for p in own if isinstance(p, Thinking) and p.data for d in p.data.get("reasoning_details", ())]
    if details:
        said["reasoning_details"] = details
    return said


def _called(call: ToolCall, quirks: OpenAIQuirks, extras: dict[str, Any]) -> dict[str, Any]:
    function = {"name": wire_name(call.name), "arguments": arguments_text(call)}
    called = {"id": call_id_for(call.id, quirks), "type": "function", "function": function}
    return {**called, "extra_content": extras[call.id]} if call.id in extras else called


# ---- the reply --------------------------------------------------------------


class ChatStream:
    """Takes the events of one stream and becomes one message. `ended` once the end mark (a finish reason) was seen.

    `taken` are the call ids already in the history. `usage` is what the service reported, None so far.
    """

    def __init__(self, endpoint: Endpoint, origin: str, taken: set[str]) -> None:
        self.ended = False
        self.stop: Stop = "other"
        self.note = ""
        self.usage: dict[str, Any] | None = None
        self._endpoint, self._origin, self._taken = endpoint, origin, taken
        self._text, self._thinking, self._refusal = Pieces(), Pieces(), Pieces()
        self._field = ""
        self._details: list[dict[str, Any]] = []
        self._slots: list[ToolCallSlot] = []
        self._at: dict[tuple[int, int], ToolCallSlot] = {}

    def feed(self, event: dict[str, Any]) -> Iterator[Chunk]:
        """The chunks that an event brings. Raises ProviderError where the service says that it failed."""
        self._take_usage(event)
        choices = event.get("choices")
        for place, choice in enumerate(tables_in(choices)):
            self._take_usage(choice)
            delta = choice["delta"] if "delta" in choice else choice.get("message")
            if isinstance(delta, dict):
                yield from self._delta(delta, place)
            finish = choice.get("finish_reason")
            if isinstance(finish, str) and finish:
                self._finish(finish, choice.get("error"))

    def searches(self) -> tuple[ServerSearch, ...]:
        """None: this wire has no search of the service."""
        return ()

    def parts(self) -> tuple[AnyPart, ...]:
        """The message, once `ended`; before, what there is of it. Raises ProviderError for a call without a name."""
        refused = self._refusal.text
        if refused:
            self.stop, self.note = "refusal", refused
        thinking, text = self._thinking.text, self._text.text
        named = [slot for slot in self._slots if slot.name]
        if self.ended and any(slot.arguments.size for slot in self._slots if not slot.name):
            raise ProviderError("garbled", f"{self._endpoint.service} sent a tool call without a name.")
        calls = [slot.call(self._taken) for slot in named]
        if self.stop == "refusal":
            calls = []
        elif self.stop == "max_tokens":
            calls = cut_off(calls)
        elif calls and self.ended:
            self.stop = "tool_use"
        extras = {c.id: s.extra for c, s in zip(calls, named, strict=False) if s.extra}
        parts: list[AnyPart] = []
        if thinking or self._details:
            data = {"reasoning_details": self._details} if self._details else None
            parts.append(Thinking(thinking, self._origin, data))
        if text:
            parts.append(Text(text))
        parts += calls
        if extras:
            parts.append(Opaque(self._origin, {"call_extras": extras}))
        return tuple(parts)

    def _take_usage(self, table: dict[str, Any]) -> None:
        groq = table.get("x_groq")
        for found in (table.get("usage"), groq.get("usage") if isinstance(groq, dict) else None):
            if isinstance(found, dict) and found:
                self.usage = found

    def _finish(self, finish: str, error: object) -> None:
        reason = finish.lower()
        if reason in _BROKEN:
            message = f"the reply was broken off ({reason})"
            raise from_error(self._endpoint, error or {"type": "server_error", "message": message})
        self.ended = True
        self.stop = _STOPS.get(reason, "other")
        if self.stop == "other":
            self.note = f"unknown finish reason: {finish[:80]}"
        elif self.stop == "refusal":
            self.note = reason

    def _delta(self, delta: dict[str, Any], place: int) -> Iterator[Chunk]:
        yield from self._reasoning(delta)
        content = delta.get("content")
        for item in content if isinstance(content, list) else (content,):
            if isinstance(item, str):
                yield from self._say(item)
            elif isinstance(item, dict) and item.get("type") == "thinking":
                inner = item.get("thinking")
                texts = [inner] if isinstance(inner, str) else [text_in(t.get("text")) for t in tables_in(inner)]
                for text in texts:
                    yield from self._think(text)
            elif isinstance(item, dict):
                yield from self._say(text_in(item.get("text")))
        if shown := self._refusal.add(text_in(delta.get("refusal"))):
            yield from self._say(shown)
        for piece in tables_in(delta.get("tool_calls")):
            yield from self._call(piece, place)

    def _say(self, text: str) -> Iterator[Chunk]:
        if text and (shown := self._text.add(text)):
            yield TextChunk(shown)

    def _think(self, text: str) -> Iterator[Chunk]:
        if text and (shown := self._thinking.add(text)):
            yield ThinkingChunk(shown)

    def _reasoning(self, delta: dict[str, Any]) -> Iterator[Chunk]:
        """Reasoning under the name this service uses for it; some send it under two."""
        for field in (self._field,) if self._field else ("reasoning_content", "reasoning"):
            if text := text_in(delta.get(field)):
                self._field = field
                yield from self._think(text)
                break
        for detail in tables_in(delta.get("reasoning_details")):
            self._detail(detail)
            if not self._field:
                yield from self._think(text_in(detail.get("text")) or text_in(detail.get("summary")))

    def _detail(self, detail: dict[str, Any]) -> None:
        """Blocks come in pieces: texts of the same block are joined, other fields take their last value."""
        last = self._details[-1] if self._details else {}
        same = last.get("type") == detail.get("type") and last.get("index") == detail.get("index")
        if not last or not same or detail.get("index") is None:
            self._details.append(dict(detail))
            return
        for key, value in detail.items():
            old = last.get(key)
            if key in ("text", "summary", "data") and isinstance(old, str) and isinstance(value, str):
                last[key] = old + value
            elif value is not None:
                last[key] = value

    def _call(self, piece: dict[str, Any], place: int) -> Iterator[Chunk]:
        function = piece.get("function")
        function = function if isinstance(function, dict) else {}
        call_id, name = text_in(piece.get("id")), text_in(function.get("name"))
        slot = self._slot(piece.get("index"), call_id, name, place)
        slot.id = slot.id or call_id
        if name and name != slot.name and not slot.arguments.size:
            slot.name += name
        extra = piece.get("extra_content")
        if isinstance(extra, dict):
            slot.extra |= extra
        arguments = function.get("arguments")
        if isinstance(arguments, dict | list):
            arguments = as_text(arguments)
        if text_in(arguments):
            slot.arguments.add(text_in(arguments))
        if name or arguments:
            yield CallChunk(slot.index, slot.name, slot.arguments.size)

    def _slot(self, index: object, call_id: str, name: str, place: int) -> ToolCallSlot:
        """The call that a piece belongs to: by index, else by id; a piece that names a call anew begins one."""
        slot: ToolCallSlot | None
        if isinstance(index, int):
            slot = self._at.get((place, index))
            if slot is not None and call_id and name and slot.name and slot.id not in ("", call_id):
                slot = None
        elif call_id:
            slot = next((s for s in self._slots if s.id == call_id), None)
        else:
            slot = self._slots[-1] if self._slots and not name else None
        if slot is None:
            slot = ToolCallSlot(len(self._slots))
            self._slots.append(slot)
        if isinstance(index, int):
            self._at[place, index] = slot
        return slot
