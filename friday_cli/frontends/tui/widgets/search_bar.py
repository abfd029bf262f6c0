"""The bar in which a transcript is searched. Interface: `FindBar`, `open(transcript, text)`, `close()`."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Input, Static

from .text_input import TextField
from .transcript import Transcript


class FindBar(Horizontal):
    """Enter goes to the next entry that has the text; Esc closes."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._in: Transcript | None = None

    def compose(self) -> ComposeResult:
        yield TextField(placeholder="Search · Enter: next · Esc: close", compact=True)
        yield Static(id="found")

    def open(self, transcript: Transcript, text: str) -> None:
        """Search in `transcript`, for `text` at once where there is one."""
        self._in = transcript
        self.display = True
        self.query_one(Input).value = text
        self.query_one(Input).focus()
        if text:
            self._count()
            transcript.next_found()

    def close(self) -> bool:
        """Leave the search; False when there was none."""
        if not self.display or self._in is None:
            return False
        self.display = False
        self._in.search("")
        self._in.focus()
        self._in = None
        return True

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._count()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self._in is not None:
            self._in.next_found()

    def _count(self) -> None:
        if self._in is not None and self.display:
            words = self.query_one(Input).value
            count = self._in.search(words)
            self.query_one("#found", Static).update(
                f"{count} {'entries have' if count != 1 else 'entry has'} it" if words else ""
            )
