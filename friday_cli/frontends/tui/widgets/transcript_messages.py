"""Messages of a transcript to the app. Their handlers are named `on_transcript_...`."""

from __future__ import annotations

from textual.message import Message


class OpenAgent(Message, namespace="transcript"):
    """The user wants to see the transcript of the agent at `path`."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__()


class CopyText(Message, namespace="transcript"):
    """The user wants `text` on the clipboard."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__()


class Links(Message, namespace="transcript"):
    """The user wants to choose one of the links of an entry."""

    def __init__(self, urls: list[str]) -> None:
        self.urls = urls
        super().__init__()


class ForkRequested(Message, namespace="transcript"):
    """The user wants a second session that begins before their message `number`, counted from 1."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__()


class Marking(Message, namespace="transcript"):
    """Text marking began or ended."""


class Typed(Message, namespace="transcript"):
    """The user typed or pasted `text` for the prompt. A carriage return sends the prompt."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__()
