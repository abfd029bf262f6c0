"""What both OpenAI wires share: quirks, names and ids as services take them, tokens as they report them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import msgspec

from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.messages import AnyPart, Message, Text, ToolCall, ToolResult, Usage, estimate_message
from friday_cli.core.protocol.provider import Effort, Request, Stop, clamp, estimate_request
from friday_cli.core.text.lazy_regex import pattern

from ..transport.text import Pieces, whole_json
from ..transport.tool_arguments import call_of
from ..transport.tool_names import wire_id

Price = Callable[[Usage], float | None]
"""US dollars for the usage of one request, None where unknown."""
NO_IMAGE = "[an image was here; this model reads none]"
CUT = "the reply reached its output limit before the arguments were complete; the call was not run"
_MOST = 10**9
_ID = pattern(r"[A-Za-z0-9_.:-]{1,40}")
_SHORT_ID = pattern(r"[A-Za-z0-9]{9}")


class OpenAIQuirks(msgspec.Struct, frozen=True):
    """What sets a service or model apart. The defaults suit an unknown server that speaks Chat Completions.

    `efforts` are the reasoning efforts it takes: with none given it gets what was asked for, with "none" alone
    nothing. `reasoning_field` is where its own reasoning goes back to it ("" nowhere). `cache_key` sends
    `prompt_cache_key`, `stream_usage` asks for usage. `images` tells whether it reads images, `tool_images` whether
    also inside tool results (Chat Completions). `short_ids` is for services that take only call ids of nine letters
    and digits, `signed_calls` for those that want a signature on each call, also on one another model made.
    `reasoning` (Responses) asks for summaries and encrypted reasoning, which models without reasoning refuse.
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
"""What is known of services by name; the others get the defaults."""


class ToolCallSlot:
    """A tool call while it comes in pieces."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.arguments = Pieces()
        self.extra: dict[str, Any] = {}

    def call(self, taken: set[str]) -> ToolCall:
        """The call under an id that is not in `taken` yet, and then is."""
        call_id = self.id or f"call_{len(taken) + 1}"
        unique, n = call_id, 2
        while unique in taken:
            unique, n = f"{call_id}-{n}", n + 1
        taken.add(unique)
        return call_of(unique, self.name[:256], self.arguments.text)


def cut_off(calls: list[ToolCall]) -> list[ToolCall]:
    """The calls of a reply that hit its output limit: the last one counts only if it is visibly complete."""
    if calls and (calls[-1].error or not calls[-1].arguments):
        calls[-1] = msgspec.structs.replace(calls[-1], arguments={}, error=CUT)
    return calls


def taken_ids(request: Request) -> set[str]:
    """The ids of all calls in a request's history."""
    return {call.id for message in request.messages for call in message.calls}


def effort_for(request: Request, quirks: OpenAIQuirks) -> Effort | None:
    """The effort to send: the nearest that the model takes, the lower of two; None for nothing."""
    if request.effort is None or quirks.efforts == ("none",):
        return None
    return clamp(request.effort, quirks.efforts)


def cache_key(request: Request) -> str:
    """The cache key, in the 64 characters that services take."""
    key = request.cache_key
    return key if len(key) <= 64 else hashlib.sha256(key.encode()).hexdigest()


def call_id_for(call_id: str, quirks: OpenAIQuirks) -> str:
    """A call's id as the service takes it; the same for the same id."""
    return wire_id(call_id, _SHORT_ID() if quirks.short_ids else _ID(), short=quirks.short_ids)


def arguments_text(call: ToolCall) -> str:
    """The arguments as JSON text, always an object."""
    try:
        return msgspec.json.encode(call.arguments).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(whole_json(call.arguments)).decode()


def result_text(result: ToolResult) -> str:
    """What a result says; these wires have no mark for a failure."""
    text = result.text or ("(no output)" if not result.images else "")
    return f"Error: {text}" if result.status == "error" and not text.lower().startswith("error") else text


def usage_of(
    data: Mapping[str, Any] | None,
    request: Request,
    parts: Iterable[AnyPart],
    price: Price | None,
    *,
    searches: int = 0,
) -> Usage:
    """The tokens a service reports, under the names of either wire; estimated where it reports none that can be true.

    `input` comes without cached tokens. A total beyond input and output is reasoning that the service left out.
    `searches` are the web searches that the service ran by itself.
    """
    data = data or {}
    sent = _count(data, "prompt_tokens", "input_tokens") or 0
    said = _count(data, "completion_tokens", "output_tokens") or 0
    inward = _table(data, "prompt_tokens_details", "input_tokens_details")
    outward = _table(data, "completion_tokens_details", "output_tokens_details")
    read = _count(inward, "cached_tokens")
    if read is None:
        read = _count(data, "prompt_cache_hit_tokens", "cached_tokens")
    written = _count(inward, "cache_write_tokens")
    reasoning = _count(outward, "reasoning_tokens") or 0
    total = _count(data, "total_tokens") or 0
    if sent and total > sent + said:
        reasoning = reasoning or total - sent - said
        said = total - sent
    content = tuple(parts)
    guessed = not sent or (not said and bool(content))
    if not sent:
        sent, read, written = estimate_request(request), None, None
    if not said and content:
        said = estimate_message(Message("assistant", content))
    hit = min(read or 0, sent)
    put = min(written or 0, sent - hit)
    cached = read is not None or written is not None
    usage = Usage(sent - hit - put, hit, put, said, min(reasoning, said), None, cached, guessed, searches)
    return msgspec.structs.replace(usage, cost_usd=price(usage) if price else None)


def require(parts: Iterable[AnyPart], stop: Stop, service: str, usage: Usage) -> None:
    """Raise ProviderError for an answer with neither text nor calls, where it had the chance to give one."""
    said = any(isinstance(p, ToolCall) or (isinstance(p, Text) and p.text.strip()) for p in parts)
    if not said and stop not in ("max_tokens", "refusal", "context"):
        raise ProviderError("empty", f"{service} gave an answer with neither text nor tool calls.", usage=usage)


def text_in(value: object) -> str:
    """`value` if it is text, else ""."""
    return value if isinstance(value, str) else ""


def tables_in(value: object) -> list[dict[str, Any]]:
    """The dicts of a list, nothing where it is none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _table(data: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    return next((v for k in keys if isinstance(v := data.get(k), dict)), {})


def _count(data: Mapping[str, Any], *keys: str) -> int | None:
    for key in keys:
        value = data.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MOST:
            return int(value)
    return None
