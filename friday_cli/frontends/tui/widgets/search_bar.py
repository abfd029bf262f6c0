"""The bar that searches a transcript."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Input, Static

from .text_input import TextField
from .transcript import Transcript


class FindBar(Horizontal):
    """Enter goes to the next entry that contains the text, Esc closes the bar."""

    _transcript: Transcript | None = None

    def compose(self) -> ComposeResult:
        yield TextField(placeholder="Search · Enter: next · Esc: close", compact=True)
        yield Static(id="found")

    def open(self, transcript: Transcript, text: str) -> None:
        """Search `transcript`, at once for `text` unless it is empty."""
        self._transcript = transcript
        self.display = True
        self.query_one(Input).value = text
        self.query_one(Input).focus()
        if text:
            self._count()
            transcript.entry.find_next()

    def close(self) -> bool:
        """End the search. False if there was none."""
        if not self.display or self._transcript is None:
            return False
        self.display = False
        self._transcript.entry.search("")
        self._transcript.focus()
        self._transcript = None
        return True

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._count()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self._transcript is not None:
            self._transcript.entry.find_next()

    def _count(self) -> None:
        if self._transcript is not None and self.display:
            query = self.query_one(Input).value
            count = self._transcript.entry.search(query)
            found = f"{count} {'entries have' if count != 1 else 'entry has'} it" if query else ""
            self.query_one("#found", Static).update(found)
