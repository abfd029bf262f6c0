"""A request in the words of the Messages API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import msgspec

from friday_cli.core.protocol.messages import Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult, closed
from friday_cli.core.protocol.provider import EFFORTS, Effort, Request, clamp
from friday_cli.core.text.lazy_regex import pattern

from ..transport.tool_names import wire_id, wire_name

Cache = Literal["auto", "blocks", "off"]
"""Prompt caching: one mark for the whole request, marks on blocks (where a platform knows no other), none."""
WEB_SEARCH = {"type": "web_search_20250305", "name": "web_search"}
"""The provider's own search; the version that every model and platform with search has."""
_BUDGETS = {"minimal": 2048, "low": 4096, "medium": 8192, "high": 16384, "xhigh": 32768, "max": 32768}
_LEAST_BUDGET = 1024
_MARK = {"type": "ephemeral"}
_ID = pattern(r"[A-Za-z0-9_-]{1,64}")
_Block = dict[str, Any]


class AnthropicQuirks(Protocol):
    """What a model refuses or wants: its row of the model table has these.

    `efforts` are the levels it takes (empty: not known); `thinking` is how thinking is asked for, `off` how it is
    switched off, in the words of models.toml.
    """

    @property
    def efforts(self) -> tuple[Effort, ...]: ...
    @property
    def thinking(self) -> str: ...
    @property
    def off(self) -> str: ...


class NoQuirks(msgspec.Struct, frozen=True):
    """The quirks of a model nothing is known of."""

    efforts: tuple[Effort, ...] = ()
    thinking: str = ""
    off: str = ""


def body_of(
    request: Request,
    *,
    model: str,
    quirks: AnthropicQuirks,
    max_output: int,
    origin: str,
    cache: Cache = "auto",
    web_search: bool = False,
    stale: Literal["", "drop", "strip"] = "",
) -> dict[str, Any]:
    """The JSON of a streaming request.

    `stale` says what to do with thinking whose conversation has changed since: "drop" lets the service leave it out,
    "strip" sends none.
    """
    most = max(1, min(request.max_output, max_output))
    thinking, effort = _thinking(request.effort, quirks, most)
    if stale == "drop":
        thinking = {"type": "adaptive"} if thinking is None else thinking
        if thinking["type"] in ("adaptive", "enabled"):
            thinking = {**thinking, "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
        else:
            stale = "strip"
    silent = stale == "strip" or (thinking is not None and thinking["type"] == "disabled")
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": most,
        "messages": messages_of(request.messages, origin=origin, thinking=not silent),
        "stream": True,
    }
    if request.system.strip():
        body["system"] = [{"type": "text", "text": request.system}]
    if tools := _tools(request, web_search):
        body["tools"] = tools
        if request.tool_choice == "none":
            body["tool_choice"] = {"type": "none"}
    if thinking is not None:
        body["thinking"] = thinking
    if effort is not None:
        body["output_config"] = {"effort": effort}
    _mark(body, cache)
    return body


def messages_of(history: Sequence[Message], *, origin: str, thinking: bool = True) -> list[_Block]:
    """The history as alternating turns that the API accepts: no empty text, each call with its one result.

    Thinking and opaque blocks go back only to the `origin` they came from, thinking only if it is wanted.
    """
    turns: list[_Block] = []
    for message in closed(history):
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _blocks(message, origin, thinking)
        if not blocks:
            continue
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"].extend(blocks)
        else:
            turns.append({"role": role, "content": blocks})
    if turns and turns[0]["role"] == "assistant":
        turns.insert(0, {"role": "user", "content": [{"type": "text", "text": "(earlier messages were removed)"}]})
    return turns


def _blocks(message: Message, origin: str, thinking: bool) -> list[_Block]:
    blocks: list[_Block] = []
    for part in message.parts:
        match part:
            case Text(text=text):
                if text.strip():
                    blocks.append({"type": "text", "text": text})
            case Thinking():
                if thinking and part.origin == origin and part.data:
                    blocks.append(part.data)
            case Opaque():
                if part.origin == origin and (thinking or part.data.get("type") != "redacted_thinking"):
                    _add_opaque(blocks, part.data)
            case Image():
                blocks.append(_image(part))
            case ToolCall():
                call = {"id": wire_id(part.id, _ID()), "name": wire_name(part.name), "input": part.arguments}
                blocks.append({"type": "tool_use", **call})
            case ToolResult():
                blocks.append(_result(part))
    return blocks


def _add_opaque(blocks: list[_Block], data: _Block) -> None:
    """A block of the service's own; one of type text is the full form of the text before it, citations and all."""
    if data.get("type") != "text":
        blocks.append(data)
    elif blocks and blocks[-1] == {"type": "text", "text": data.get("text")}:
        blocks[-1] = data


def _image(image: Image) -> _Block:
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.data}}


def _result(result: ToolResult) -> _Block:
    text = result.text if result.text.strip() else ("" if result.images else "(no output)")
    block: _Block = {"type": "tool_result", "tool_use_id": wire_id(result.call_id, _ID())}
    if result.status != "ok":  # the API takes nothing but text in a failure
        return {**block, "content": text or "(failed)", "is_error": True}
    if not result.images:
        return {**block, "content": text}
    words = [{"type": "text", "text": text}] if text else []
    return {**block, "content": [*words, *map(_image, result.images)]}


def _tools(request: Request, web_search: bool) -> list[_Block]:
    tools: list[_Block] = []
    for spec in request.tools:
        schema = spec.schema if spec.schema.get("type") == "object" else {**spec.schema, "type": "object"}
        tools.append({"name": spec.name, "description": spec.description, "input_schema": schema})
    if web_search and all(spec.name != WEB_SEARCH["name"] for spec in request.tools):
        tools.append(dict(WEB_SEARCH))
    return tools


def _thinking(wanted: Effort | None, quirks: AnthropicQuirks, most: int) -> tuple[_Block | None, str | None]:
    """The `thinking` and `output_config.effort` to send; None for nothing."""
    if wanted == "none":
        if quirks.off in ("disabled", "between_tools"):
            return {"type": quirks.off}, None
        if quirks.off != "never":
            return None, None
    if quirks.thinking == "budget":
        budget = min(_BUDGETS.get(wanted or "none", 0), most - _LEAST_BUDGET)
        return ({"type": "enabled", "budget_tokens": budget} if budget >= _LEAST_BUDGET else None), None
    if quirks.thinking == "none" or (quirks.thinking == "" and wanted is None):
        return None, None
    taken = [e for e in quirks.efforts or EFFORTS if e not in ("none", "minimal")]
    effort = clamp(wanted, taken) if wanted and taken else None
    return {"type": "adaptive", "display": "summarized"}, effort


def _mark(body: dict[str, Any], cache: Cache) -> None:
    """Set the marks up to which the service keeps the prompt: behind the system text, and at the end."""
    if cache == "off":
        return
    if "system" in body:
        body["system"][-1]["cache_control"] = _MARK
    if cache == "auto":
        body["cache_control"] = _MARK
    elif body["messages"] and body["messages"][-1]["content"]:
        content = body["messages"][-1]["content"]
        content[-1] = {**content[-1], "cache_control": _MARK}
