"""The tree of agents: every agent of the session that runs or ran, two lines each.

Call `AgentTree.follow()` when an agent is dirty or the clock moved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from friday_cli.view import AgentView, activity_text

from .agent_row import Branch, draw
from .blocks import RenderContext
from .transcript_messages import OpenAgent
from .tree_rows import EARLIER, Filter, Order, TreeRows

_NEXT_ORDER: dict[Order, Order] = {"start": "cost", "cost": "newest", "newest": "start"}
FILTERS: tuple[Filter, ...] = ("all", "running", "failed", "needs you")


class AgentTree(ScrollView, can_focus=True):
    """The tree of all agents of the session, two lines each. `selected` is the path of the agent under the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Agent above", show=False, id="tree.up"),
        Binding("down,j", "move(1)", "Agent below", show=False, id="tree.down"),
        Binding("home", "move(-10000)", "First agent", show=False, id="tree.home"),
        Binding("end", "move(10000)", "Last agent", show=False, id="tree.end"),
        Binding("enter,o", "open", "Open its transcript; again: full screen", id="tree.open"),
        Binding("space,left,right", "fold", "Fold or unfold its sub-agents", id="tree.fold"),
        Binding("f", "filter", "Show all, running, failed, or those that need you", id="tree.filter"),
        Binding("s", "sort", "Sort by start, by cost, or the newest first", id="tree.sort"),
        Binding("a", "answer", "Answer its question", id="tree.answer"),
    ]

    @dataclass
    class AgentMessage(Message):
        """A message about the agent at `path`."""

        path: str

    class AgentSelected(AgentMessage):
        """The user moved the cursor to it."""

    class FilterOrOrderChanged(Message):
        """The filter or the order changed, and with it `description`."""

    class AnswerRequested(AgentMessage):
        """The user wants to answer its question."""

    def __init__(self, context: RenderContext, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.context = context
        self.selected = "a"
        self.filter: Filter = "all"
        self.order: Order = "start"
        self._folded: set[str] = set()
        self._rows: list[tuple[AgentView, Branch]] = []
        self._base_style = Style()
        self._cache: dict[str, tuple[object, list[Strip]]] = {}
        """The lines of each agent with the key they were drawn for, by path."""
        self._visible: dict[int, tuple[bool, list[Strip]]] = {}
        """What is on the screen, by row: whether it is selected, and its lines."""

    def follow(self) -> None:
        """Update the rows. Only rows that changed are drawn again."""
        self._rows = TreeRows(self.context.state, filter=self.filter, order=self.order, folded=self._folded).rows()
        size = Size(self.scrollable_content_region.width, 2 * len(self._rows))
        if size != self.virtual_size:
            self.virtual_size = size
        self._refresh_changed()

    @property
    def paths(self) -> list[str]:
        """The paths of the listed agents, from the top."""
        return [agent.path for agent, _ in self._rows]

    def _refresh_changed(self) -> None:
        """Refresh the visible rows that look different."""
        top, width = int(self.scroll_y) // 2, self.scrollable_content_region.width
        shown = self._rows[top : top + self.size.height // 2 + 1]
        for number, (agent, branch) in enumerate(shown, top):
            if self._visible.get(number) != (agent.path == self.selected, self._row(agent, branch, width)):
                self.refresh_lines(2 * number, 2)

    @property
    def description(self) -> str:
        """The filter and the order, "" for all agents by start."""
        parts = [] if self.filter == "all" else [f"{self.filter}: {len(self._rows)}"]
        return " · ".join([*parts, *([] if self.order == "start" else [f"by {self.order}"])])

    def reset(self, context: RenderContext) -> None:
        """Show another session."""
        self.context, self.selected = context, "a"
        self._folded, self._cache = set(), {}
        self.follow()

    def redraw(self) -> None:
        """Draw everything again: the styles have changed."""
        self._cache = {}
        self.refresh()

    def render_lines(self, crop: Region) -> list[Strip]:
        self._base_style = self.rich_style
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        number, row = divmod(int(self.scroll_y) + y, 2)
        width = self.scrollable_content_region.width  # without the scrollbar
        if number >= len(self._rows):
            self._visible.pop(number, None)
            return Strip.blank(width, self._base_style)
        agent, branch = self._rows[number]
        strips = self._row(agent, branch, width)
        self._visible[number] = (agent.path == self.selected, strips)
        strip = strips[row]
        if agent.path == self.selected:
            selected = self.context.renderer.styles.selected
            return strip.extend_cell_length(width).apply_style(self._base_style + selected)
        return strip.extend_cell_length(width).apply_style(self._base_style)

    def _row(self, agent: AgentView, branch: Branch, width: int) -> list[Strip]:
        now = self.context.now()
        clock = 0 if agent.ended else int(now)
        usage = self.context.state.usage_of(agent.path)
        key = (
            width,
            branch,
            id(self.context.renderer),
            agent.status,
            agent.waiting,
            agent.run,
            usage,
            clock,
            agent.background,
            len(agent.children),
            len(agent.asks),
            agent.task,
            id(agent.current) if agent.current else 0,
            agent.worktree,
            activity_text(self.context.state, agent, now),
        )
        known = self._cache.get(agent.path)
        if known is None or known[0] != key:
            lines = draw(self.context, agent, branch, width, now)
            known = self._cache[agent.path] = (key, lines)
        return known[1]

    def select(self, path: str) -> None:
        """Put the cursor on an agent."""
        self.selected = path
        if path in self.paths and self.is_mounted:
            index = self.paths.index(path)
            height = self.scrollable_content_region.height
            if not self.scroll_y <= 2 * index <= self.scroll_y + height - 2:
                self.scroll_to(y=max(2 * index - height // 2, 0), animate=False)
        self.refresh()

    def action_move(self, by: int) -> None:
        if not (paths := self.paths):
            return
        current = paths.index(self.selected) if self.selected in paths else 0
        self.select(paths[min(max(current + by, 0), len(paths) - 1)])
        self.post_message(self.AgentSelected(self.selected))

    def on_click(self, event: events.Click) -> None:
        number = (int(self.scroll_y) + event.get_content_offset_capture(self).y) // 2
        if 0 <= number < len(self._rows):
            path = self._rows[number][0].path
            self.select(path)
            self.post_message(OpenAgent(path) if event.chain > 1 else self.AgentSelected(path))

    @property
    def _on_earlier(self) -> bool:
        """Whether the cursor is on the row of earlier branches."""
        return any(agent.path == self.selected and branch.earlier for agent, branch in self._rows)

    def action_open(self) -> None:
        if self._on_earlier:
            return self.action_fold()
        self.post_message(OpenAgent(self.selected))

    def action_fold(self) -> None:
        self._folded ^= {EARLIER if self._on_earlier else self.selected}
        self.follow()

    def action_filter(self) -> None:
        self.filter = FILTERS[(FILTERS.index(self.filter) + 1) % len(FILTERS)]
        self.follow()
        if (paths := self.paths) and self.selected not in paths:
            self.select(paths[0])
        self.post_message(self.FilterOrOrderChanged())

    def action_sort(self) -> None:
        self.order = _NEXT_ORDER[self.order]
        self.follow()
        self.post_message(self.FilterOrOrderChanged())

    def action_answer(self) -> None:
        self.post_message(self.AnswerRequested(self.selected))
