"""Messages of a transcript to the app. Their handlers are named `on_transcript_...`."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from .chat_request import ChatRequest


@dataclass
class OpenAgent(Message, namespace="transcript"):
    """The user wants to see the transcript of the agent at `path`."""

    path: str


@dataclass
class CopyText(ChatRequest, namespace="transcript"):
    """The user wants `text` on the clipboard."""

    text: str


@dataclass
class Links(ChatRequest, namespace="transcript"):
    """The user wants to choose one of the links of an entry."""

    urls: list[str]


@dataclass
class ForkRequested(ChatRequest, namespace="transcript"):
    """The user wants a second session that begins before their message `number`, counted from 1."""

    number: int


class Marking(Message, namespace="transcript"):
    """Text marking began or ended."""


@dataclass
class TextTyped(Message, namespace="transcript"):
    """The user typed or pasted `text` for the prompt. A carriage return sends the prompt."""

    text: str
