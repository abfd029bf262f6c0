"""Builds the JSON of a Messages API request (Anthropic API documentation, "Create a Message")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from friday_cli.core.protocol.messages import Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult, closed
from friday_cli.core.protocol.provider import EFFORTS, ENVIRONMENT, Effort, Request, clamp
from friday_cli.core.protocol.tool_info import DELEGATE_TASK, TASK_RESULT
from friday_cli.core.text.lazy_regex import pattern

from ..transport.json_body import EncodedList
from ..transport.tool_arguments import api_call_id, api_tool_name
from .encoded_history import EncodedHistory
from .service_provider import ServedModel, temperature_for

WEB_SEARCH_SPEC = {"type": "web_search_20250305", "name": "web_search"}
"""The service's search tool ("Web search tool"); this version works with every model and platform that has search."""
_BUDGETS = {"minimal": 2048, "low": 4096, "medium": 8192, "high": 16384, "xhigh": 32768, "max": 32768}
_MIN_BUDGET = 1024
_MIN_TASK_BUDGET = 20_000
"""Fewest tokens of a task budget ("Task budgets")."""
_MAX_TEMPERATURE = 1.0
_CACHE_CONTROL = {"type": "ephemeral"}
_MARK = b',"cache_control":{"type":"ephemeral"}'
_ID = pattern(r"[A-Za-z0-9_-]{1,64}")
REJECTED = "rejected_thinking"
"""In `Request.provider_state`: how thinking blocks that the service rejected, because the conversation has changed, are handled.
"drop" asks the service to ignore them, "strip" does not send them."""
_Block = dict[str, Any]


class AnthropicQuirks(msgspec.Struct, frozen=True):
    """Differences between models, from the model's row in models.toml, which explains the values. The defaults are for an
    unknown model."""

    efforts: tuple[Effort, ...] = ()
    """The accepted levels; empty: not known."""
    thinking: str = ""
    """How thinking is requested."""
    off: str = ""
    """How thinking is switched off."""
    temperature: str = "any"
    """When it is sent."""
    short_ids: bool = True
    """Send ids of calls of other models as nine letters and digits: a server may use a chat template of Mistral, which
    refuses others; Claude streams the arguments of calls as it writes them."""
    task_budget: bool = False
    """Whether the model can be told how many tokens it may use for its task; needs a beta header."""
    cache_blocks: bool = False
    """Mark blocks for the cache instead of the whole request: the platform has no automatic caching."""


def messages_request(
    request: Request, model: ServedModel, quirks: AnthropicQuirks, history: EncodedHistory | None = None
) -> dict[str, Any]:
    """The JSON of a streaming request. `history` encodes the messages; blocks of it cannot be marked."""
    max_tokens = max(1, min(request.max_output, model.max_output))
    rejected_thinking, origin = request.provider_state.get(REJECTED, ""), model.origin
    thinking, effort = _thinking(request.effort, quirks, max_tokens)
    if rejected_thinking == "drop":
        thinking = {"type": "adaptive"} if thinking is None else thinking
        if thinking["type"] in ("adaptive", "enabled"):
            thinking = {**thinking, "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
        else:
            rejected_thinking = "strip"
    without_thinking = rejected_thinking == "strip" or (thinking is not None and thinking["type"] == "disabled")

    def turns(messages: Sequence[Message], first: bool) -> list[_Block]:
        return api_messages(
            messages, origin=origin, thinking=not without_thinking, short_ids=quirks.short_ids, first=first
        )

    sent = request.messages
    variant = (origin, without_thinking)
    messages = turns(sent, True) if history is None else history.encode(sent, turns, variant, mark=_MARK)
    body: dict[str, Any] = {"model": model.name, "max_tokens": max_tokens, "messages": messages, "stream": True}
    if request.system.strip():
        shared, heading, rest = request.system.partition(ENVIRONMENT)
        body["system"] = [{"type": "text", "text": text} for text in (shared, heading + rest) if text]
    if tools := _tools(request, model.searches, not quirks.short_ids):
        body["tools"] = tools
        if request.tool_choice == "none":
            body["tool_choice"] = {"type": "none"}
    if thinking is not None:
        body["thinking"] = thinking
    if effort is not None:
        body["output_config"] = {"effort": effort}
    if (budget := task_budget(request, quirks)) is not None:
        body["output_config"] = {**body.get("output_config", {}), "task_budget": budget}
    temperature = temperature_for(request, quirks.temperature)
    if temperature is not None and (thinking is None or thinking["type"] == "disabled"):
        body["temperature"] = min(_MAX_TEMPERATURE, temperature)
    _add_cache_control(body, quirks.cache_blocks)
    return body


def task_budget(request: Request, quirks: AnthropicQuirks) -> _Block | None:
    """What a model is told of its budget; None for nothing. It stays the same in all requests, so that the cache is used: the service
    counts down by itself, except after a compaction."""
    if not quirks.task_budget or request.task_tokens < _MIN_TASK_BUDGET:
        return None
    left = {"remaining": min(request.task_left, request.task_tokens)} if request.task_left else {}
    return {"type": "tokens", "total": request.task_tokens, **left}


def api_messages(
    history: Sequence[Message], *, origin: str, thinking: bool = True, short_ids: bool = False, first: bool = True
) -> list[_Block]:
    """The history as alternating turns that the API accepts: no empty text, one result for each call.

    Thinking and opaque blocks are sent only to the `origin` that made them; `thinking` False omits thinking blocks.
    `short_ids` as in `AnthropicQuirks`. `first`: the conversation begins with `history`, and must begin with a user's
    turn.
    """
    turns: list[_Block] = []
    ids: dict[str, str] = {}
    for message in closed(history):
        role = "assistant" if message.role == "assistant" else "user"
        if message.role == "assistant":
            own = message.origin == origin
            ids = {c.id: c.id if own else api_call_id(c.id, _ID(), short=short_ids) for c in message.calls}
        blocks = _blocks(message, origin, thinking, ids)
        if not blocks:
            continue
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"].extend(blocks)
        else:
            turns.append({"role": role, "content": blocks})
    if first and turns and turns[0]["role"] == "assistant":
        turns.insert(0, {"role": "user", "content": [{"type": "text", "text": "(earlier messages were removed)"}]})
    return turns


def _blocks(message: Message, origin: str, thinking: bool, ids: dict[str, str]) -> list[_Block]:
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
                call = {"id": ids[part.id], "name": api_tool_name(part.name)}
                blocks.append({"type": "tool_use", **call, "input": part.arguments})
            case ToolResult():
                blocks.append(_result(part, ids.get(part.call_id, part.call_id)))
    return blocks


def _add_opaque(blocks: list[_Block], data: _Block) -> None:
    """Add a service-specific block. One of type text is the full form (with citations) of the text before it."""
    if data.get("type") != "text":
        blocks.append(data)
    elif blocks and blocks[-1] == {"type": "text", "text": data.get("text")}:
        blocks[-1] = data


def _image(image: Image) -> _Block:
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.data}}


