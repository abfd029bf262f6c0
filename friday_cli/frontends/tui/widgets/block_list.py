"""The blocks of one agent, one below the other, with an index of their heights.

Heights of blocks that were never drawn are guesses; `ensure` draws a stretch and tells how much the lines above it moved.
Interface: `Column(scene, path)`, `follow()`, `lay(width)`, `total`, `strip(y)`, `at(y)`, `top(index)`, `ensure(...)`,
`toggle(y)`, `every(width)`, `add(block)`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate

from textual.strip import Strip

from friday_cli.view import AgentView, Item

from .blocks import Block, RenderContext, ReplyBlock, WritingBlock

BLANK = Strip.blank(0)


class BlockList:
    """What an agent and its person said and did, as blocks. `path` names the agent."""

    def __init__(self, scene: RenderContext, path: str) -> None:
        self.scene = scene
        self.path = path
        self.blocks: list[Block] = []
        self._taken = 0
        self._shown: list[Item] | None = None
        self._live: dict[int, object] = {}
        """Blocks that can still change, by index, with how they looked."""
        self._writing: WritingBlock | None = None
        self._width = 0
        self._heights: list[int] = []
        self._gaps: list[int] = []
        self._tops: list[int] | None = None

    @property
    def agent(self) -> AgentView | None:
        return self.scene.state.agents.get(self.path)

    # ---- what is in it -----------------------------------------------------------

    def follow(self) -> bool:
        """Take in what the agent has done since; whether anything looks different."""
        changed = self._take_in(self.agent) if self.agent is not None else False
        for index, looked in list(self._live.items()):
            block = self.blocks[index]
            if (sign := block.version()) != looked:
                self._live[index], changed = sign, True
            elif block.done:
                del self._live[index]
        return changed

    def _take_in(self, agent: AgentView) -> bool:
        """Make blocks of what is new in an agent's transcript; whether there was any."""
        changed = self._start_over(agent.transcript)
        if self._taken < len(agent.transcript):
            writing = self._writing
            self._pop_writing()
            for item in agent.transcript[self._taken :]:
                block = self.scene.make(self.scene, item)
                if isinstance(block, ReplyBlock) and writing is not None:
                    block.go_on(writing)
                self.add(block)
            self._taken = len(agent.transcript)
            changed = True
        if (agent.writing or agent.reply is not None) and not agent.ended:
            if self._writing is None:
                self._writing = WritingBlock(self.scene, agent)
                self.add(self._writing)
                changed = True
        elif self._writing is not None:
            self._pop_writing()
            changed = True
        return changed

    def _start_over(self, transcript: list[Item]) -> bool:
        """Forget all blocks where the conversation was rewound, whose transcript is another list then."""
        before, self._shown = self._shown, transcript
        if before is None or before is transcript:
            return False
        self._pop_writing()
        for rows in (self.blocks, self._heights, self._gaps):
            rows.clear()
        self._live.clear()
        self._taken, self._tops = 0, None
        return True

    def add(self, block: Block) -> None:
        """Put a block at the end."""
        before = self.blocks[-1] if self.blocks else None
        self._gaps.append(0 if before is None or (before.compact and block.compact) else 1)
        self.blocks.append(block)
        self._heights.append(self._gaps[-1] + (block.guess(self._width) if self._width else 1))
        self._live[len(self.blocks) - 1] = None
        self._tops = None

    def _pop_writing(self) -> None:
        if self._writing is not None:
            at = self.blocks.index(self._writing, max(len(self.blocks) - 8, 0))
            self.scene.recent.drop(self._writing)
            del self.blocks[at], self._heights[at], self._gaps[at]
            self._live = {(i if i < at else i - 1): sign for i, sign in self._live.items() if i != at}
            self._writing, self._tops = None, None

    def version(self) -> object:
        """Equal as long as all of it looks the same."""
        live = tuple(self.blocks[index].version() for index in self._live)
        return (len(self.blocks), live, sum(block.open for block in self.blocks))

    # ---- where it is --------------------------------------------------------------

    def lay(self, width: int) -> None:
        """Forget what was drawn for another width; nothing is drawn."""
        if width != self._width and width > 0:
            self._width = width
            self._heights = [gap + b.guess(width) for gap, b in zip(self._gaps, self.blocks, strict=True)]
            self._tops = None

    @property
    def tops(self) -> list[int]:
        """Where each block begins, and at the end where the next would."""
        if self._tops is None:
            self._tops = list(accumulate(self._heights, initial=0))
        return self._tops

    @property
    def total(self) -> int:
        return self.tops[-1]

    def at(self, y: int) -> tuple[int, int]:
        """(index, line within the block, -1 for its gap) of a line."""
        index = min(max(bisect_right(self.tops, y) - 1, 0), len(self.blocks) - 1)
        return index, y - self.tops[index] - (self._gaps[index] if self.blocks else 0)

    def top(self, index: int) -> int:
        """Where the words of a block begin."""
        return self.tops[index] + self._gaps[index]

    def ensure(self, y: int, height: int) -> int:
        """Draw what lies in `height` lines from `y`; gives by how much that stretch moved down."""
        moved = 0
        if not self.blocks or not self._width:
            return 0
        self.scene.recent.look()
        index = self.at(max(y, 0))[0]
        while index < len(self.blocks) and self.tops[index] < y + moved + height:
            moved += self._measure(index, y + moved)
            index += 1
        return moved

    def _measure(self, index: int, y: int) -> int:
        """Draw a block and note its height; what stands above line `y` pushes it."""
        block = self.blocks[index]
        lines = len(block.strips(self._width))
        self.scene.recent.note(block, lines)
        height = self._gaps[index] + lines
        more = height - self._heights[index]
        if not more:
            return 0
        above = self.tops[index] < y
        self._heights[index], self._tops = height, None
        return more if above else 0

    def strip(self, y: int) -> Strip:
        """A line, drawn before by `ensure`."""
        if not self.blocks or not 0 <= y < self.total:
            return BLANK
        index, row = self.at(y)
        strips = self.blocks[index].drawn(self._width)
        return strips[row] if 0 <= row < len(strips) else BLANK

    # ---- what a person does with it -------------------------------------------------

    def toggle(self, y: int) -> bool:
        """Fold or unfold what stands at a line."""
        if not self.blocks:
            return False
        index, row = self.at(y)
        if row < 0 or not self.blocks[index].toggle(row):
            return False
        self._measure(index, 0)
        self._live[index] = None
        return True

    def fold(self, open_: bool) -> None:
        """Fold or unfold everything."""
        for block in self.blocks:
            block.fold(open_)
        width, self._width = self._width, 0
        self.lay(width)

    def agent_at(self, y: int) -> str:
        index, row = self.at(y)
        return self.blocks[index].agent_at(row) if self.blocks and row >= 0 else ""

    def every(self, width: int) -> list[Strip]:
        """All lines, drawn."""
        self.lay(width)
        out: list[Strip] = []
        for index, (gap, block) in enumerate(zip(self._gaps, self.blocks, strict=True)):
            out += [BLANK] * gap
            out += block.strips(width)
            self._heights[index] = gap + len(block.strips(width))
        self._tops = None
        return out

    def find(self, wanted: Iterable[int], y: int) -> int | None:
        """The first of the block indexes `wanted` that begins below line `y`."""
        return next((index for index in wanted if self.top(index) > y), None)


def runs(rows: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Rising numbers as stretches: the first of each, and how many."""
    first = count = 0
    for row in rows:
        if count and row == first + count:
            count += 1
            continue
        if count:
            yield first, count
        first, count = row, 1
    if count:
        yield first, count
