"""The transcript of one agent: one scroll view over cached strips, for the main agent and for every sub-agent.

The view stays where the user scrolled; at the end it follows the agent. Nothing is ever pruned. `v` or Shift with an arrow
puts a caret into the text: arrows mark from there, `v` begins at the caret, `c` copies, Esc ends marking.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.selection import Selection
from textual.strip import Strip

from .block_list import BlockList, runs
from .blocks import Block, RenderContext
from .current_entry import CurrentEntry
from .scroll_position import ScrollPosition
from .selection import TextMarker
from .styles import overlay
from .transcript_messages import CopyText, PromptTyping


class Transcript(PromptTyping, can_focus=True):
    """The transcript of one agent, as one scroll view over cached strips. `path` names the agent; its messages are in `transcript_messages`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move('up')", "Line up", show=False, id="transcript.up"),
        Binding("down", "move('down')", "Line down", show=False, id="transcript.down"),
        Binding("pageup", "move('page_up')", "Page up", show=False, id="transcript.page_up"),
        Binding("pagedown", "move('page_down')", "Page down", show=False, id="transcript.page_down"),
        Binding("home", "move('home')", "To the beginning", show=False, id="transcript.home"),
        Binding("end", "move('end')", "To the end, and follow", show=False, id="transcript.end"),
        Binding("right_square_bracket,j", "entry('step', 1)", "Next entry", id="transcript.next"),
        Binding("left_square_bracket,k", "entry('step', -1)", "Previous entry", id="transcript.previous"),
        Binding("enter,space", "entry('fold')", "Fold or unfold the entry", id="transcript.fold"),
        Binding("o", "entry('open_agent')", "Open the sub-agent of the entry", id="transcript.open"),
        Binding("e", "entry('jump', 'error')", "Next error", id="transcript.error"),
        Binding("a", "entry('jump', 'agent')", "Next sub-agent", id="transcript.agent"),
        Binding("q", "entry('jump', 'question')", "Next question", id="transcript.question"),
        Binding("u", "entry('jump', 'user')", "Your next message", id="transcript.user"),
        Binding("slash,ctrl+f", "app.find", "Search", id="transcript.find"),
        Binding("n", "entry('find_next', 1)", "Next match", show=False, id="transcript.next_hit"),
        Binding("N", "entry('find_next', -1)", "Previous match", show=False, id="transcript.previous_hit"),
        Binding("c,y", "copy", "Copy the selection or the entry", id="transcript.copy"),
        Binding("v", "mark", "Mark text: arrows extend, v begins at the caret, c copies", id="transcript.mark"),
        Binding("shift+up", "mark(0, -1)", "Mark upwards", show=False, id="transcript.mark_up"),
        Binding("shift+down", "mark(0, 1)", "Mark downwards", show=False, id="transcript.mark_down"),
        Binding("shift+left", "mark(-1, 0)", "Mark to the left", show=False, id="transcript.mark_left"),
        Binding("shift+right", "mark(1, 0)", "Mark to the right", show=False, id="transcript.mark_right"),
        Binding("left", "move('left')", "While marking: left", show=False, id="transcript.left"),
        Binding("right", "move('right')", "While marking: right", show=False, id="transcript.right"),
        Binding("f", "entry('fork')", "Fork the session before your message", id="transcript.fork"),
        Binding("l", "entry('choose_link')", "Links of the entry, or of the last reply", id="transcript.links"),
    ]

    def __init__(self, context: RenderContext, path: str = "a", *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.context = context
        blocks = BlockList(context, path)
        self._lists = {path: blocks}
        """The blocks of every agent shown so far, by path."""
        self.position = ScrollPosition(self, blocks)
        self.entry = CurrentEntry(self, self.position)
        self.marker = TextMarker(self, self.position)
        self._unfolded = False
        self._paint: tuple[int, Style, Selection | None] = (0, Style(), None)
        self._visible: dict[int, Strip] = {}
        """What is on the screen, by row."""

    @property
    def blocks(self) -> BlockList:
        return self.position.blocks

    def show(self, path: str) -> None:
        """Show another agent. The position in each is kept."""
        if path == self.blocks.path:
            return
        self.marker.end()
        self.entry.index = None
        blocks = self._lists.setdefault(path, BlockList(self.context, path))
        blocks.follow()
        self.position.show(blocks)
        self.refresh()

    def follow(self) -> None:
        """Show what the agent has done since the last call. Call it when the agent is dirty."""
        if not self.blocks.follow() or not self.is_mounted:
            return
        before = self.position.top
        self.position.update()
        top = self.position.top
        if top != before:
            return  # every line has moved, and is drawn again
        height = self.position.size.height
        changed = [row for row in range(height) if self._visible.get(row) != self.blocks.strip(top + row)]
        for first, count in runs(changed):
            self.refresh_lines(top + first, count)

    def add(self, block: Block) -> None:
        """Append a block that is not of the agent, and show it: the beginning of one that is longer than the view."""
        self.blocks.follow()  # what the agent did before comes above it
        self.blocks.add(block)
        self.position.following = True
        self.redraw()
        height, top = self.position.size.height, self.blocks.top(len(self.blocks.blocks) - 1)
        if height and self.blocks.total - top > height:
            self.position.following = False
            self.position.scroll_to(top)

    def redraw(self) -> None:
        """Draw everything again: the styles or the size have changed."""
        self.position.update()
        self.refresh()

    on_resize = redraw
    on_show = redraw

    def reset(self, context: RenderContext) -> None:
        """Show the main agent of another session."""
        self.marker.end()
        self.entry.index = None
        self.context = context
        self._lists = {"a": BlockList(context, "a")}
        self.position.reset(self._lists["a"])
        self.refresh()

    def toggle_all(self) -> None:
        """Show all details, or none."""
        self._unfolded = not self._unfolded
        for blocks in self._lists.values():
            blocks.fold(self._unfolded)
        self.redraw()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.position.on_scrolled()

    def render_lines(self, crop: Region) -> list[Strip]:
        self._paint = (self.size.width, self.rich_style, self.text_selection)
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        line = self.position.top + y
        (width, base, selection), styles = self._paint, self.context.renderer.styles
        strip = self._visible[y] = self.blocks.strip(line)
        for start, end in self._found_in(line):
            strip = overlay(strip, start, end, styles.found)
        if selection is not None and (span := selection.get_span(line)) is not None:
            start, end = span
            strip = overlay(strip, start, len(strip.text) if end == -1 else end, styles.selected)
        strip = strip.crop(0, width).apply_offsets(0, line)
        if self.has_focus and self.entry.index is not None and self.blocks.blocks:
            index, row = self.blocks.at(line)
            if index == self.entry.index and row == self.entry.row:
                strip = Strip([Segment(s.text, (s.style or base) + styles.cursor) for s in strip])
        strip = strip.extend_cell_length(width).apply_style(base)
        return self.marker.draw_caret(strip, line) if self.has_focus else strip

    def _found_in(self, line: int) -> list[tuple[int, int]]:
        """(start, end) of what is searched in a line."""
        if not self.entry.query or not self.blocks.blocks:
            return []
        index, row = self.blocks.at(line)
        found = self.entry.pieces(self.blocks.blocks[index].strips(max(self.position.size.width - 1, 1)))
        return [(start, end) for hit in found for at, start, end in hit if at == row]

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        first = selection.start.y if selection.start else 0
        last = selection.end.y if selection.end else max(self.blocks.total - 1, 0)
        if selection.start is None or selection.end is None:
            self.blocks.ensure(first, last - first + 1)
        lines = []
        for line in range(first, min(last, self.blocks.total - 1) + 1):
            text = self.blocks.strip(line).text
            start, end = selection.get_span(line) or (0, 0)
            lines.append(text[start : None if end == -1 else end].rstrip())
        return "\n".join(lines), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    def action_copy(self) -> None:
        text = self.screen.get_selected_text()
        if not text and (block := self.entry.block or self.blocks.last_reply()) is not None:
            text = block.text()
        if text:
            self.post_message(CopyText(text))
        self.marker.end()

    def on_click(self, event: events.Click) -> None:
        if event.button == 1 and not self.screen.get_selected_text():
            self.position.toggle_fold(self.position.top + event.get_content_offset_capture(self).y)

    def action_entry(self, command: str, *arguments: object) -> None:
        """Run one of `ENTRY_COMMANDS`: its name and its arguments are in the binding."""
        ENTRY_COMMANDS[command](self.entry, *arguments)

    def action_mark(self, dx: int = 0, dy: int = 0) -> None:
        """Extend the marked text, or begin to mark; without a distance begin at the caret."""
        if self.marker.caret is None or not (dx or dy):
            self.marker.begin(self.entry.line)
        if dx or dy:
            self.marker.move(dx, dy)

    def action_move(self, direction: str) -> None:
        """Move the caret while text is marked, else scroll."""
        if self.marker.caret is not None:
            self.marker.move_to(direction)
        elif direction in SCROLLS:
            SCROLLS[direction](self)

    def action_scroll_end(self) -> None:
        self.position.following = True  # heights on the way are estimates: no distance says where the end is
        self.redraw()


ENTRY_COMMANDS: dict[str, Callable[..., None]] = {
    "step": CurrentEntry.step,
    "fold": CurrentEntry.fold,
    "open_agent": CurrentEntry.open_agent,
    "jump": CurrentEntry.jump,
    "find_next": CurrentEntry.find_next,
    "fork": CurrentEntry.fork,
    "choose_link": CurrentEntry.choose_link,
}
SCROLLS: dict[str, Callable[[Transcript], None]] = {
    "up": Transcript.action_scroll_up,
    "down": Transcript.action_scroll_down,
    "page_up": Transcript.action_page_up,
    "page_down": Transcript.action_page_down,
    "home": Transcript.action_scroll_home,
    "end": Transcript.action_scroll_end,
}
