"""Shared by both OpenAI APIs: quirks of services, ids and texts that services accept, reported token usage."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any, Literal

import msgspec

from friday_cli.core.protocol.messages import AnyPart, Message, ToolCall, ToolResult, Usage, estimate_message
from friday_cli.core.protocol.provider import ENVIRONMENT, Effort, ReplyDone, Request, ServerSearch, Stop, clamp
from friday_cli.core.text.lazy_regex import pattern

from ..transport.endpoint import Endpoint
from ..transport.json_body import encode_value
from ..transport.text import StreamedText, dict_in, one_line
from ..transport.tool_arguments import api_call_id, api_tool_name, call_of, short_hash
from .pricing import OPENAI_WORDS
from .service_provider import ReplyStream, charged_cost, has_content

NO_IMAGE = "[image omitted: this model does not accept images]"
_MOST = 10**9
_THINK, _END_THINK = "<think>", "</think>"
_ID = pattern(r"[A-Za-z0-9_.:-]{1,40}")


CallIds = Literal["any", "short", "kimi"]


class OpenAIQuirks(msgspec.Struct, frozen=True):
    """Differences between services and models. The defaults are for an unknown server with Chat Completions."""

    max_tokens: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    system_role: Literal["system", "developer"] = "system"
    efforts: tuple[Effort, ...] = ()
    """The accepted reasoning efforts: empty sends any effort, ("none",) never sends one."""
    reasoning_field: Literal["", "reasoning_content", "reasoning"] = ""
    """The field in which reasoning is sent back with each reply that has calls, even if it is empty. "": only in the
    field in which the service sent it."""
    cache_key: bool = False
    """Send `prompt_cache_key`."""
    auto_cache: bool = False
    """Ask for a cache at the end of each request (Claude behind OpenRouter)."""
    cache_marks: bool = False
    """Mark where the part ends that requests in other folders share (Responses)."""
    stream_usage: bool = True
    """Request usage."""
    images: bool = True
    """Whether images are accepted."""
    tool_images: bool = False
    """Whether images are also accepted in tool results (Chat Completions)."""
    call_ids: CallIds = "short"
    """The form of the ids of calls that another model made: "short", nine letters and digits; "kimi",
    functions.NAME:NUMBER."""
    signed_calls: bool = False
    """Whether each call needs a signature, even a call of another model."""
    reasoning: bool = True
    """Request summaries and encrypted reasoning, which models without reasoning refuse (Responses)."""
    temperature: str = "any"
    """When it is sent, see models.toml."""
    omitted: frozenset[str] = frozenset()
    """Fields of a reply that the service refuses."""


SERVICES: dict[str, OpenAIQuirks] = {
    "openai": OpenAIQuirks(max_tokens="max_completion_tokens", system_role="developer", cache_key=True, call_ids="any"),
    "gemini": OpenAIQuirks(signed_calls=True),
    "groq": OpenAIQuirks(max_tokens="max_completion_tokens"),
    "deepseek": OpenAIQuirks(reasoning_field="reasoning_content", images=False),
    "mistral": OpenAIQuirks(stream_usage=False),
    "ollama": OpenAIQuirks(reasoning_field="reasoning"),
    "vllm": OpenAIQuirks(reasoning_field="reasoning"),
    "llamacpp": OpenAIQuirks(reasoning_field="reasoning_content"),
}
"""The quirks of services by name; other services get the defaults."""


def marked_system(system: str) -> dict[str, Any] | None:
    """A system text as a message of the Responses API, with a cache mark before the part that differs between folders and
    days; None without such a part. The field `instructions` takes no mark."""
    shared, heading, rest = system.partition(ENVIRONMENT)
    if not heading:
        return None
    parts: list[dict[str, Any]] = [{"type": "input_text", "text": text} for text in (shared, heading + rest)]
    parts[0]["prompt_cache_breakpoint"] = {"mode": "explicit"}
    return {"type": "message", "role": "developer", "content": parts}


class ThinkTag:
    """Separates thinking from the text of a reply that begins with `<think>`, as local servers send it."""

    def __init__(self) -> None:
        self._held = ""
        self._where: Literal["start", "thinking", "text"] = "start"

    def split(self, piece: str) -> tuple[str, str]:
        """The thinking and the text that are known now; the beginning of a tag is held back."""
        if self._where == "text" or not piece:
            return "", piece
        text = self._held + piece
        if self._where == "start":
            begun = text.lstrip()
            if not begun.startswith(_THINK[: len(begun)]):
                self._where, self._held = "text", ""
                return "", text
            self._held = text
            if len(begun) < len(_THINK):
                return "", ""
            self._where, text = "thinking", begun[len(_THINK) :].lstrip("\n")
        thought, tag, rest = text.partition(_END_THINK)
        if tag:
            self._where, self._held = "text", ""
            return thought, rest.lstrip("\n")
        kept = next((n for n in range(len(_END_THINK) - 1, 0, -1) if text.endswith(_END_THINK[:n])), 0)
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept], ""

    def end(self) -> str:
        """The text that is held back at the end of a reply, since it was not a tag."""
        held, self._held = self._held if self._where == "start" else "", ""
        self._where = "text"
        return held


class StreamedToolCall:
    """A tool call while it is streamed."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.arguments = StreamedText()
        self.extra: dict[str, Any] = {}

    def call(self, used_ids: MutableMapping[str, None]) -> ToolCall:
        """The call with an id that is not in `used_ids`; the id is added to them."""
        call_id = self.id or f"call_{len(used_ids) + 1}"
        unique, n = call_id, 2
        while unique in used_ids:
            unique, n = f"{call_id}-{n}", n + 1
        used_ids[unique] = None
        return call_of(unique, self.name[:256], self.arguments.text)


