"""The tree of agents: every agent of the session that runs or ran, in two lines each: profile, task and time, then its activity
and what it has used. In a narrow column the activity is kept longest, and of the figures the cost of the whole subtree.

Call `AgentTree.follow()` when an agent has changed or the clock moved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from friday_cli.core.protocol.format import is_demo, seconds, short_cost, tokens
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.view import AgentView
from friday_cli.view.tree import AgentRow, activity_text

from .agent_block import status_mark, status_style
from .blocks import RenderContext
from .styles import Styles
from .transcript_messages import OpenAgent, PromptTyping
from .tree_rows import Branch, Filter, Order, TreeRows

_NEXT_ORDER: dict[Order, Order] = {"start": "cost", "cost": "newest", "newest": "start"}
FILTERS: tuple[Filter, ...] = ("all", "running", "failed", "needs you")
BAR_CELLS = 5
"""Length of the bar of a budget."""
NARROW_ROW = 36
"""Cells below which a row begins with the task; the profile is in its second line, and an unknown cost is left out."""


class AgentTree(PromptTyping, can_focus=True):
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
            text = "No agent has run yet." if not y and self.filter == "all" else ""
            return Strip([Segment(text, self._base_style + self.context.renderer.styles.dim)]).extend_cell_length(
                width, self._base_style
            )
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
    def _selected_together(self) -> str:
        """What the branches have in common whose row is selected; "" for the row of one agent."""
        rows = (branch for agent, branch in self._rows if agent.path == self.selected and branch.paths)
        return next((branch.together for branch in rows), "")

    def action_open(self) -> None:
        if self._selected_together:
            return self.action_fold()
        self.post_message(OpenAgent(self.selected))

    def action_fold(self) -> None:
        self._folded ^= {self._selected_together or self.selected}
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


def draw(context: RenderContext, agent: AgentView, branch: Branch, width: int, now: float) -> list[Strip]:
    """The two lines of an agent; `width` in cells, `now` in Unix seconds."""
    renderer, styles = context.renderer, context.renderer.styles
    if branch.paths:
        return _draw_together(context, branch, width)
    row = AgentRow.of(context.state, agent, now=now)
    top = Text().append(branch.first, style=styles.dim)
    has_branch = row.has_children and not branch.flat
    top.append("▸" if branch.folded else "▾" if has_branch else " ", style=styles.dim)
    top.append(f"{status_mark(agent)} ", style=status_style(agent, renderer))
    if branch.flat:
        top.append(f"{row.path} ", style=styles.dim)
    badges = _badges(agent, styles, branch)
    narrow = width < NARROW_ROW and bool(agent.parent)  # what tells the agents apart comes first
    profile = sanitize_line(row.profile, max(width - top.cell_len - badges.cell_len, 4)) or "friday"
    if narrow:
        top.append_text(Text(badges.plain.strip() + " " if badges else "", style=styles.warn))
        top.append(row.task)
    else:
        top.append(profile, style="bold")
        top.append_text(badges)
        top.append(f" {row.task}", style=styles.dim)
    bottom = Text().append(branch.rest + ("│ " if has_branch and not branch.folded else "  "), style=styles.dim)
    available = width - bottom.cell_len
    style = styles.warn if row.asks else styles.text if not agent.ended else styles.dim
    if agent.ended and (agent.status != "completed" or agent.warned):
        style = status_style(agent, renderer)
    activity = f"{row.activity} · {profile}".removeprefix(" · ") if narrow else row.activity
    kept = min(len(row.activity), max(18, width * 2 // 5)) + bool(activity)
    figures = _figures(row, styles, available - kept, narrow=narrow)
    bottom.append(sanitize_line(activity, max(available - figures.cell_len - 1, 0)), style=style)
    return [
        renderer.line(spread(top, Text(seconds(row.active_s), style=styles.dim), width), width),
        renderer.line(spread(bottom, figures, width), width),
    ]


def _badges(agent: AgentView, styles: Styles, branch: Branch) -> Text:
    badges = Text()
    if agent.asks or branch.asked:
        badges.append(" needs you", style=styles.warn)
    if agent.background:
        badges.append(" bg", style=styles.accent)
    if has_pending_worktree(agent):
        badges.append(" worktree", style=styles.warn)
    if branch.folded:
        badges.append(f" +{branch.hidden}", style=styles.dim)
    return badges


def spread(left: Text, right: Text, width: int) -> Text:
    """Both texts in one line, the second at its end."""
    left = left.copy()
    left.truncate(max(width - right.cell_len - bool(right), 1), overflow="ellipsis", pad=True)
    return left.append_text(Text(" ") + right) if right else left


def _draw_together(context: RenderContext, branch: Branch, width: int) -> list[Strip]:
    """The two lines of several branches: how many agents, and what they used."""
    state, styles = context.state, context.renderer.styles
    agents = [
        a for path, a in state.agents.items() if any(path == one or path.startswith(f"{one}.") for one in branch.paths)
    ]
    usage = sum((state.usage_of(path) for path in branch.paths), Usage())
    failed = sum(agent.status not in ("completed", "cancelled") for agent in agents)
    top = Text(f"{branch.first}▸", style=styles.dim).append(f"{len(agents)} {branch.together}", style=styles.text)
    top.append(f" · {failed} failed" if failed else "", style=styles.error)
    price = "" if usage.cost_usd is None or is_demo(agents[0].model) else f" · {short_cost(usage)}"
    top.append(f" · {tokens(usage)} tok{price}", style=styles.dim)
    bottom = Text(f"{branch.rest} Space unfolds", style=styles.dim)
    return [context.renderer.line(line, width) for line in (top, bottom)]


def _figures(row: AgentRow, styles: Styles, width: int, *, narrow: bool) -> Text:
    """Tokens and cost of the agent, those of its subtree after Σ, and a bar of its budget: as much as fits into `width`."""
    own, subtree, has_children = row.own, row.tree, row.has_children
    count, price = (
        (f"Σ{tokens(subtree)}", f"Σ{short_cost(subtree)}") if has_children else (tokens(own), short_cost(own))
    )
    demo = is_demo(row.model)
    unknown = narrow and (subtree if has_children else own).cost_usd is None
    prices = [] if demo or unknown else [price]
    variants = [[count, *prices], prices or [count]]
    if has_children:
        both = price if subtree.cost_usd is None else f"{short_cost(own)} {price}"
        variants.insert(0, [f"{tokens(own)} {count}", *([] if demo else [both])])
    share = row.budget_share
    for with_bar in (True, False) if share is not None else (False,):
        for parts in variants:
            text = Text(" · ".join(parts), style=styles.dim)
            if with_bar and share is not None:
                text.append(" ").append_text(_budget_bar(share, styles))
            if text.cell_len < width:
                return text
    return Text()


def has_pending_worktree(agent: AgentView) -> bool:
    """Whether the agent left changes in a worktree that the user has not decided on."""
    return agent.ended and agent.worktree is not None and agent.worktree.state == "changed"


def _budget_bar(share: float, styles: Styles) -> Text:
    """A bar of `BAR_CELLS` cells for a share from 0 to 1. Its colour warns when little is left."""
    count = round(share * BAR_CELLS)
    text = Text("█" * count, style=styles.ok if share < 0.7 else styles.warn if share < 0.9 else styles.error)
    return text.append("░" * (BAR_CELLS - count), style=styles.dim)
