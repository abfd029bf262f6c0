"""The base of all events, and the live events, which show progress and are not stored."""

from __future__ import annotations

import msgspec


class Event(msgspec.Struct, frozen=True, tag_field="kind", omit_defaults=True):
    """Something that happened to one agent."""


class TextDelta(Event, frozen=True, tag="text_delta"):
    """More text of the reply. `offset` counts characters within the attempt. No text at offset 0: it begins again."""

    turn: int
    attempt: int
    offset: int
    text: str


class ThinkingDelta(Event, frozen=True, tag="thinking_delta"):
    """More thinking of the model. `offset` counts characters within the attempt."""

    turn: int
    attempt: int
    offset: int
    text: str


class CallDelta(Event, frozen=True, tag="call_delta"):
    """Progress of a tool call in the reply: `chars` of its arguments were received."""

    turn: int
    attempt: int
    index: int
    tool: str
    chars: int


class ToolOutput(Event, frozen=True, tag="tool_output"):
    """More output of a running tool. `offset` counts characters."""

    call_id: str
    offset: int
    text: str


LIVE = (TextDelta, ThinkingDelta, CallDelta, ToolOutput)
