"""Messages between a person, a model and its tools. Their JSON is the same on disk and in `stream-json`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

from .tool_info import RESULT_FIELDS, TASK_RESULT

Role = Literal["user", "assistant", "tool"]
ResultStatus = Literal["ok", "error", "denied", "cancelled"]


class Part(msgspec.Struct, frozen=True, tag_field="kind", omit_defaults=True):
    """One part of a message."""


class Text(Part, frozen=True, tag="text"):
    """Text. `commentary`: a model's remark on what it does, which is not part of its answer."""

    text: str
    commentary: bool = False


class Thinking(Part, frozen=True, tag="thinking"):
    """Reasoning of a model. `data` is the provider's block, which is sent back unchanged to the same `origin`."""

    text: str
    origin: str = ""
    data: dict[str, Any] | None = None


class Opaque(Part, frozen=True, tag="opaque"):
    """A provider-specific block (redacted thinking, server tools), which is sent back unchanged to `origin`."""

    origin: str
    data: dict[str, Any]


class Image(Part, frozen=True, tag="image"):
    """An image. `data` is base64."""

    media_type: str
    data: str


class ToolCall(Part, frozen=True, tag="call"):
    """A tool call of a model. When its JSON is invalid, `error` says why and `raw` has the text."""

    id: str
    name: str
    arguments: dict[str, Any] = {}
    error: str = ""
    raw: str = ""


class ToolResult(Part, frozen=True, tag="result"):
    """The result of a tool call: exactly one per call, in call order."""

    call_id: str
    text: str
    status: ResultStatus = "ok"
    images: tuple[Image, ...] = ()


AnyPart = Text | Thinking | Opaque | Image | ToolCall | ToolResult


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message. `source` is the author of a user message: text of the harness never counts as a person's. `origin` is the
    model (`provider/model`) that wrote a reply: its calls are sent back to it with the ids that it gave them."""

    role: Role
    parts: tuple[AnyPart, ...]
    source: Literal["person", "parent", "harness"] = "person"
    origin: str = ""

    @property
    def text(self) -> str:
        """The text parts, joined."""
        return "".join([p.text for p in self.parts if isinstance(p, Text)])

    @property
    def answer(self) -> str:
        """The text without comments on the work; the whole text if there is nothing else."""
        return "".join([p.text for p in self.parts if isinstance(p, Text) and not p.commentary]) or self.text

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple([p for p in self.parts if isinstance(p, ToolCall)])  # a generator takes twice the time

    @property
    def results(self) -> tuple[ToolResult, ...]:
        return tuple([p for p in self.parts if isinstance(p, ToolResult)])


def user(text: str, *, source: Literal["person", "parent", "harness"] = "person") -> Message:
    """A user message of plain text."""
    return Message("user", (Text(text),), source)


def without_thinking(message: Message) -> Message:
    """The message without thinking and opaque parts, which only one model with one prefix can read."""
    parts = tuple(p for p in message.parts if not isinstance(p, (Thinking, Opaque)))
    return msgspec.structs.replace(message, parts=parts)


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens of one or more requests, each counted once."""

    input: int = 0
    """Without the tokens read from or written to a cache."""
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    """Including `reasoning`."""
    reasoning: int = 0
    cost_usd: float | None = 0.0
    """None, not 0, for an unknown price."""
    cached: bool = True
    """False when the provider reports no cache figures; `cache_read` is then the input that was sent before in the same
    prefix."""
    estimated: bool = False
    """No usage was reported at all, or the request was served in a tier whose price is unknown."""
    searches: int = 0
    """Web searches that the service ran; their fee is included in the cost."""
    kept_long: int = 0
    """Those tokens of `cache_write` that are kept for hours, which costs more."""
    charged: bool = False
    """The service itself reported the cost."""
    collected: bool = False
    """Of a reply that came in a service's batch, which `replies_collected` counts, however many agents read it."""
    tier: str = ""
    """The service tier that served it, in the service's word if Friday has none; "": the usual one, and no other was asked for."""

    @property
    def billed(self) -> int:
        """Tokens that count against a budget: uncached input, cache writes and output."""
        return self.input + self.cache_write + self.output

    @property
    def context(self) -> int:
        """Tokens of the conversation after this reply."""
        return self.input + self.cache_read + self.cache_write + self.output

    @property
    def cache_share(self) -> float | None:
        """The part of the input that was read from a cache, 0 to 1; None if the service reports no cache."""
        sent = self.input + self.cache_read + self.cache_write
        return self.cache_read / sent if sent and self.cached and (self.cache_read or self.cache_write) else None

    def __add__(self, other: Usage) -> Usage:
        unknown = self.cost_usd is None or other.cost_usd is None
        return Usage(
            input=self.input + other.input,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
            output=self.output + other.output,
            reasoning=self.reasoning + other.reasoning,
            cost_usd=None if unknown else (self.cost_usd or 0.0) + (other.cost_usd or 0.0),
            cached=self.cached and other.cached,
            estimated=self.estimated or other.estimated,
            searches=self.searches + other.searches,
            kept_long=self.kept_long + other.kept_long,
        )


