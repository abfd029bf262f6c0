"""Messages of a transcript to the app. Their handlers are named `on_transcript_...`."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events
from textual.message import Message
from textual.scroll_view import ScrollView

from ..state import keymap
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
    """The user typed or pasted `text` for the prompt, or for the field of a search that was opened just before. A carriage return sends the
    prompt."""

    text: str
    searched: bool = False


class PromptTyping(ScrollView):
    """A view with keys of its own. What is typed in it goes to the prompt: characters without a binding, and then everything until
    the prompt has the focus. After the key that opens a search, everything is for its field."""

    def __init__(self, *, id: str | None) -> None:
        super().__init__(id=id)
        self._leaving = False
        """Whether the focus is on its way to the prompt or the field."""
        self._searched = False

    def on_focus(self) -> None:
        self._leaving = self._searched = False

    def on_key(self, event: events.Key) -> None:
        if not event.character or not (event.is_printable or (self._leaving and event.key == "enter")):
            return
        held = [binding for node in self.ancestors_with_self for binding in keymap.held(node).get(event.key, ())]
        if not self._leaving and any(binding.action == "app.find" for binding in held):
            self._leaving = self._searched = True
        elif self._leaving or not held:
            event.prevent_default()
            self._send(event, event.character)

    def on_paste(self, event: events.Paste) -> None:
        self._send(event, event.text)

    def _send(self, event: events.Event, text: str) -> None:
        event.stop()
        self._leaving = True
        self.post_message(TextTyped(text, self._searched))
