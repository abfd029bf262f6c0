"""Shared by both OpenAI APIs: quirks of services, ids and texts that services accept, reported token usage."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import msgspec

from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.messages import AnyPart, Message, Text, ToolCall, ToolResult, Usage, estimate_message
from friday_cli.core.protocol.provider import Effort, Request, Stop, clamp, estimate_request
from friday_cli.core.text.lazy_regex import pattern

from ..transport.text import StreamedText, replace_surrogates_in
from ..transport.tool_arguments import INCOMPLETE_CALL, call_of
from ..transport.tool_names import api_call_id

CostFunction = Callable[[Usage], float | None]
"""Returns the cost of one request's usage in US dollars, None if unknown."""
NO_IMAGE = "[image omitted: this model does not accept images]"
_MOST = 10**9
_ID = pattern(r"[A-Za-z0-9_.:-]{1,40}")
_SHORT_ID = pattern(r"[A-Za-z0-9]{9}")


class OpenAIQuirks(msgspec.Struct, frozen=True):
    """Differences between services and models. The defaults are for an unknown server with Chat Completions.

    `efforts` are the accepted reasoning efforts: empty sends any effort, ("none",) never sends one. `reasoning_field`
    is the field in which reasoning is sent back ("": not at all). `cache_key` sends `prompt_cache_key`,
    `stream_usage` requests usage. `images`: accepts images; `tool_images`: also in tool results (Chat Completions).
    `short_ids`: accepts only call ids of nine letters and digits. `signed_calls`: requires a signature on each call,
    also on calls of other models. `reasoning` (Responses): request summaries and encrypted reasoning, which models
    without reasoning refuse.
    """

    max_tokens: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    system_role: Literal["system", "developer"] = "system"
    efforts: tuple[Effort, ...] = ()
    reasoning_field: Literal["", "reasoning_content", "reasoning", "content"] = ""
    cache_key: bool = False
    stream_usage: bool = True
    images: bool = True
    tool_images: bool = False
    short_ids: bool = False
    signed_calls: bool = False
    reasoning: bool = True


SERVICES: dict[str, OpenAIQuirks] = {
    "openai": OpenAIQuirks(max_tokens="max_completion_tokens", system_role="developer", cache_key=True),
    "gemini": OpenAIQuirks(signed_calls=True),
    "groq": OpenAIQuirks(max_tokens="max_completion_tokens"),
    "deepseek": OpenAIQuirks(reasoning_field="reasoning_content", images=False),
    "mistral": OpenAIQuirks(stream_usage=False, short_ids=True, efforts=("none",)),
    "ollama": OpenAIQuirks(reasoning_field="reasoning"),
    "vllm": OpenAIQuirks(reasoning_field="reasoning"),
    "llamacpp": OpenAIQuirks(reasoning_field="reasoning_content"),
}
"""The quirks of services by name; other services get the defaults."""


class StreamedToolCall:
    """A tool call while it is streamed."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.arguments = StreamedText()
        self.extra: dict[str, Any] = {}

    def call(self, used_ids: set[str]) -> ToolCall:
        """The call with an id that is not in `used_ids`; the id is added to the set."""
        call_id = self.id or f"call_{len(used_ids) + 1}"
        unique, n = call_id, 2
        while unique in used_ids:
            unique, n = f"{call_id}-{n}", n + 1
        used_ids.add(unique)
        return call_of(unique, self.name[:256], self.arguments.text)


def mark_incomplete_call(calls: list[ToolCall]) -> list[ToolCall]:
    """For a reply that reached its output limit: a last call without complete arguments gets an error."""
    if calls and (calls[-1].error or not calls[-1].arguments):
        calls[-1] = msgspec.structs.replace(calls[-1], arguments={}, error=INCOMPLETE_CALL)
    return calls


def used_call_ids(request: Request) -> set[str]:
    """The ids of all tool calls in a request's history."""
    return {call.id for message in request.messages for call in message.calls}


