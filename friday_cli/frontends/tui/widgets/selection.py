"""Marking text of a transcript with the keyboard: a caret, and the selection from where it began."""

from __future__ import annotations

from rich.cells import cell_len
from rich.style import Style
from textual.geometry import Offset
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from .scroll_position import ScrollPosition
from .transcript_messages import Marking

_CARET = Style(reverse=True)


class TextMarker:
    """The caret that marks text of a transcript with the keyboard. `caret` is a column in characters and a line; None while nothing is marked."""

    def __init__(self, view: ScrollView, position: ScrollPosition) -> None:
        self._view, self._position = view, position
        self.caret: Offset | None = None
        self._start = Offset(0, 0)

    def begin(self, line: int | None) -> None:
        """Begin at the caret; without one at `line` if it is visible, else at the first visible line."""
        position = self._position
        if self.caret is not None:
            self._start = self.caret
        elif position.blocks.blocks:
            position.following = False
            if line is None or not position.is_visible(line):
                line = min(position.top, position.blocks.total - 1)
            self._start = Offset(0, line)
        else:
            return
        self._select_to(self._start)
        self._view.post_message(Marking())

    def end(self) -> bool:
        """Remove the caret and the selection. False if there was no caret."""
        if self.caret is None:
            return False
        self.caret = None
        self._view.screen.clear_selection()
        self._view.refresh()
        self._view.post_message(Marking())
        return True

    def move(self, dx: int, dy: int) -> None:
        """Move the caret by characters and lines; from the end of a line to the next line."""
        if self.caret is None:
            return
        blocks, (x, y) = self._position.blocks, self.caret
        y = min(max(y + dy, 0), blocks.total - 1)
        if moved := blocks.ensure(y, 1):
            self._start, y = self._start + Offset(0, moved), y + moved
        x = min(x, len(blocks.strip(y).text)) + dx
        if x < 0 and y:
            blocks.ensure(y - 1, 1)
            y -= 1
            x = len(blocks.strip(y).text)
        elif x > len(blocks.strip(y).text):
            x, y = (0, y + 1) if y + 1 < blocks.total else (x - 1, y)
        self._select_to(Offset(max(x, 0), y))

    def move_to(self, direction: str) -> None:
        """Move the caret: "up", "down", "left", "right", "page_up", "page_down", or to the "home" or "end" of its line."""
        if self.caret is None:
            return
        page = self._position.size.height
        if direction in ("home", "end"):
            y = self.caret.y
            length = len(self._position.blocks.strip(y).text)
            self._select_to(Offset(0 if direction == "home" else max(length - 1, 0), y))
        else:
            self.move(
                *{
                    "up": (0, -1),
                    "down": (0, 1),
                    "left": (-1, 0),
                    "right": (1, 0),
                    "page_up": (0, -page),
                    "page_down": (0, page),
                }[direction]
            )

    def _select_to(self, caret: Offset) -> None:
        self.caret = caret
        start, end = sorted((self._start, caret), key=lambda offset: (offset.y, offset.x))
        self._view.screen.selections = {self._view: Selection(start, end + Offset(1, 0))}
        if not self._position.is_visible(caret.y):
            top = caret.y if caret.y < self._position.top else caret.y - self._position.size.height + 1
            self._view.scroll_to(y=top, animate=False, immediate=True)
        self._view.refresh()

    def draw_caret(self, strip: Strip, line: int) -> Strip:
        """The strip of a line, with the caret where it is in that line."""
        caret = self.caret
        if caret is None or caret.y != line:
            return strip
        x, text = cell_len(strip.text[: caret.x]), strip.text[caret.x : caret.x + 1]
        before, under, after = strip.divide([x, x + max(cell_len(text), 1), strip.cell_length])
        return Strip.join([before, under.apply_style(_CARET), after])
