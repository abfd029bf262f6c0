"""The transcript of one agent: one scroll view over cached strips, for the parent and for every child.

Interface: `Transcript(scene)`, `show(path)`, `follow()` (take in what is new; call it when the agent is dirty),
`add(block)`, `toggle_all()`, `jump(what)`, `search(text)`, `next_found(step)`. Messages: `OpenAgent(path)`, `Copied(text)`.
It stays where the reader scrolled; at the end it follows. Nothing is ever pruned.
"""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from .block_list import BlockList, runs
from .blocks import Block, RenderContext
from .styles import painted


class Transcript(ScrollView, can_focus=True):
    """See the module."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "scroll_up", "Line up", show=False, id="transcript.up"),
        Binding("down", "scroll_down", "Line down", show=False, id="transcript.down"),
        Binding("pageup", "page_up", "Page up", show=False, id="transcript.page_up"),
        Binding("pagedown", "page_down", "Page down", show=False, id="transcript.page_down"),
        Binding("home", "scroll_home", "To the beginning", show=False, id="transcript.home"),
        Binding("end", "scroll_end", "To the end, and follow", show=False, id="transcript.end"),
        Binding("right_square_bracket,j", "step(1)", "Next entry", id="transcript.next"),
        Binding("left_square_bracket,k", "step(-1)", "Entry before", id="transcript.previous"),
        Binding("enter,space", "fold", "Fold or unfold the entry", id="transcript.fold"),
        Binding("o", "open_agent", "Open the sub-agent of the entry", id="transcript.open"),
        Binding("e", "jump('error')", "Next error", id="transcript.error"),
        Binding("a", "jump('agent')", "Next sub-agent", id="transcript.agent"),
        Binding("q", "jump('question')", "Next question", id="transcript.question"),
        Binding("u", "jump('user')", "Next message of yours", id="transcript.user"),
        Binding("slash,ctrl+f", "find", "Search", id="transcript.find"),
        Binding("n", "found(1)", "Next hit", show=False, id="transcript.next_hit"),
        Binding("N", "found(-1)", "Hit before", show=False, id="transcript.previous_hit"),
        Binding("c,y", "copy_entry", "Copy the selection or the entry", id="transcript.copy"),
    ]
    following: reactive[bool] = reactive(True)

    class OpenAgent(Message):
        """A person wants to see the agent at `path`."""

        def __init__(self, path: str) -> None:
            self.path = path
            super().__init__()

    class CopyText(Message):
        """A person wants `text` on the clipboard."""

        def __init__(self, text: str) -> None:
            self.text = text
            super().__init__()

    class FindAsked(Message):
        """A person wants to search `transcript`."""

        def __init__(self, transcript: Transcript) -> None:
            self.transcript = transcript
            super().__init__()

    def __init__(self, scene: RenderContext, path: str = "a", *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.scene = scene
        self.column = BlockList(scene, path)
        self._columns = {path: self.column}
        self._places: dict[str, float | None] = {}
        """Where the reader was in each agent's transcript; None: following."""
        self._pinning = False
        self._laid = Size(0, 0)
        self._anchor = (0, 0)
        self._cursor: int | None = None
        self._query = ""
        self._all_open = False
        self._paint: tuple[int, Style, Selection | None] = (0, Style(), None)
        self._seen: dict[int, Strip] = {}
        """What is on the screen, by row."""

    # ---- what is shown --------------------------------------------------------------

    @property
    def path(self) -> str:
        return self.column.path

    def show(self, path: str) -> None:
        """Show another agent; the place in each is kept."""
        if path == self.path:
            return
        self._places[self.path] = None if self.following else self.scroll_y
        self.column = self._columns.setdefault(path, BlockList(self.scene, path))
        self._cursor = None
        self.column.follow()
        place = self._places.get(path)
        self.following = place is None
        self._arrange()
        if place is not None:
            self._pin(int(place))
        self.refresh()

    def follow(self) -> None:
        """Take in what the agent has done since."""
        if not self.column.follow() or not self.is_mounted:
            return
        before = int(self.scroll_y)
        self._arrange()
        top = int(self.scroll_y)
        if top != before:
            return  # every line is drawn anew where it has moved
        changed = [row for row in range(self._laid.height) if self._seen.get(row) != self.column.strip(top + row)]
        for first, count in runs(changed):
            self.refresh_lines(top + first, count)

    def add(self, block: Block) -> None:
        """Put a block of our own at the end, and show it."""
        self.column.add(block)
        self.following = True
        self._arrange()
        self.refresh()

    def redraw(self) -> None:
        """The look or the room has changed: draw everything anew."""
        self._arrange()
        self.refresh()

    def reset(self, scene: RenderContext) -> None:
        """Begin anew with another session."""
        self.scene = scene
        self.column = BlockList(scene, "a")
        self._columns = {"a": self.column}
        self._places, self._cursor, self.following = {}, None, True
        self._arrange()
        self.refresh()

    # ---- where it stands --------------------------------------------------------------

    def _arrange(self) -> None:
        """Draw what can be seen, and put the view where it belongs."""
        size = self.scrollable_content_region.size
        if not size.width or not size.height:
            return
        column = self.column
        anew = size.width != self._laid.width
        self._laid = size
        column.lay(size.width - 1)
        if self.following:
            for _ in range(4):
                before = column.total
                column.ensure(max(before - size.height - 2, 0), size.height + 4)
                if column.total == before:
                    break
            y = max(column.total - size.height, 0)
        else:
            index, row = self._anchor
            y = column.tops[min(index, len(column.blocks))] + row if anew else int(self.scroll_y)
            for _ in range(4):
                moved = column.ensure(y, size.height)
                y += moved
                if not moved:
                    break
            y = min(y, max(column.total - size.height, 0))
        self._pin(y)

    def _pin(self, y: int) -> None:
        """Stand at line `y`, without taking it for the reader's wish."""
        self._pinning = True
        try:
            self._grow()
            if int(self.scroll_y) != y:
                self.set_reactive(type(self).scroll_target_y, float(y))
                self.scroll_y = y
        finally:
            self._pinning = False
        self._note_anchor(y)

    def action_scroll_end(self) -> None:
        self.following = True  # what lies between has guessed heights: no distance says where the end is
        self.redraw()

    def _grow(self) -> None:
        """Note the height, without a new layout of the screen: nothing but the scroll bar shows it."""
        size = Size(self._laid.width, self.column.total)
        if size != self.virtual_size:
            self.set_reactive(Widget.virtual_size, size)
            self.vertical_scrollbar.window_virtual_size = size.height

    def _note_anchor(self, y: int) -> None:
        if self.column.blocks:
            index = self.column.at(y)[0]
            self._anchor = (index, y - self.column.tops[index])

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if self._pinning or self.scrollable_content_region.size != self._laid:
            return
        self.following = new_value >= self.max_scroll_y - 0.5
        y = int(new_value)
        moved = self.column.ensure(y, self._laid.height)
        if moved or self.column.total != self.virtual_size.height:
            self._pinning = True
            try:
                self._grow()
                if moved:
                    y += moved
                    self.set_reactive(type(self).scroll_target_y, self.scroll_target_y + moved)
                    self.scroll_y = y
            finally:
                self._pinning = False
        self._note_anchor(y)

    def on_resize(self, event: events.Resize) -> None:
        self.redraw()

    def on_show(self, event: events.Show) -> None:
        self.redraw()

    # ---- drawing ------------------------------------------------------------------------

    def render_lines(self, crop: Region) -> list[Strip]:
        self._paint = (self.size.width, self.rich_style, self.text_selection)
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        line = int(self.scroll_y) + y
        width, paper, selection = self._paint
        strip = self._seen[y] = self.column.strip(line)
        if self._query:
            strip = self._marked(strip)
        if selection is not None and (span := selection.get_span(line)) is not None:
            start, end = span
            strip = painted(strip, start, len(strip.text) if end == -1 else end, self.scene.pen.look.selected)
        strip = strip.crop(0, width).apply_offsets(0, line)
        if self.has_focus and self._cursor is not None and self.column.blocks:
            index, row = self.column.at(line)
            if index == self._cursor and row == 0:
                strip = Strip([Segment(s.text, (s.style or paper) + self.scene.pen.look.cursor) for s in strip])
        return strip.extend_cell_length(width).apply_style(paper)

    def _marked(self, strip: Strip) -> Strip:
        text, at = strip.text.lower(), 0
        while (at := text.find(self._query, at)) >= 0:
            strip = painted(strip, at, at + len(self._query), self.scene.pen.look.found)
            at += len(self._query)
        return strip

    # ---- selection and copying ---------------------------------------------------------------

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        first = selection.start.y if selection.start else 0
        last = selection.end.y if selection.end else max(self.column.total - 1, 0)
        if selection.start is None or selection.end is None:
            self.column.ensure(first, last - first + 1)
        lines = []
        for y in range(first, min(last, self.column.total - 1) + 1):
            text = self.column.strip(y).text
            start, end = selection.get_span(y) or (0, 0)
            lines.append(text[start : None if end == -1 else end].rstrip())
        return "\n".join(lines), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    def action_copy_entry(self) -> None:
        text = self.screen.get_selected_text()
        if not text and (index := self._cursor if self._cursor is not None else self._last_reply()) is not None:
            text = self.column.blocks[index].text()
        if text:
            self.post_message(self.CopyText(text))

    def _last_reply(self) -> int | None:
        kinds = [block.kind for block in self.column.blocks]
        return next((i for i in range(len(kinds) - 1, -1, -1) if kinds[i] == "reply"), None)

    def last_reply(self) -> str:
        """The newest words of the model."""
        index = self._last_reply()
        return "" if index is None else self.column.blocks[index].text()

    # ---- folding and moving ------------------------------------------------------------------

    def on_click(self, event: events.Click) -> None:
        if self.screen.get_selected_text() or event.button != 1:
            return
        line = int(self.scroll_y) + event.get_content_offset_capture(self).y
        self._fold_at(line)

    def _fold_at(self, line: int) -> None:
        at_end, before = int(self.scroll_y) >= self.max_scroll_y, self.column.total
        if self.column.toggle(line):
            self.following = False
            self._arrange()
            self.following = at_end and self.column.total <= self._laid.height
            grown, seen = self.column.total - before, int(self.scroll_y) + self._laid.height
            if grown > 0 and line + 1 + grown > seen:  # what it unfolds to lies below the screen
                self._pin(min(line, line + 1 + grown - self._laid.height))
            self.refresh()

    def action_fold(self) -> None:
        if self._cursor is None:
            self.post_message(self.OpenAgent(self.path))  # a second Enter on a sub-agent: the whole screen
        elif self.column.blocks:
            self._fold_at(self.column.top(min(self._cursor, len(self.column.blocks) - 1)))

    def action_open_agent(self) -> None:
        if self._cursor is not None and (path := self.column.agent_at(self.column.top(self._cursor))):
            self.post_message(self.OpenAgent(path))

    def toggle_all(self) -> None:
        """Show all details, or none."""
        self._all_open = not self._all_open
        for column in self._columns.values():
            column.fold(self._all_open)
        self._arrange()
        self.refresh()

    def action_step(self, by: int) -> None:
        count = len(self.column.blocks)
        if not count:
            return
        if self._cursor is None:
            line = int(self.scroll_y) + (self._laid.height - 1 if by < 0 else 0)
            self._cursor = self.column.at(min(line, max(self.column.total - 1, 0)))[0]
        else:
            self._cursor = min(max(self._cursor + by, 0), count - 1)
        self._go(self._cursor)

    def action_jump(self, what: str) -> None:
        self.jump(what)

    def jump(self, what: str) -> bool:
        """Go to the next "error", "agent", "question" or message of the "user" below; from the last to the first."""
        hits = [i for i, block in enumerate(self.column.blocks) if block.wants(what)]
        if not hits:
            self.notify(f"No {what} here.", timeout=2)
            return False
        after = self._cursor if self._cursor is not None else -1
        self._cursor = next((i for i in hits if i > after), hits[0])
        self._go(self._cursor)
        return True

    def _go(self, index: int, row: int = 0) -> None:
        """Bring a line of a block into view."""
        height = self._laid.height
        for _ in range(3):
            y = self.column.top(index) + row
            self.column.ensure(max(y - height, 0), 2 * height)
        y, top = self.column.top(index) + row, int(self.scroll_y)
        if not top <= y < top + height - 1:
            top = max(min(y - height // 3, self.column.total - height), 0)
        self.following = top >= self.column.total - height
        self._pin(top)
        self.refresh()

    # ---- searching ------------------------------------------------------------------------------

    def action_find(self) -> None:
        self.post_message(self.FindAsked(self))

    def search(self, text: str) -> int:
        """Look for `text` in everything, folded parts included; gives how many entries have it."""
        self._query = text.lower()
        self.refresh()
        return len(self._hits()) if text else 0

    def _hits(self) -> list[int]:
        query = self._query
        return [
            i for i, b in enumerate(self.column.blocks) if query in b.text().lower() or query in b.folded_text().lower()
        ]

    def action_found(self, by: int) -> None:
        self.next_found(by)

    def next_found(self, by: int = 1) -> None:
        """Go to the next or the previous entry with the searched text."""
        hits = self._hits() if self._query else []
        if not hits:
            return
        here = self._cursor if self._cursor is not None else (-1 if by > 0 else len(self.column.blocks))
        later = [i for i in hits if (i > here if by > 0 else i < here)]
        index = (later or hits)[0 if by > 0 else -1]
        block = self.column.blocks[index]
        if self._query not in block.text().lower():
            block.fold(True)
        self._cursor = index
        strips = block.strips(max(self._laid.width - 1, 1))
        row = next((n for n, strip in enumerate(strips) if self._query in strip.text.lower()), 0)
        self._go(index, row)
