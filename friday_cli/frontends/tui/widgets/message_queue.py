"""The messages that wait until the agent has time, above the prompt.

Interface: `Waiting`, `put(message)`, `next()` (what goes first, as one), `back(index)` (takes one out), `empty`. A `Draft` is a
message with its pictures. Message: `Wanted(index)`: a person clicked on one, to change it.
"""

from __future__ import annotations

from dataclasses import dataclass

from rich.text import Text
from textual import events
from textual.message import Message
from textual.widgets import Static

from friday_cli.core.protocol.messages import Image
from friday_cli.core.text.sanitize import sanitize_line

SHOWN = 5


@dataclass(frozen=True)
class Draft:
    """What a person wants to say."""

    text: str
    images: tuple[Image, ...] = ()


class MessageQueue(Static):
    """See the module."""

    class Wanted(Message):
        """The message at `index` is to be changed."""

        def __init__(self, index: int) -> None:
            self.index = index
            super().__init__()

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._drafts: list[Draft] = []
        self.display = False

    @property
    def empty(self) -> bool:
        return not self._drafts

    def put(self, draft: Draft, *, first: bool = False) -> None:
        """Keep a message, behind the others or before them."""
        self._drafts.insert(0 if first else len(self._drafts), draft)
        self._show()

    def next(self) -> Draft | None:
        """What waits, as one message; a command is taken by itself."""
        if self.empty:
            return None
        commands = (n for n, draft in enumerate(self._drafts) if draft.text.startswith("/"))
        count = next(commands, len(self._drafts)) or 1
        taken, self._drafts = self._drafts[:count], self._drafts[count:]
        self._show()
        images = tuple(image for draft in taken for image in draft.images)
        return Draft("\n\n".join(draft.text for draft in taken), images)

    def back(self, index: int = -1) -> Draft | None:
        """Take a message out, the newest one where no other is named; None where there is none."""
        if not -len(self._drafts) <= index < len(self._drafts):
            return None
        draft = self._drafts.pop(index)
        self._show()
        return draft

    def _show(self) -> None:
        self.display = bool(self._drafts)
        text = Text(no_wrap=True, overflow="ellipsis")
        left = len(self._drafts) - SHOWN
        for draft in self._drafts[:SHOWN]:
            pictures = f" [{len(draft.images)} pictures]" if len(draft.images) > 1 else ""
            text.append(f"queued: {sanitize_line(draft.text, 300)}{pictures}\n", style="dim")
        if left > 0:
            text.append(f"… and {left} more\n", style="dim")
        text.append("Enter: send now · Up or Esc: change the last · click: change that one", style="dim italic")
        self.update(text)

    def on_click(self, event: events.Click) -> None:
        row = event.get_content_offset_capture(self).y
        if 0 <= row < min(len(self._drafts), SHOWN):
            self.post_message(self.Wanted(row))