def _result(result: ToolResult, call_id: str) -> _Block:
    text = result.text if result.text.strip() else ("" if result.images else "(no output)")
    block: _Block = {"type": "tool_result", "tool_use_id": call_id}
    if result.status != "ok":  # the API accepts only text in an error result
        return {**block, "content": text or "(failed)", "is_error": True}
    if not result.images:
        return {**block, "content": text}
    texts = [{"type": "text", "text": text}] if text else []
    return {**block, "content": [*texts, *map(_image, result.images)]}


def _tools(request: Request, web_search: bool, eager: bool) -> list[_Block]:
    tools: list[_Block] = []
    for spec in request.tools:
        schema = spec.schema if spec.schema.get("type") == "object" else {**spec.schema, "type": "object"}
        tool = {"name": spec.name, "description": spec.description, "input_schema": schema}
        tools.append(tool | {"eager_input_streaming": True} if eager else tool)
    if web_search and all(spec.name != WEB_SEARCH_SPEC["name"] for spec in request.tools):
        tools.append(dict(WEB_SEARCH_SPEC))
    return tools


def _thinking(wanted: Effort | None, quirks: AnthropicQuirks, max_tokens: int) -> tuple[_Block | None, str | None]:
    """The `thinking` and `output_config.effort` to send; None to omit the field ("Extended thinking", "Effort")."""
    if wanted == "none":
        if quirks.off in ("disabled", "between_tools"):
            return {"type": quirks.off}, None
        if quirks.off != "never":
            return None, None
    if quirks.thinking == "budget":
        budget = min(_BUDGETS.get(wanted or "none", 0), max_tokens - _MIN_BUDGET)
        return ({"type": "enabled", "budget_tokens": budget} if budget >= _MIN_BUDGET else None), None
    if quirks.thinking == "none" or (quirks.thinking == "" and wanted is None):
        return None, None
    accepted = [e for e in quirks.efforts or EFFORTS if e not in ("none", "minimal")]
    effort = clamp(wanted, accepted) if wanted and accepted else None
    return {"type": "adaptive", "display": "summarized"}, effort


def _add_cache_control(body: dict[str, Any], on_blocks: bool) -> None:
    """Set the four cache breakpoints ("Prompt caching"): after the tools that parents and sub-agents have alike, after the
    part of the system text that all folders share, at the end of the request before, and at the end of the messages. A
    service looks back 20 blocks from a breakpoint, and a turn with ten calls has more. The first request has nothing
    before it: its third breakpoint is after the whole system text."""
    names = [tool["name"] for tool in body.get("tools", ())]
    alike = next((i for i, name in enumerate(names) if name in (DELEGATE_TASK, TASK_RESULT)), len(names))
    if alike:
        body["tools"][alike - 1]["cache_control"] = _CACHE_CONTROL
    messages = body["messages"]
    ends = (
        [] if isinstance(messages, EncodedList) else [_previous_end(messages), *([len(messages)] if on_blocks else [])]
    )
    for end in filter(None, ends):
        content = messages[end - 1]["content"]
        content[-1] = {**content[-1], "cache_control": _CACHE_CONTROL}
    later = messages.marked if isinstance(messages, EncodedList) else ends[0] > 0
    for block in body.get("system", ())[: 1 if later else None]:
        block["cache_control"] = _CACHE_CONTROL
    if not on_blocks:
        body["cache_control"] = _CACHE_CONTROL


def _previous_end(messages: list[_Block]) -> int:
    """How many of `messages` the request before had; 0 if there was none."""
    return next((i for i in range(len(messages) - 1, -1, -1) if messages[i]["role"] == "assistant"), 0)
