"""The messages that wait until the agent is idle, above the prompt."""

from __future__ import annotations

from dataclasses import dataclass

from rich.text import Text
from textual import events
from textual.message import Message
from textual.widgets import Static

from friday_cli.core.protocol.messages import Image
from friday_cli.core.text.sanitize import sanitize_line

SHOWN = 5
"""Messages shown at most."""


@dataclass(frozen=True)
class Draft:
    """A message of the user that is not sent yet. `typed` is the part that was not pasted, which alone names files (None: all)."""

    text: str
    images: tuple[Image, ...] = ()
    typed: str | None = None


class MessageQueue(Static):
    """The messages above the prompt that wait until the agent is idle."""

    @dataclass
    class EditRequested(Message):
        """The user clicked on the message at `index` to change it."""

        index: int

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._drafts: list[Draft] = []
        self.display = False

    @property
    def empty(self) -> bool:
        return not self._drafts

    def put(self, draft: Draft, *, first: bool = False) -> None:
        """Queue a message behind the others, or before them."""
        self._drafts.insert(0 if first else len(self._drafts), draft)
        self._show()

    def take(self) -> Draft | None:
        """Take out what is sent next: all messages up to a command as one, or one command. None if the queue is empty."""
        if self.empty:
            return None
        commands = (index for index, draft in enumerate(self._drafts) if draft.text.startswith("/"))
        count = next(commands, len(self._drafts)) or 1
        taken, self._drafts = self._drafts[:count], self._drafts[count:]
        self._show()
        images = tuple(image for draft in taken for image in draft.images)
        typed = [draft.text if draft.typed is None else draft.typed for draft in taken]
        pasted = any(draft.typed is not None for draft in taken)
        return Draft("\n\n".join(draft.text for draft in taken), images, "\n\n".join(typed) if pasted else None)

    def take_one(self, index: int = -1) -> Draft | None:
        """Take out one message, the newest by default. None if there is no such message."""
        if not -len(self._drafts) <= index < len(self._drafts):
            return None
        draft = self._drafts.pop(index)
        self._show()
        return draft

    def take_all(self) -> list[Draft]:
        """Take out all messages, in order."""
        taken, self._drafts = self._drafts, []
        self._show()
        return taken

    def _show(self) -> None:
        self.display = bool(self._drafts)
        text = Text(no_wrap=True, overflow="ellipsis")
        left = len(self._drafts) - SHOWN
        for draft in self._drafts[:SHOWN]:
            pictures = f" [{len(draft.images)} pictures]" if len(draft.images) > 1 else ""
            text.append(f"queued: {sanitize_line(draft.text, 300)}{pictures}\n", style="dim")
        if left > 0:
            text.append(f"… and {left} more\n", style="dim")
        text.append("Enter: send now · Up: change the last · click: change that one · Esc: stop", style="dim italic")
        self.update(text)

    def on_click(self, event: events.Click) -> None:
        row = event.get_content_offset_capture(self).y
        if 0 <= row < min(len(self._drafts), SHOWN):
            self.post_message(self.EditRequested(row))