def effort_for(request: Request, quirks: OpenAIQuirks) -> Effort | None:
    """The effort to send: the nearest accepted one (the lower of two); None to send no effort."""
    if request.effort is None or quirks.efforts == ("none",):
        return None
    return clamp(request.effort, quirks.efforts)


def cache_key(request: Request) -> str:
    """The `prompt_cache_key`, hashed if it is longer than the 64 characters that services accept."""
    key = request.cache_key
    return key if len(key) <= 64 else hashlib.sha256(key.encode()).hexdigest()


def call_id_for(call_id: str, quirks: OpenAIQuirks) -> str:
    """A call id that the service accepts; always the same for the same id."""
    return api_call_id(call_id, _SHORT_ID() if quirks.short_ids else _ID(), short=quirks.short_ids)


def arguments_text(call: ToolCall) -> str:
    """The arguments as JSON text, always an object."""
    try:
        return msgspec.json.encode(call.arguments).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(replace_surrogates_in(call.arguments)).decode()


def result_text(result: ToolResult) -> str:
    """The text of a result. These APIs have no error flag, so the text of an error starts with "Error:"."""
    text = result.text or ("(no output)" if not result.images else "")
    return f"Error: {text}" if result.status == "error" and not text.lower().startswith("error") else text


def reported_usage(
    data: Mapping[str, Any] | None,
    request: Request,
    parts: Iterable[AnyPart],
    price: CostFunction | None,
    *,
    searches: int = 0,
) -> Usage:
    """The tokens that a service reports, in the field names of either API; missing or zero counts are estimated.

    `Usage.input` excludes cached tokens. If the total is larger than input and output, the rest is counted as
    reasoning. `searches` is the number of web searches that the service ran.
    """
    data = data or {}
    sent = _count(data, "prompt_tokens", "input_tokens") or 0
    output = _count(data, "completion_tokens", "output_tokens") or 0
    input_details = _table(data, "prompt_tokens_details", "input_tokens_details")
    output_details = _table(data, "completion_tokens_details", "output_tokens_details")
    read = _count(input_details, "cached_tokens")
    if read is None:
        read = _count(data, "prompt_cache_hit_tokens", "cached_tokens")
    written = _count(input_details, "cache_write_tokens")
    reasoning = _count(output_details, "reasoning_tokens") or 0
    total = _count(data, "total_tokens") or 0
    if sent and total > sent + output:
        reasoning = reasoning or total - sent - output
        output = total - sent
    content = tuple(parts)
    estimated = not sent or (not output and bool(content))
    if not sent:
        sent, read, written = estimate_request(request), None, None
    if not output and content:
        output = estimate_message(Message("assistant", content))
    cache_read = min(read or 0, sent)
    cache_write = min(written or 0, sent - cache_read)
    usage = Usage(
        input=sent - cache_read - cache_write,
        cache_read=cache_read,
        cache_write=cache_write,
        output=output,
        reasoning=min(reasoning, output),
        cached=read is not None or written is not None,
        estimated=estimated,
        searches=searches,
    )
    return msgspec.structs.replace(usage, cost_usd=price(usage) if price else None)


def require_content(parts: Iterable[AnyPart], stop: Stop, service: str, usage: Usage) -> None:
    """Raise ProviderError("empty") for a reply without text and calls, unless it was cut off or refused."""
    found = any(isinstance(p, ToolCall) or (isinstance(p, Text) and p.text.strip()) for p in parts)
    if not found and stop not in ("max_tokens", "refusal", "context"):
        raise ProviderError("empty", f"{service} sent a reply with neither text nor calls.", usage=usage)


def text_in(value: object) -> str:
    """`value` if it is a string, else ""."""
    return value if isinstance(value, str) else ""


def dicts_in(value: object) -> list[dict[str, Any]]:
    """The dicts in a list; empty if `value` is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _table(data: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    return next((v for k in keys if isinstance(v := data.get(k), dict)), {})


def _count(data: Mapping[str, Any], *keys: str) -> int | None:
    for key in keys:
        value = data.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MOST:
            return int(value)
    return None
