"""A model that plays a scenario: the same requests get the same replies. For tests, demos and trying out profiles.

A scenario is a YAML, JSON or TOML file (the model name is `scripted:PATH`) or a dict. Turns are keyed by agent path:

    badge: scripted
    agents:
      a:                                   # root agent; `a.1` its child, `a.*` any child, `a.**` any descendant, `*` all
        - text: Two helpers first.
          calls: [{name: delegate_task, arguments: {profile: researcher, task: look}}]
        - text: "They found: {results}"    # also {results[0]}, {task}, {last}
      "*":
        turns:
          - {when: "count", text: "42"}    # a rule: used first, whenever the last message contains this text
          - {fail: {kind: rate, message: slow down, retry_after: 1}}
        repeat: last

Each request uses the next turn of its agent's list; a failed request uses one too. The most specific path pattern
wins. All keys are documented in `friday_cli.llm.providers.scenario`.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.messages import AnyPart, Message, Text, Thinking, ToolCall, Usage, estimate_message
from friday_cli.core.protocol.provider import (
    CallChunk,
    Chunk,
    ReplyDone,
    Request,
    Stop,
    TextChunk,
    ThinkingChunk,
    estimate_request,
)
from friday_cli.core.text.lazy_regex import pattern
from friday_cli.core.text.sanitize import map_strings

from ..transport.tool_arguments import call_of
from .scenario import AgentScript, Scenario, ScriptedCall, ScriptedTurn

_PLACEHOLDER = pattern(r"\{(?:results(?:\[(-?\d{1,4})\])?|(task)|(last))\}")
_NO_SCRIPT = AgentScript(wrap_up="done")


class ScriptedProvider:
    """Plays a `Scenario`."""

    name = "scripted"
    rate_limit_key = "scripted"

    def __init__(self, scenario: Scenario | Mapping[str, Any]) -> None:
        self.scenario = scenario if isinstance(scenario, Scenario) else Scenario.of(scenario)
        self.model = self.scenario.name
        self.window = self.scenario.window
        self.max_output = self.scenario.max_output
        self.badge = self.scenario.badge
        self._request_counts: Counter[str] = Counter()
        self._turn_counts: Counter[str] = Counter()

    @classmethod
    def from_file(cls, path: str) -> ScriptedProvider:
        """The provider for the model name `scripted:PATH`. Raises FileError."""
        return cls(Scenario.load(path))

    def cost(self, usage: Usage) -> float | None:
        """US dollars for `usage`; None if the scenario has no price."""
        price = self.scenario.price
        if price is None:
            return None
        cache = usage.cache_read * price.cache_read + usage.cache_write * price.cache_write
        return (usage.input * price.input + usage.output * price.output + cache) / 1_000_000

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """The chunks of the agent's next turn, then ReplyDone. Raises ProviderError if the turn has `fail`."""
        script = self.scenario.script(request.agent) or _NO_SCRIPT
        turn = self._turn(script, request)
        async for chunk in self.play(_fill_turn(turn, script, request), request):
            yield chunk

    async def play(self, turn: ScriptedTurn, request: Request) -> AsyncGenerator[Chunk, None]:
        """The chunks of one turn, with placeholders unchanged. Raises ProviderError if the turn has `fail`."""
        self._request_counts[request.agent] += 1
        message = self._message(turn, request)
        usage = self._usage(turn, request, message)
        await asyncio.sleep(turn.delay_s)
        limit = turn.truncate_after if turn.truncate_after is not None else 0 if turn.fail else None
        for index, chunk in enumerate(list(_chunks(turn, message))[:limit]):
            if index and turn.chunk_delay_s:
                await asyncio.sleep(turn.chunk_delay_s)
            yield chunk
        spent = usage if turn.usage else None
        if (f := turn.fail) is not None:
            raise ProviderError(f.kind, f.message, status=f.status, retry_after=f.retry_after, usage=spent)
        if limit is not None:
            raise ProviderError("truncated", "The scripted reply ended before it was complete.", usage=spent)
        stop: Stop = turn.stop or ("tool_use" if message.calls else "end_turn")
        yield ReplyDone(message, usage, stop, turn.note)

    def _turn(self, script: AgentScript, request: Request) -> ScriptedTurn:
        last = _message_text(request.messages[-1]) if request.messages else ""
        listed = []
        for turn in script.turns:
            if turn.when is None:
                listed.append(turn)
            elif turn.when in last:
                return turn
        index = self._turn_counts[request.agent]
        if script.count == "history":
            index = sum(m.role == "assistant" for m in request.messages)
        self._turn_counts[request.agent] += 1
        if index < len(listed):
            return listed[index]
        if script.repeat and listed:
            return listed[-1]
        if script.otherwise is not None:
            return script.otherwise
        if self.scenario.strict:
            raise ProviderError("config", f"The scenario has no turn {index + 1} for agent {request.agent}.")
        return ScriptedTurn(text="done")

    def _message(self, turn: ScriptedTurn, request: Request) -> Message:
        text, calls = turn.text, turn.calls
        if calls and request.text_only and not turn.stubborn:
            text, calls = turn.wrap_up or "", ()
        parts: list[AnyPart] = [Thinking(turn.thinking, "scripted")] if turn.thinking else []
        parts += [Text(text)] if text else []
        before = sum(len(m.calls) for m in request.messages)
        stem = f"call_{request.agent.replace('.', '_')}_{self._request_counts[request.agent]}"
        parts += [_call(c, c.id or f"{stem}_{before + i}") for i, c in enumerate(calls, 1)]
        return Message("assistant", tuple(parts))

    def _usage(self, turn: ScriptedTurn, request: Request, message: Message) -> Usage:
        if (u := turn.usage) is not None:
            usage = Usage(u.input, u.cache_read, u.cache_write, u.output, u.reasoning, cached=u.cached)
        else:
            usage = Usage(
                estimate_request(request), output=estimate_message(message), cost_usd=None, cached=False, estimated=True
            )
        return msgspec.structs.replace(usage, cost_usd=self.cost(usage))


