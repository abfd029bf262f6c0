"""The blocks of one agent, one below the other, with an index of their heights.

The height of a block that was never drawn is an estimate. `BlockList.ensure` draws a range of lines and returns by how much
that range moved because heights above it were corrected. Lines count from 0 at the top of the list.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate, groupby

from textual.strip import Strip

from friday_cli.view import AgentView, Item, MessageItem, NoteItem, ResultItem

from .blocks import Block, CardBlock, RenderContext, ReplyBlock, WritingBlock

BLANK = Strip.blank(0)
_NEAR_END = 8
"""The block of the reply being written is among this many last blocks: the user's own blocks may follow it."""


class BlockList:
    """The transcript of an agent as blocks. `path` names the agent. `without_result` leaves out the result that ends the
    transcript and the notes after it, because the result is shown elsewhere."""

    def __init__(self, context: RenderContext, path: str, *, without_result: bool = False) -> None:
        self.context = context
        self.path = path
        self._without_result = without_result
        self.blocks: list[Block] = []
        self._item_count = 0
        """How many items of the agent's transcript have a block."""
        self._transcript: list[Item] | None = None
        self._live: dict[int, object] = {}
        """The version of every block that can still change, by index."""
        self._writing: WritingBlock | None = None
        self._cards: list[CardBlock] = []
        """The cards that were added since the last message of the person."""
        self._width = 0
        self._heights: list[int] = []
        self._gaps: list[int] = []
        self._tops: list[int] | None = None

    def follow(self) -> bool:
        """Add what the agent has done since the last call. Returns whether anything looks different."""
        agent = self.context.state.agents.get(self.path)
        changed = self._add_new(agent) if agent is not None else False
        for index, known in list(self._live.items()):
            block = self.blocks[index]
            if (version := block.version()) != known:
                self._live[index], changed = version, True
            elif block.done:
                del self._live[index]
        return changed

    def _add_new(self, agent: AgentView) -> bool:
        """Make blocks of the new items of an agent's transcript. Returns whether anything was added or removed."""
        changed = self._clear_if_rewound(agent.transcript)
        end = _final_result(agent.transcript) if self._without_result else len(agent.transcript)
        if self._item_count < end:
            writing = self._writing
            self._remove_writing()
            for item in agent.transcript[self._item_count : end]:
                if isinstance(item, MessageItem) and item.role == "user" and item.source == "person":
                    self._fold_cards()
                block = self.context.make_block(self.context, item)
                if isinstance(block, ReplyBlock) and writing is not None:
                    block.reuse_drawing(writing)
                self.add(block)
            self._item_count = end
            changed = True
        if (agent.writing or agent.reply is not None) and not agent.ended:
            if self._writing is None:
                self._writing = WritingBlock(self.context, agent)
                self.add(self._writing)
                changed = True
        elif self._writing is not None:
            self._remove_writing()
            changed = True
        return changed

    def _clear_if_rewound(self, transcript: list[Item]) -> bool:
        """Remove all blocks after a rewind, which replaces the list of the transcript."""
        before, self._transcript = self._transcript, transcript
        if before is None or before is transcript:
            return False
        self._remove_writing()
        for rows in (self.blocks, self._heights, self._gaps):
            rows.clear()
        self._live.clear()
        self._item_count, self._tops, self._cards = 0, None, []
        return True

    def _fold_cards(self) -> None:
        """Fold the cards: the conversation goes on."""
        for card in self._cards:
            index = self.blocks.index(card)
            card.fold(False)
            self._heights[index] = self._gaps[index] + (card.estimate(self._width) if self._width else 1)
            self._live[index] = None
        self._cards, self._tops = [], None

    def add(self, block: Block) -> None:
        """Append a block."""
        if isinstance(block, CardBlock):
            self._cards.append(block)
        before = self.blocks[-1] if self.blocks else None
        self._gaps.append(0 if before is None or (before.compact and block.compact) else 1)
        self.blocks.append(block)
        self._heights.append(self._gaps[-1] + (block.estimate(self._width) if self._width else 1))
        self._live[len(self.blocks) - 1] = None
        self._tops = None

    def _remove_writing(self) -> None:
        if self._writing is not None:
            at = self.blocks.index(self._writing, max(len(self.blocks) - _NEAR_END, 0))
            self.context.cache.remove(self._writing)
            del self.blocks[at], self._heights[at], self._gaps[at]
            self._live = {(i if i < at else i - 1): known for i, known in self._live.items() if i != at}
            self._writing, self._tops = None, None

    def version(self) -> object:
        """Equal as long as all blocks look the same."""
        live = tuple(self.blocks[index].version() for index in self._live)
        return (len(self.blocks), live, sum(block.open for block in self.blocks))

    def last_reply(self) -> Block | None:
        """The newest reply of the model."""
        return next((block for block in reversed(self.blocks) if isinstance(block, ReplyBlock)), None)

    def set_width(self, width: int) -> None:
        """Estimate all heights for a width in cells. Nothing is drawn."""
        if width != self._width and width > 0:
            self._width = width
            self._heights = [gap + b.estimate(width) for gap, b in zip(self._gaps, self.blocks, strict=True)]
            self._tops = None

    @property
    def tops(self) -> list[int]:
        """The first line of each block, its gap included, and at the end that of the block after the last."""
        if self._tops is None:
            self._tops = list(accumulate(self._heights, initial=0))
        return self._tops

    @property
    def total(self) -> int:
        """The height of all blocks in lines."""
        return self.tops[-1]

    def at(self, y: int) -> tuple[int, int]:
        """(index of the block, line within the block or -1 for its gap) of a line."""
        index = min(max(bisect_right(self.tops, y) - 1, 0), len(self.blocks) - 1)
        return index, y - self.tops[index] - (self._gaps[index] if self.blocks else 0)

    def is_stop(self, y: int) -> bool:
        """Whether the keys that move between entries stop at a line."""
        index, row = self.at(y)
        return row in self.blocks[index].stops

    def top(self, index: int) -> int:
        """The first line of a block below its gap."""
        return self.tops[index] + self._gaps[index]

    def ensure(self, y: int, height: int) -> int:
        """Draw `height` lines from line `y`. Returns by how many lines that range moved down."""
        moved = 0
        if not self.blocks or not self._width:
            return 0
        self.context.cache.begin_pass()
        index = self.at(max(y, 0))[0]
        while index < len(self.blocks) and self.tops[index] < y + moved + height:
            moved += self._measure(index, y + moved)
            index += 1
        return moved

    def _measure(self, index: int, y: int) -> int:
        """Draw a block and correct its height. Returns by how much that moves line `y`."""
        block = self.blocks[index]
        lines = len(block.strips(self._width))
        self.context.cache.touch(block, lines)
        height = self._gaps[index] + lines
        growth = height - self._heights[index]
        if not growth:
            return 0
        above = self.tops[index] < y
        self._heights[index], self._tops = height, None
        return growth if above else 0

    def strip(self, y: int) -> Strip:
        """A line that `ensure` has drawn."""
        if not self.blocks or not 0 <= y < self.total:
            return BLANK
        index, row = self.at(y)
        strips = self.blocks[index].strips(self._width, redraw=False)
        return strips[row] if 0 <= row < len(strips) else BLANK

    def all_strips(self, width: int) -> list[Strip]:
        """All lines, drawn for a width in cells."""
        self.set_width(width)
        out: list[Strip] = []
        for index, (gap, block) in enumerate(zip(self._gaps, self.blocks, strict=True)):
            out += [BLANK] * gap
            out += block.strips(width)
            self._heights[index] = gap + len(block.strips(width))
        self._tops = None
        return out

    def toggle(self, y: int) -> bool:
        """Fold or unfold what is at a line. False if nothing folds there."""
        if not self.blocks:
            return False
        index, row = self.at(y)
        if row < 0 or not self.blocks[index].toggle(row):
            return False
        self._measure(index, 0)
        self._live[index] = None
        return True

    def fold(self, open_: bool) -> None:
        """Unfold everything, or fold it."""
        for block in self.blocks:
            block.fold(open_)
        width, self._width = self._width, 0
        self.set_width(width)

    def agent_at(self, y: int) -> str:
        """The path of the agent that a line is about, "" for none."""
        index, row = self.at(y)
        return self.blocks[index].agent_at(row) if self.blocks and row >= 0 else ""


def _final_result(transcript: list[Item]) -> int:
    """The index of the result that ends a transcript, which only notes follow; its length if there is none."""
    last = next((at for at in range(len(transcript) - 1, -1, -1) if not isinstance(transcript[at], NoteItem)), None)
    return last if last is not None and isinstance(transcript[last], ResultItem) else len(transcript)


def runs(rows: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Group rising numbers into runs: the first number of each, and its length."""
    for _, group in groupby(enumerate(rows), lambda pair: pair[1] - pair[0]):
        run = [row for _, row in group]
        yield run[0], len(run)
