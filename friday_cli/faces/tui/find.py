"""The bar in which a transcript is searched. Interface: `FindBar`, `open(transcript, text)`, `close()`."""

from __future__ import annotations

from textual.widgets import Input

from .transcript import Transcript


class FindBar(Input):
    """Enter goes to the next entry that has the text; Esc closes."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, placeholder="Search · Enter: next · Esc: close", compact=True)
        self._in: Transcript | None = None

    def open(self, transcript: Transcript, text: str) -> None:
        """Search in `transcript`, for `text` at once where there is one."""
        self._in = transcript
        self.display = True
        self.value = text
        self.focus()
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
            count = self._in.search(self.value)
            self.border_subtitle = f"{count} found"