def _call(call: ScriptedCall, call_id: str) -> ToolCall:
    if call.raw is not None:
        return call_of(call_id, call.name, call.raw)
    return ToolCall(call_id, call.name, call.arguments)


def _chunks(turn: ScriptedTurn, message: Message) -> Iterator[Chunk]:
    """The chunks of a reply: thinking in one chunk, the text as the turn splits it, then the calls."""
    for part in message.parts:
        if isinstance(part, Thinking):
            yield ThinkingChunk(part.text)
        elif isinstance(part, Text):
            yield from (TextChunk(piece) for piece in _pieces(turn, part.text))
    for index, call in enumerate(message.calls):
        yield CallChunk(index, call.name, len(call.raw or str(call.arguments)))


def _pieces(turn: ScriptedTurn, text: str) -> Iterable[str]:
    """The text split as `chunks` says; without `chunks`, by words if there is a delay between chunks."""
    if isinstance(turn.chunks, tuple) and text == "".join(turn.chunks):
        return turn.chunks
    if isinstance(turn.chunks, int) and turn.chunks > 0:
        size = -(-len(text) // turn.chunks)
        return (text[i : i + size] for i in range(0, len(text), size))
    return re.findall(r"\s*\S+\s*", text) if turn.chunk_delay_s else (text,)


def _message_text(message: Message) -> str:
    return "\n".join([message.text, *(r.text for r in message.results)]).strip("\n")


def _fill_turn(turn: ScriptedTurn, script: AgentScript, request: Request) -> ScriptedTurn:
    """`turn` with the default `wrap_up` of its script and all placeholders replaced."""
    text = turn.text if isinstance(turn.chunks, int) else "".join(turn.chunks)
    fill = partial(_fill, request=request)
    return msgspec.structs.replace(
        turn,
        text=fill(text),
        thinking=fill(turn.thinking),
        wrap_up=fill(script.wrap_up if turn.wrap_up is None else turn.wrap_up),
        calls=tuple(msgspec.structs.replace(call, arguments=map_strings(call.arguments, fill)) for call in turn.calls),
    )


def _fill(text: str, request: Request) -> str:
    """`text` with its placeholders replaced. A placeholder without a value stays visible."""
    if "{" not in text:
        return text
    results = next((m.results for m in reversed(request.messages) if m.role == "tool"), ())
    task = next((m.text for m in request.messages if m.role == "user"), "")

    def value(found: re.Match[str]) -> str:
        if found[2]:
            return task
        if found[3]:
            return _message_text(request.messages[-1]) if request.messages else ""
        if found[1] is None:
            return "\n".join(r.text for r in results)
        index = int(found[1])
        return results[index].text if -len(results) <= index < len(results) else found[0]

    return _PLACEHOLDER().sub(value, text)
