"""The provider: one request in, the next line of the script out, at a pace that a person can follow."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import msgspec

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

from . import words
from .cast import plot
from .play import End, Reply, Seat, Stage, possible, wants_other_form, wants_summary
from .report import brief, findings_text

BEGIN_S, PIECE_S, MOST_PIECES = 0.12, 0.012, 40
"""Seconds before a reply begins and between its pieces, and how many pieces there are at most."""
_CREW = re.compile(r"^- `([\w.-]+)`:", re.M)
_FOLDER = re.compile(r"^Folder: (.+)$", re.M)


class DemoProvider:
    """A deterministic script in place of a model. `pace` stretches its pauses; 0 takes them away (it may be changed)."""

    name = "demo"
    model = "demo"
    window = 200_000
    max_output = 16_000
    lane = "demo"
    badge = "demo: scripted, no AI model"

    def __init__(self, *, pace: float = 1.0) -> None:
        self.pace = pace

    def cost(self, usage: Usage) -> float | None:
        """US dollars: always nothing, as no service is asked."""
        return 0.0

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """The chunks of the next reply."""
        message, stop = reply(request)
        await asyncio.sleep(BEGIN_S * self.pace)
        for chunk in _chunks(message):
            yield chunk
            await asyncio.sleep(PIECE_S * self.pace)
        usage = Usage(
            estimate_request(request), output=estimate_message(message), cost_usd=0.0, cached=False, estimated=True
        )
        yield ReplyDone(message, usage, stop)


def reply(request: Request) -> tuple[Message, Stop]:
    """What the demo says to a request, and why it stops there."""
    if wants_summary(request):
        return _told(words.SUMMARY, request)
    if wants_other_form(request):
        return _told(words.NO_JSON, request)
    now = Stage(request, plot=plot, new=lambda prompt: _seat(request, prompt)).reply()
    if request.tool_choice == "none":
        return _told(_last_words(now), request)
    if isinstance(now.said, End):
        if now.seat.is_child and "task_result" in now.seat.tools and not now.refused:
            return _handed_in(now.said, request), "tool_use"
        return _told(findings_text(now.said), request)
    parts: list[AnyPart] = [Thinking(now.said.thinking, "demo")] if now.said.thinking else []
    parts += [Text(now.said.text)] if now.said.text else []
    calls = [(wish.tool, wish.arguments) for wish in possible(now.said, request)]
    return Message("assistant", (*parts, *_calls(calls, request))), "tool_use"


def _seat(request: Request, prompt: str) -> Seat:
    tools = {spec.name: spec for spec in request.tools}
    crew = _CREW.findall(tools["delegate_task"].description) if "delegate_task" in tools else []
    folder = _FOLDER.search(request.system)
    return Seat(request.agent, prompt, frozenset(tools), frozenset(crew), folder[1] if folder else "")


def _last_words(now: Reply) -> str:
    """What to say where no tool may run any more."""
    return findings_text(now.said) if isinstance(now.said, End) else brief(now.seat)


def _told(text: str, request: Request) -> tuple[Message, Stop]:
    """A reply in words, cut where the output limit is."""
    room = max(1, request.max_output - 4) * 4
    data = text.encode("utf-8", "replace")
    if len(data) <= room:
        return Message("assistant", (Text(text),)), "end_turn"
    return Message("assistant", (Text(data[:room].decode("utf-8", "ignore")),)), "max_tokens"


def _handed_in(end: End, request: Request) -> Message:
    """The call that hands a result in; where the output limit is too small the last findings stay out."""
    findings = list(end.findings)[:50]
    while True:
        arguments: dict[str, Any] = {"result": end.text, "status": "success" if end.success else "error"}
        if findings:
            arguments["findings"] = [msgspec.to_builtins(finding) for finding in findings]
        message = Message("assistant", tuple(_calls([("task_result", arguments)], request)))
        if not findings or estimate_message(message) <= request.max_output:
            return message
        findings.pop()


def _calls(wanted: list[tuple[str, dict[str, Any]]], request: Request) -> Iterator[ToolCall]:
    """Calls with ids that no other reply of the session has."""
    digest = hashlib.blake2b(msgspec.json.encode((request.agent, request.messages)), digest_size=6).hexdigest()
    return (ToolCall(f"demo_{digest}_{at}", name, arguments) for at, (name, arguments) in enumerate(wanted, 1))


def _chunks(message: Message) -> Iterator[Chunk]:
    for part in message.parts:
        if isinstance(part, Thinking):
            yield from map(ThinkingChunk, _pieces(part.text, 6))
        elif isinstance(part, Text):
            yield from map(TextChunk, _pieces(part.text, MOST_PIECES))
    for index, call in enumerate(message.calls):
        yield CallChunk(index, call.name, len(str(call.arguments)))


def _pieces(text: str, most: int) -> Iterator[str]:
    """A text in a few pieces that end with a word."""
    found = re.findall(r"\s*\S+\s*", text) or [text]
    step = -(-len(found) // most)
    return ("".join(found[at : at + step]) for at in range(0, len(found), step))
