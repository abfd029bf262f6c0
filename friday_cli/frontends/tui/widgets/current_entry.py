"""The current entry of a transcript: keys move to another entry, search for one, and act on it.

A delegation has several stops: its agents, their receipts, and the entries of their unfolded transcripts.
"""

from __future__ import annotations

from collections.abc import Callable

from textual.scroll_view import ScrollView
from textual.strip import Strip

from .blocks import Block
from .row_search import URL, Piece, find_in_rows, pattern_for
from .scroll_position import ScrollPosition
from .transcript_messages import ForkRequested, Links, OpenAgent


class CurrentEntry:
    """The entry of a transcript on which keys act. An entry is a block of the list that `position` shows; there may be no current one."""

    def __init__(self, view: ScrollView, position: ScrollPosition) -> None:
        self._view, self._position = view, position
        self.index: int | None = None
        self._row = 0
        self.query = ""
        """The text that is searched."""
        self.on_found: Callable[[int, int], None] | None = None
        """Gets the number of the hit that was gone to, from 1, and how many there are."""
        self._hit = -1
        """Which of the hits in the current entry was gone to."""
        self._found: tuple[list[Strip], str, list[list[Piece]]] = [], "", []
        """The strips of a block in which the text was looked for last, and where it is."""

    @property
    def _blocks(self) -> list[Block]:
        return self._position.blocks.blocks

    @property
    def block(self) -> Block | None:
        return self._blocks[self.index] if self.index is not None and self.index < len(self._blocks) else None

    @property
    def row(self) -> int:
        """The line within the entry at which the keys stopped; what is above it in the entry may have changed since."""
        return max((row for row in self.block.stops if row <= self._row), default=0) if self.block is not None else 0

    @property
    def line(self) -> int | None:
        """The current line: the first of the entry, or of its current stop."""
        return None if self.block is None or self.index is None else self._position.blocks.top(self.index) + self.row

    def _go_to(self, index: int, row: int = 0) -> None:
        self.index, self._row = index, row
        self._position.reveal(index, row)

    def step(self, by: int) -> None:
        """Go to the next stop (1) or the previous (-1). The first step goes to the first visible entry, or upwards to the
        last."""
        count, position = len(self._blocks), self._position
        if not count:
            return
        if self.index is None:
            line = position.top + (position.size.height - 1 if by < 0 else 0)
            self._go_to(position.blocks.at(min(line, max(position.blocks.total - 1, 0)))[0])
            return
        index, here = min(self.index, count - 1), self.row
        further = [row for row in self._blocks[index].stops if (row > here if by > 0 else row < here)]
        if further:
            self._go_to(index, further[0 if by > 0 else -1])
        elif 0 <= index + by < count:
            self._go_to(index + by, 0 if by > 0 else self._blocks[index + by].stops[-1])

    def jump(self, what: str) -> None:
        """Go to the next "error", "agent", "question" or message of the "user" below; from the last to the first."""
        hits = [index for index, block in enumerate(self._blocks) if block.matches(what)]
        if not hits:
            self._view.notify(f"No {what} here.", timeout=2)
            return
        after = self.index if self.index is not None else -1
        self._go_to(next((index for index in hits if index > after), hits[0]))

    def search(self, text: str) -> int:
        """Mark `text` wherever it is visible. Returns how often it is there, folded parts included."""
        self.query, self._hit = text.strip(), -1
        self._view.refresh()
        return len(self._hits())

    def _hits(self) -> list[tuple[int, int]]:
        """(entry, which hit in it) of all hits."""
        if not self.query:
            return []
        find = pattern_for(self.query).findall
        counts = (max(len(find(block.text())), len(find(block.folded_text()))) for block in self._blocks)
        return [(index, hit) for index, count in enumerate(counts) for hit in range(count)]

    def find_next(self, by: int = 1) -> None:
        """Go to the next (1) or the previous (-1) hit, and tell `on_found`. Without a current entry, go to the last hit that is
        not below the screen."""
        hits = self._hits()
        if not hits:
            return
        if self.index is None:
            position = self._position
            last = min(position.top + position.size.height, position.blocks.total) - 1
            seen = position.blocks.at(max(last, 0))[0]
            number = max(sum(hit[0] <= seen for hit in hits) - 1, 0)
        else:
            here = self.index, self._hit
            further = [number for number, hit in enumerate(hits) if (hit > here if by > 0 else hit < here)]
            number = further[0 if by > 0 else -1] if further else 0 if by > 0 else len(hits) - 1
        index, self._hit = hits[number]
        block, width = self._blocks[index], max(self._position.size.width - 1, 1)
        if len(self.pieces(block.strips(width))) <= self._hit:
            block.fold(True)
        found = self.pieces(block.strips(width))
        self._go_to(index, found[min(self._hit, len(found) - 1)][0][0] if found else 0)
        if self.on_found is not None:
            self.on_found(number + 1, len(hits))

    def pieces(self, strips: list[Strip]) -> list[list[Piece]]:
        """Where the searched text is in the strips of a block."""
        if self._found[0] is not strips or self._found[1] != self.query:
            found = find_in_rows([strip.text for strip in strips], pattern_for(self.query)) if self.query else []
            self._found = strips, self.query, found
        return self._found[2]

    def fold(self) -> None:
        """Fold or unfold the entry. Without one, open the agent of the transcript itself: it fills the screen."""
        if self.index is None:
            self._view.post_message(OpenAgent(self._position.blocks.path))
        elif self.line is not None:
            self._position.toggle_fold(self.line)

    def open_agent(self) -> None:
        """Open the sub-agent that the entry is about."""
        if self.line is not None and (path := self._position.blocks.agent_at(self.line)):
            self._view.post_message(OpenAgent(path))

    def choose_link(self) -> None:
        """Offer the links of the entry, or of the last reply."""
        block = self.block or self._position.blocks.last_reply()
        text = f"{block.text()}\n{block.folded_text()}" if block is not None else ""
        urls = list(dict.fromkeys(url.rstrip(".,;:!?)") for url in URL().findall(text)))
        if urls:
            self._view.post_message(Links(urls))
        else:
            self._view.notify("No links here.", timeout=2)

    def fork(self) -> None:
        """Fork the session before the entry, which must be a message of the user in the main transcript."""
        is_root = self._position.blocks.path == "a"
        own = [index for index, block in enumerate(self._blocks) if block.matches("own")] if is_root else []
        if self.index in own:
            self._view.post_message(ForkRequested(own.index(self.index) + 1))
        else:
            self._view.notify("Select one of your messages first: u.", timeout=3)