class OpenAIStream(ReplyStream):
    """The common part of the streams of both APIs. `reported` is the service's JSON of the usage, None before that."""

    def __init__(self, endpoint: Endpoint, origin: str, request: Request) -> None:
        super().__init__(endpoint, origin, request)
        self.stop: Stop = "end_turn"
        self.note = ""
        self.reported: dict[str, Any] | None = None
        self.tier = ""
        """The service tier that the service says it used."""

    @abstractmethod
    def parts(self) -> tuple[AnyPart, ...]:
        """The parts of the message so far; complete if `ended`. Raises ProviderError for a call without a name."""

    def searches(self) -> tuple[ServerSearch, ...]:
        """The web searches that the service ran in this reply."""
        return ()

    def finish(self) -> ReplyDone:
        """The complete reply. Raises ProviderError("truncated", "empty" or "garbled")."""
        if not self.ended:
            raise self._error("truncated")
        parts, searches = self.parts(), self.searches()
        usage = reported_usage(self.reported, self._estimated_input, parts, searches=len(searches))
        usage = msgspec.structs.replace(usage, tier=OPENAI_WORDS.get(self.tier, one_line(self.tier, 40)))
        if self.stop not in ("max_tokens", "refusal", "context") and not has_content(parts):
            raise self._error("empty", usage)
        return ReplyDone(Message("assistant", parts, origin=self._origin), usage, self.stop, self.note, searches)

    def usage(self) -> Usage | None:
        """The tokens of an incomplete reply; None if nothing has arrived."""
        self.ended = False
        try:
            parts = self.parts()
            if not (parts or self.reported):
                return None
            return reported_usage(self.reported, self._estimated_input, parts, searches=len(self.searches()))
        except Exception:  # reporting the original failure is more important than its usage
            return None


def effort_for(request: Request, quirks: OpenAIQuirks) -> Effort | None:
    """The effort to send: the nearest accepted one (the lower of two); None to send no effort."""
    if request.effort is None or quirks.efforts == ("none",):
        return None
    return clamp(request.effort, quirks.efforts)


def cache_key(request: Request, model: str) -> str:
    """The `prompt_cache_key`: the same for all agents, sessions and folders with the same profile, tools and model."""
    prefix = msgspec.to_builtins((request.cache_key, model, request.tools))
    return hashlib.sha256(encode_value(prefix)).hexdigest()[:32]


def call_ids_for(message: Message, origin: str, *, form: CallIds) -> dict[str, str]:
    """The ids to send for the calls of `message`, by their ids. A model gets its own calls with the ids that it gave them."""
    if message.origin == origin:
        return {call.id: call.id for call in message.calls}
    if form == "kimi":
        return {c.id: f"functions.{api_tool_name(c.name)}:{int(short_hash(c.id), 16) % 10**6}" for c in message.calls}
    return {call.id: api_call_id(call.id, _ID(), short=form == "short") for call in message.calls}


def result_text(result: ToolResult) -> str:
    """The text of a result. These APIs have no error flag, so the text of an error starts with "Error:"."""
    text = result.text or ("(no output)" if not result.images else "")
    return f"Error: {text}" if result.status == "error" and not text.lower().startswith("error") else text


def reported_usage(
    data: Mapping[str, Any] | None,
    estimated_input: Callable[[], int],
    parts: Iterable[AnyPart],
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
    input_details = dict_in(data.get("prompt_tokens_details") or data.get("input_tokens_details"))
    output_details = dict_in(data.get("completion_tokens_details") or data.get("output_tokens_details"))
    read = _count(input_details, "cached_tokens")
    if read is None:
        read = _count(data, "prompt_cache_hit_tokens", "cached_tokens")
    written = _count(input_details, "cache_write_tokens")
    kept_long = _count(dict_in(input_details.get("cache_write_tokens_details")), "ttl_12h_tokens") or 0
    reasoning = _count(output_details, "reasoning_tokens") or 0
    total = _count(data, "total_tokens") or 0
    if sent and total > sent + output:
        reasoning = reasoning or total - sent - output
        output = total - sent
    content = tuple(parts)
    estimated = not sent or (not output and bool(content))
    if not sent:
        sent, read, written = estimated_input(), None, None
    if not output and content:
        output = estimate_message(Message("assistant", content))
    cache_read = min(read or 0, sent)
    cache_write = min(written or 0, sent - cache_read)
    return Usage(
        input=sent - cache_read - cache_write,
        cache_read=cache_read,
        cache_write=cache_write,
        output=output,
        reasoning=min(reasoning, output),
        cached=read is not None or written is not None,
        estimated=estimated,
        searches=searches,
        kept_long=min(kept_long, cache_write),
        **charged_cost(data),
    )


def _count(data: Mapping[str, Any], *keys: str) -> int | None:
    for key in keys:
        value = data.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MOST:
            return int(value)
    return None