NO_USAGE = Usage()


def open_calls(history: Sequence[Message]) -> tuple[ToolCall, ...]:
    """The calls of the last assistant message that have no result yet."""
    for index in range(len(history) - 1, -1, -1):
        if history[index].role == "assistant":
            done = {r.call_id for m in history[index + 1 :] for r in m.results}
            return tuple(c for c in history[index].calls if c.id not in done)
    return ()


LEFT_OUT = "[left out of requests: the model refused to answer it]"
"""In the place of a message or a result that a model refused to answer."""


def without_refused(history: Sequence[Message]) -> list[Message]:
    """A history whose newest turn the model refused: without its reply, and with LEFT_OUT in the place of what it refused to answer.
    Anthropic refuses every later request that has such a turn."""
    kept = list(history[:-1] if history and history[-1].role == "assistant" else history)
    for index in range(len(kept) - 1, -1, -1):
        message = kept[index]
        if message.role == "assistant":
            break
        parts: tuple[AnyPart, ...] = (Text(LEFT_OUT),)
        if message.role == "tool":
            parts = tuple(msgspec.structs.replace(result, text=LEFT_OUT, images=()) for result in message.results)
        kept[index] = msgspec.structs.replace(message, parts=parts)
    return kept


def closed(history: Iterable[Message], *, why: str = "interrupted: the result was lost") -> list[Message]:
    """A history that every provider accepts: after a message with calls follows one message with their results, in
    order. A missing result is replaced by a `cancelled` one with the text `why`; results without a call are dropped."""
    repaired: list[Message] = []
    calls: tuple[ToolCall, ...] = ()
    found: list[ToolResult] = []
    for message in history:
        if message.role == "tool":
            found += message.results
            continue
        _settle(repaired, calls, found, why)
        repaired.append(message)
        calls, found = message.calls, []
    _settle(repaired, calls, found, why)
    return repaired


def _settle(repaired: list[Message], calls: Sequence[ToolCall], found: list[ToolResult], why: str) -> None:
    results = []
    for call in calls:
        result = next((r for r in found if r.call_id == call.id), None)
        if result is not None:
            found.remove(result)
        results.append(result or ToolResult(call.id, why, "cancelled"))
    if results:
        repaired.append(Message("tool", tuple(results), "harness"))


def handed_in(message: Message) -> str:
    """The result in a call of `task_result`, "" if there is none."""
    calls = [call for call in message.calls if call.name == TASK_RESULT]
    found = (call.arguments.get(name) for call in calls for name in RESULT_FIELDS)
    return next((text.strip() for text in found if isinstance(text, str)), "")


CHARS_PER_TOKEN = 4
"""Characters of English text in a token, about."""


def estimate_tokens(text: str) -> int:
    """An estimate of the tokens in `text`: one per four bytes of UTF-8, rounded up."""
    return (len(text.encode("utf-8", "replace")) + 3) // 4


def estimate_message(message: Message) -> int:
    """An estimate of the tokens of a message, with the framing of its parts."""
    total = 4
    for part in message.parts:
        match part:
            case Text(text=text) | Thinking(text=text):
                total += estimate_tokens(text)
            case ToolCall():
                total += 8 + estimate_tokens(part.name) + estimate_tokens(part.raw or str(part.arguments))
            case ToolResult():
                total += 8 + estimate_tokens(part.text) + 1500 * len(part.images)
            case Image():
                total += 1500
            case Opaque():
                total += estimate_tokens(str(part.data))
    return total
