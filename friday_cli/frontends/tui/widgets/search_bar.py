"""The bar that searches a transcript."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Input, Static

from .text_field import TextField
from .transcript import Transcript

WIDE_FIELD = 80
"""Cells of a screen on which the keys stand beside the field; on a narrower one they would leave no room for the text."""


class _Field(TextField):
    """The text that is searched."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "hit(-1)", show=False),
        Binding("down", "hit(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
    ]

    def action_hit(self, by: int) -> None:
        self._bar.go(by)

    def action_page(self, by: int) -> None:
        self._bar.scroll_chat(by)

    @property
    def _bar(self) -> FindBar:
        assert isinstance(self.parent, FindBar)
        return self.parent


class FindBar(Horizontal):
    """Enter goes to the next hit, Up to the one before, Esc closes the bar; the pages scroll the transcript."""

    _transcript: Transcript | None = None
    _before: Widget | None = None
    """What had the keys when it was opened: it gets them back."""

    def compose(self) -> ComposeResult:
        yield _Field(placeholder="Search · Enter: next · Esc: close", compact=True)
        yield Static(id="found")

    def open(self, transcript: Transcript, text: str) -> None:
        """Search `transcript`, at once for `text` unless it is empty."""
        self._transcript = transcript
        if not self.has_focus_within:
            self._before = self.screen.focused
        transcript.entry.on_found = lambda number, count: self._say(f"{number} of {count}")
        if text or not self.display:
            with self.prevent(Input.Changed):  # it is counted below
                self.query_one(Input).value = text
        self.display = True
        self.query_one(Input).focus()
        if text:
            self._count()
            self.go(1)

    def add(self, transcript: Transcript, text: str) -> None:
        """Search for what was typed before the field had the focus, also before the bar is open; a carriage return goes to the next hit."""
        if text == "\r":
            self.go(1)
        elif self.display:
            self.query_one(Input).insert_text_at_cursor(text)
        else:
            self.open(transcript, text)

    def close(self) -> bool:
        """End the search. False if there was none."""
        if not self.display or self._transcript is None:
            return False
        self.display = False
        self._transcript.entry.search("")
        (self._before or self._transcript).focus()
        self._transcript = self._before = None
        return True

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._count()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.go(1)

    def go(self, by: int) -> None:
        """Go to the next hit (1) or the one before (-1)."""
        if self._transcript is not None:
            self._transcript.entry.find_next(by)

    def scroll_chat(self, by: int) -> None:
        """Scroll what is searched by a page."""
        if self._transcript is not None:
            (self._transcript.action_page_down if by > 0 else self._transcript.action_page_up)()

    def _say(self, found: str) -> None:
        keys = " · Enter: next · Up: previous · Esc: close" if self.app.size.width >= WIDE_FIELD else ""
        self.query_one("#found", Static).update(f"{found}{keys}" if found else "")

    def _count(self) -> None:
        if self._transcript is not None and self.display:
            query = self.query_one(Input).value
            count = self._transcript.entry.search(query)
            self._say(f"{count or 'no'} match{'' if count < 2 else 'es'}" if query.strip() else "")
