"""The scroll position of a transcript, in which the height of a block is an estimate until the block is drawn.

`ScrollPosition` draws what is visible and corrects the position where a drawn block differs from its estimate. It stays
at the end while `following` is set, and else where the reader scrolled. Lines count from 0 at the top of the transcript.
"""

from __future__ import annotations

from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.widget import Widget

from .block_list import BlockList

_ATTEMPTS = 4
"""How often a layout is repeated because drawing changed a height."""


class ScrollPosition:
    """The scroll position of a transcript whose block heights are estimates until they are drawn. `blocks` is the list that `view` shows."""

    def __init__(self, view: ScrollView, blocks: BlockList) -> None:
        self._view = view
        self.blocks = blocks
        self.following = True
        """Whether the view stays at the end when the transcript grows."""
        self.size = Size(0, 0)
        """The size of the view at the last layout, in cells."""
        self._saved: dict[str, int | None] = {}
        """The first visible line of agents shown before, by path; None: following."""
        self._top_block = (0, 0)
        """The index of the first visible block, and the first visible line within it."""
        self._adjusting = False
        """Whether the position is changed from here, not by the reader."""

    @property
    def top(self) -> int:
        """The first visible line."""
        return int(self._view.scroll_y)

    def is_visible(self, line: int) -> bool:
        return self.top <= line < self.top + self.size.height

    def show(self, blocks: BlockList) -> None:
        """Show another list. The position in this one is kept for the next time."""
        self._saved[self.blocks.path] = None if self.following else self.top
        self.blocks = blocks
        saved = self._saved.get(blocks.path)
        self.following = saved is None
        self.update()
        if saved is not None:
            self.scroll_to(saved)

    def reset(self, blocks: BlockList) -> None:
        """Show the first list of another session."""
        self.blocks, self.following = blocks, True
        self._saved = {}
        self.update()

    def update(self) -> None:
        """Draw what is visible, and scroll to where the view belongs."""
        size, blocks = self._view.scrollable_content_region.size, self.blocks
        if not size.width or not size.height:
            return
        width_changed = size.width != self.size.width
        self.size = size
        blocks.set_width(size.width - 1)
        if self.following:
            for _ in range(_ATTEMPTS):
                before = blocks.total
                blocks.ensure(max(before - size.height - 2, 0), size.height + 4)
                if blocks.total == before:
                    break
            line = max(blocks.total - size.height, 0)
        else:
            index, row = self._top_block
            line = blocks.tops[min(index, len(blocks.blocks))] + row if width_changed else self.top
            for _ in range(_ATTEMPTS):
                moved = blocks.ensure(line, size.height)
                line += moved
                if not moved:
                    break
            line = min(line, max(blocks.total - size.height, 0))
        self.scroll_to(line)

    def scroll_to(self, line: int) -> None:
        """Scroll to a line at once. `following` does not change."""
        self._adjusting = True
        try:
            self._update_height()
            self._view.set_reactive(Widget.scroll_target_y, float(line))  # a view that grew has an old one
            if self.top != line:
                self._view.scroll_y = line
        finally:
            self._adjusting = False
        self._remember_top_block(line)

    def _update_height(self) -> None:
        """Tell the scroll bar the height. A new layout of the screen is not needed: only the scroll bar shows it."""
        size = Size(self.size.width, self.blocks.total)
        if size != self._view.virtual_size:
            self._view.set_reactive(Widget.virtual_size, size)
            self._view.vertical_scrollbar.window_virtual_size = size.height

    def _remember_top_block(self, line: int) -> None:
        if self.blocks.blocks:
            index = self.blocks.at(line)[0]
            self._top_block = (index, line - self.blocks.tops[index])

    def on_scrolled(self) -> None:
        """Take over a position that the reader chose; `scroll_y` of the view has it."""
        view = self._view
        if self._adjusting or view.scrollable_content_region.size != self.size:
            return
        self.following = view.scroll_y >= view.max_scroll_y - 0.5
        line = self.top
        moved = self.blocks.ensure(line, self.size.height)
        if moved or self.blocks.total != view.virtual_size.height:
            self._adjusting = True
            try:
                self._update_height()
                if moved:
                    line += moved
                    view.set_reactive(Widget.scroll_target_y, view.scroll_target_y + moved)
                    view.scroll_y = line
            finally:
                self._adjusting = False
        self._remember_top_block(line)

    def reveal(self, index: int, row: int = 0) -> None:
        """Scroll to line `row` of the block `index`, unless it is visible."""
        height, blocks = self.size.height, self.blocks
        for _ in range(_ATTEMPTS - 1):
            line = blocks.top(index) + row
            blocks.ensure(max(line - height, 0), 2 * height)
        line, top = blocks.top(index) + row, self.top
        if not top <= line < top + height - 1:
            top = max(min(line - height // 3, blocks.total - height), 0)
        self.following = top >= blocks.total - height
        self.scroll_to(top)
        self._view.refresh()

    def toggle_fold(self, line: int) -> None:
        """Fold or unfold what is at `line`, and keep what unfolds in view."""
        at_end, before = self.top >= self._view.max_scroll_y, self.blocks.total
        if not self.blocks.toggle(line):
            return
        self.following = False
        self.update()
        self.following = at_end and self.blocks.total <= self.size.height
        growth = self.blocks.total - before
        if growth > 0 and line + 1 + growth > self.top + self.size.height:  # the end of it is below the screen
            self.scroll_to(min(line, line + 1 + growth - self.size.height))
        self._view.refresh()
