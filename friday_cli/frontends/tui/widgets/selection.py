"""The transcript with keys for marking text and for its links.

`v` or Shift with an arrow puts a caret into the text; arrows mark from there, `v` begins anew where it stands, `c`
copies, Esc leaves. Interface: `Reader`, a `Transcript`; `marking`, `leave_marking()`. Messages: `Marking`, it began or
ended; `Links(urls)`, a person wants one; `Fork(number)`, a second session from their message with that number;
`Typed(text)`, words for the prompt.
"""

from __future__ import annotations

import re
from typing import ClassVar

from rich.cells import cell_len
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Offset
from textual.message import Message
from textual.selection import Selection
from textual.strip import Strip

from ..state import keymap
from .blocks import Block, RenderContext
from .transcript import Transcript

_URL = re.compile(r"https?://[^\s<>\"'`|\\^{}\[\]]+")
_CARET = Style(reverse=True)


class TranscriptReader(Transcript):
    """See the module."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("v", "mark", "Mark text: arrows go on, v begins here, c copies", id="transcript.mark"),
        Binding("shift+up", "extend(0, -1)", "Mark upwards", show=False, id="transcript.mark_up"),
        Binding("shift+down", "extend(0, 1)", "Mark downwards", show=False, id="transcript.mark_down"),
        Binding("shift+left", "extend(-1, 0)", "Mark to the left", show=False, id="transcript.mark_left"),
        Binding("shift+right", "extend(1, 0)", "Mark to the right", show=False, id="transcript.mark_right"),
        Binding("left", "side(-1)", "While marking: left", show=False, id="transcript.left"),
        Binding("right", "side(1)", "While marking: right", show=False, id="transcript.right"),
        Binding("f", "fork", "Fork the session before your message", id="transcript.fork"),
        Binding("l", "links", "Links of the entry, or of the last answer", id="transcript.links"),
    ]

    class Marking(Message):
        """The caret came or went."""

    class Links(Message):
        """The links of an entry; a person wants to choose one."""

        def __init__(self, urls: list[str]) -> None:
            self.urls = urls
            super().__init__()

    class ForkRequested(Message):
        """A person wants a second session that begins before their message `number`, counted from 1."""

        def __init__(self, number: int) -> None:
            self.number = number
            super().__init__()

    class Typed(Message):
        """What a person types that means nothing here: it belongs to the prompt. A carriage return sends it."""

        def __init__(self, text: str) -> None:
            self.text = text
            super().__init__()

    def __init__(self, scene: RenderContext, path: str = "a", *, id: str | None = None) -> None:
        super().__init__(scene, path, id=id)
        self._caret: Offset | None = None
        self._from = Offset(0, 0)
        self._left = False
        """Whether the person types for the prompt: the focus is on its way there."""

    def add(self, block: Block) -> None:
        """As every transcript does; what is longer than the view is shown from its beginning."""
        super().add(block)
        last = len(self.column.blocks) - 1
        if self._laid.height and self.column.total - self.column.top(last) > self._laid.height:
            self.following = False
            self._pin(self.column.top(last))

    def on_focus(self) -> None:
        self._left = False

    def on_key(self, event: events.Key) -> None:
        """A letter that means nothing here belongs to the prompt, and so does all that comes before the focus is there."""
        if not event.character or not (event.is_printable or (self._left and event.key == "enter")):
            return
        if self._left or not any(event.key in keymap.held(node) for node in self.ancestors_with_self):
            event.stop()
            event.prevent_default()
            self._left = True
            self.post_message(self.Typed(event.character))

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        self._left = True
        self.post_message(self.Typed(event.text))

    # ---- marking ------------------------------------------------------------------------------

    @property
    def marking(self) -> bool:
        return self._caret is not None

    def leave_marking(self) -> bool:
        """Take the caret away; False when there was none."""
        if self._caret is None:
            return False
        self._caret = None
        self.screen.clear_selection()
        self.refresh()
        self.post_message(self.Marking())
        return True

    def action_mark(self) -> None:
        caret = self._begin() if self._caret is None else self._caret
        if caret is not None:
            self._put(caret, anew=True)
            self.post_message(self.Marking())

    def action_extend(self, dx: int, dy: int) -> None:
        if self._caret is None:
            self.action_mark()
        self._move(dx, dy)

    def _begin(self) -> Offset | None:
        """Where the caret appears: at the entry in hand, else in the first line that can be seen."""
        if not self.column.blocks:
            return None
        self.following = False
        top = int(self.scroll_y)
        if self._cursor is not None and top <= (y := self.column.top(self._cursor)) < top + self._laid.height:
            return Offset(0, y)
        return Offset(0, min(top, self.column.total - 1))

    def _move(self, dx: int, dy: int) -> None:
        if self._caret is None:
            return
        x, y = self._caret
        y = min(max(y + dy, 0), self.column.total - 1)
        moved = self.column.ensure(y, 1)
        if moved:
            self._from, y = self._from + Offset(0, moved), y + moved
        x = min(x, len(self.column.strip(y).text)) + dx
        if x < 0 and y:
            self.column.ensure(y - 1, 1)
            y -= 1
            x = len(self.column.strip(y).text)
        elif x > len(self.column.strip(y).text):
            x, y = (0, y + 1) if y + 1 < self.column.total else (x - 1, y)
        self._put(Offset(max(x, 0), y))

    def _put(self, caret: Offset, *, anew: bool = False) -> None:
        self._caret = caret
        if anew:
            self._from = caret
        start, end = sorted((self._from, caret), key=lambda spot: (spot.y, spot.x))
        self.screen.selections = {self: Selection(start, end + Offset(1, 0))}
        top, height = int(self.scroll_y), self._laid.height
        if not top <= caret.y < top + height:
            self.scroll_to(y=caret.y if caret.y < top else caret.y - height + 1, animate=False, immediate=True)
        self.refresh()

    def action_side(self, by: int) -> None:
        self._move(by, 0)

    def action_scroll_up(self) -> None:
        self._move(0, -1) if self.marking else super().action_scroll_up()

    def action_scroll_down(self) -> None:
        self._move(0, 1) if self.marking else super().action_scroll_down()

    def action_page_up(self) -> None:
        self._move(0, -self._laid.height) if self.marking else super().action_page_up()

    def action_page_down(self) -> None:
        self._move(0, self._laid.height) if self.marking else super().action_page_down()

    def action_scroll_home(self) -> None:
        self._line_end(first=True) if self.marking else super().action_scroll_home()

    def action_scroll_end(self) -> None:
        self._line_end(first=False) if self.marking else super().action_scroll_end()

    def _line_end(self, *, first: bool) -> None:
        if self._caret is not None:
            y = self._caret.y
            self._put(Offset(0 if first else max(len(self.column.strip(y).text) - 1, 0), y))

    def action_copy_entry(self) -> None:
        super().action_copy_entry()
        self.leave_marking()

    def show(self, path: str) -> None:
        if path != self.path:
            self.leave_marking()
        super().show(path)

    def reset(self, scene: RenderContext) -> None:
        self.leave_marking()
        super().reset(scene)

    def render_line(self, y: int) -> Strip:
        strip = super().render_line(y)
        caret = self._caret
        if caret is None or not self.has_focus or int(self.scroll_y) + y != caret.y:
            return strip
        x, text = cell_len(strip.text[: caret.x]), strip.text[caret.x : caret.x + 1]
        before, under, after = strip.divide([x, x + max(cell_len(text), 1), strip.cell_length])
        return Strip.join([before, under.apply_style(_CARET), after])

    # ---- links --------------------------------------------------------------------------------

    def action_links(self) -> None:
        text = ""
        if self._cursor is not None and self._cursor < len(self.column.blocks):
            block = self.column.blocks[self._cursor]
            text = f"{block.text()}\n{block.folded_text()}"
        urls = list(dict.fromkeys(url.rstrip(".,;:!?)") for url in _URL.findall(text or self.last_reply())))
        if urls:
            self.post_message(self.Links(urls))
        else:
            self.notify("No links here.", timeout=2)

    # ---- forks --------------------------------------------------------------------------------

    def action_fork(self) -> None:
        own = [i for i, block in enumerate(self.column.blocks) if block.wants("own")] if self.path == "a" else []
        if self._cursor in own:
            self.post_message(self.ForkRequested(own.index(self._cursor) + 1))
        else:
            self.notify("Go to a message of yours first: u.", timeout=3)
