"""A reply that is on its way: its text and deltas so far."""

from __future__ import annotations

from ..protocol.events import CallDelta, TextDelta, ThinkingDelta
from ..protocol.messages import Usage
from ..protocol.provider import CallChunk, RestartChunk, TextChunk, ThinkingChunk, UsageChunk
from .agent import Agent, Services

TOKEN_BYTES = 6
"""Bytes of text per token that no model's replies reach on average: English prose has 4 to 5, code 3 to 4."""


class PartialReply:
    """What is received of a reply so far: publishes its deltas, and keeps its text in case it breaks. `reported` is the usage
    that the service reported before the end."""

    def __init__(self, agent: Agent, services: Services, *, attempt: int, quiet: bool) -> None:
        self._agent, self._services, self._attempt, self._quiet = agent, services, attempt, quiet
        self.reported: Usage | None = None
        self._text: list[str] = []
        self._offset = self._thought = self._bytes = 0
        self._arguments: dict[int, int] = {}

    @property
    def text(self) -> str:
        """The text of the reply so far."""
        return "".join(self._text)

    @property
    def begun(self) -> bool:
        """Whether anything of it was received."""
        return bool(self._bytes or self._arguments)

    @property
    def output(self) -> int:
        """An estimate of the output tokens so far: text, thinking, and arguments of calls."""
        return (self._bytes + sum(self._arguments.values()) + 3) // 4

    @property
    def least_output(self) -> int:
        """The least output tokens that so many bytes can be."""
        return (self._bytes + sum(self._arguments.values())) // TOKEN_BYTES

    def take(self, chunk: TextChunk | ThinkingChunk | CallChunk | UsageChunk | RestartChunk) -> None:
        turn = self._agent.turn
        match chunk:
            case TextChunk(text=text):
                self._show(TextDelta(turn, self._attempt, self._offset, text))
                self._offset += len(text)
                self._bytes += _bytes(text)
                self._text.append(text)
            case ThinkingChunk(text=text):
                self._show(ThinkingDelta(turn, self._attempt, self._thought, text))
                self._thought += len(text)
                self._bytes += _bytes(text)
            case CallChunk(index=index, name=name, chars=chars):
                self._show(CallDelta(turn, self._attempt, index, name, chars))
                self._arguments[index] = chars
            case UsageChunk(usage=usage):
                self.reported = usage
            case RestartChunk():
                self._show(TextDelta(turn, self._attempt, 0, ""))
                self._offset = self._thought = 0
                self._text.clear()

    def _show(self, delta: TextDelta | ThinkingDelta | CallDelta) -> None:
        if not self._quiet:
            self._services.log.live(self._agent.path, delta)

    def keep(self) -> None:
        """Store the text of a broken reply in the agent, which keeps that of an earlier try when there is none."""
        if self._text and not self._quiet:
            self._agent.streaming = self.text


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
