"""The side panel: the tree of agents above, the transcript of the selected sub-agent below.

Until the user moves the cursor, the panel selects the sub-agent that asks first, or else the newest running one. On a low screen it shows the tree
or the transcript, not both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widget import Widget
from textual.widgets import Static

from friday_cli.core.protocol.agent_path import depth_of
from friday_cli.core.text.sanitize import sanitize, sanitize_line
from friday_cli.view import AgentView, SessionView

from ..state import preferences
from . import NARROW, WIDE
from .agent_block import status_style, summary
from .agent_tree import AgentTree, has_pending_worktree
from .blocks import RenderContext
from .chat_request import AgentAction, AgentRequest
from .styles import Styles
from .transcript import Transcript

MIN_PANEL, MIN_CHAT = 28, 40
"""Cells that the panel has at least, and that it leaves to the chat."""
LOW = 14
"""Rows below which the panel shows the tree or a transcript, not both."""


class AgentPanel(Vertical):
    """The side panel: the tree of agents above, the transcript of the selected sub-agent below. `child` is the path of the sub-agent whose transcript is open, "" for none."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "request('cancel')", "Stop: it hands back what it has", id="agent.cancel"),
        Binding("X", "request('abort')", "Stop at once, without a report", id="agent.abort"),
        Binding("m", "request('write')", "Write to it; an ended one resumes", id="agent.message"),
        Binding("t", "request('take_over')", "Take it over: it works with you until /handback", id="agent.take_over"),
        Binding("b", "request('background')", "Continue it in the background", id="agent.background"),
        Binding(
            "w", "request('decide_worktree')", "Its worktree: apply, discard, or keep the branch", id="agent.worktree"
        ),
        Binding("r,c", "request('copy_result')", "Copy its result", id="agent.copy"),
    ]

    def __init__(self, context: RenderContext, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.context = context
        self.child = ""
        self.resizer = PanelResizer(self)
        self._user_selected = False
        """Whether the user moved the cursor: the panel no longer selects agents by itself."""

    def compose(self) -> ComposeResult:
        yield Static(id="tree-head")
        yield AgentTree(self.context, id="tree")
        with Vertical(id="child"):
            yield ChildHeader(id="child-head")
            yield Transcript(self.context, "", id="child-log")

    @property
    def agents(self) -> AgentTree:
        return self.query_one(AgentTree)

    @property
    def log_view(self) -> Transcript:
        return self.query_one("#child-log", Transcript)

    @property
    def inside(self) -> bool:
        """Whether the transcript of the sub-agent has the focus."""
        return self.log_view.has_focus

    @property
    def in_hand(self) -> str:
        """The path of the agent that keys act on."""
        return self.child if self.inside else self.agents.selected

    def follow(self, dirty: Iterable[str]) -> None:
        """Show what is new below the tree. `dirty` are the paths of the agents that look different."""
        if self.size.height and (self.size.height < LOW) != self.has_class("short"):
            self.on_resize()  # a panel that becomes visible gets no event if its size was read before
        idle = not (self._user_selected or self.agents.has_focus or self.inside)
        if idle and (path := _wanted(self.context.state, self.child)):
            self._show(path)
        if self.child:
            self._update_header()
            if self.child in dirty or any(path.startswith(self.child + ".") for path in dirty):
                self.log_view.follow()

    def open(self, path: str) -> None:
        """Select an agent for the user, and show its transcript if it is a sub-agent."""
        self._user_selected = True
        self.agents.select(path)
        if depth_of(path):
            self._show(path)
        else:
            self.close_child()

    def _show(self, path: str) -> None:
        self.child = path
        self.agents.select(path)
        self.add_class("with-child")
        self._arrange()
        self._update_header()
        self.log_view.show(path)
        self.log_view.follow()

    def _update_header(self) -> None:
        if (agent := self.context.state.agents.get(self.child)) is not None:
            header = self.query_one(ChildHeader)
            log = self.log_view
            whole = log.blocks.path == self.child and log.size.height > 0 and log.max_scroll_y == 0
            header.show(self.context, agent, self.size.width - 3, full=self.has_class("full"), whole=whole)

    def close_child(self) -> None:
        """Show the tree alone."""
        self.child = ""
        self.remove_class("with-child")
        self._arrange()

    def reset(self, context: RenderContext) -> None:
        """Show another session."""
        self.context, self._user_selected = context, False
        self.close_child()
        self.agents.reset(context)
        self.log_view.reset(context)

    def redraw(self) -> None:
        """Draw everything again: the styles have changed."""
        self.agents.redraw()
        self.log_view.redraw()
        self._update_header()

    def action_request(self, action: AgentAction) -> None:
        """Request an action on the agent that keys act on."""
        self.post_message(AgentRequest(self.in_hand, action))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self.resizer.start_drag(event)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self.resizer.drag(event)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        if self.resizer.end_drag():
            preferences.keep(side=self.region.width)

    def fill(self, full: bool) -> None:
        """Fill the screen, or end that."""
        self.set_class(full, "full")
        self.resizer.fit()
        self._arrange()

    def enter_child(self) -> None:
        """Focus the transcript that is open."""
        self._arrange(inside=True)
        self.log_view.focus()

    def enter_tree(self) -> None:
        """Focus the tree. The panel no longer fills the screen."""
        self.fill(False)
        self._arrange(inside=False)
        self.agents.focus()

    @property
    def alone(self) -> bool:
        """Whether a transcript is shown in place of the tree because the screen is low."""
        return self.has_class("short") and self.inside and not self.has_class("full")

    def _arrange(self, *, inside: bool | None = None) -> None:
        inside = self.inside if inside is None else inside
        full, short = self.has_class("full"), self.has_class("short")
        self.query_one("#child").display = bool(self.child) and (inside or full or not short)
        self.agents.display = not (self.child and (full or (short and inside)))
        self.query_one("#tree-head").display = self.agents.display and bool(self.agents.description)

    def on_agent_tree_filter_or_order_changed(self) -> None:
        self._arrange()
        text = Text(self.agents.description, style=self.context.renderer.styles.warn, no_wrap=True, overflow="ellipsis")
        self.query_one("#tree-head", Static).update(text)

    def on_descendant_focus(self) -> None:
        if self.query("#child-log"):  # the focus is lost, too, when the panel is removed
            self._arrange()

    on_descendant_blur = on_descendant_focus

    def on_resize(self) -> None:
        self.set_class(self.size.height < LOW, "short")
        self._arrange()
        self._update_header()


def _wanted(state: SessionView, shown: str) -> str:
    """The path of the sub-agent with the oldest question, or of the newest running one, unless the one that is shown runs, too.
    "" for no change."""
    if asking := next((ask.agent for ask in state.asks.values() if depth_of(ask.agent)), ""):
        return asking if asking != shown else ""
    running = [agent.path for agent in state.working if depth_of(agent.path)]
    if running and shown not in running:
        return running[-1]
    if not running and not shown and len(state.agents) > 1:  # it ended before the panel followed the session
        return list(state.agents)[-1]
    return ""


class PanelResizer:
    """The width of the panel: chosen by key or by dragging its border, and limited by the room that the chat needs.

    `chosen` is the width that the user chose, in cells; 0 for none.
    """

    def __init__(self, panel: Widget) -> None:
        self._panel = panel
        self.chosen = 0
        self._fitted: int | None = None
        self._dragging = False

    @property
    def _fills_screen(self) -> bool:
        return self._panel.has_class("full") or self._panel.app.size.width < NARROW

    @property
    def _limit(self) -> int:
        return max(self._panel.app.size.width - MIN_CHAT, MIN_PANEL)

    def resize(self, width: int) -> int:
        """Choose a width in cells. Returns the width within the limits; a panel that fills the screen keeps its own."""
        if not self._fills_screen:
            self.chosen = min(max(width, MIN_PANEL), self._limit)
            self.fit()
        return self.chosen

    def fit(self) -> None:
        """Apply the chosen width, as far as the screen has room for it, or else 34 to 40 cells beside the chat."""
        screen = self._panel.app.size.width
        wanted = self.chosen or (min(max(screen * 34 // 100, 34), 40) if screen >= WIDE else 0)
        width = min(wanted, self._limit) if wanted and not self._fills_screen else None
        if width != self._fitted:  # setting even the same width makes a new layout of the screen
            self._panel.styles.width = self._fitted = width

    def start_drag(self, event: events.MouseDown) -> None:
        """Begin to drag if the left border was pressed."""
        if event.screen_x == self._panel.region.x and event.button == 1 and not self._fills_screen:
            self._dragging = True
            self._panel.capture_mouse()

    def drag(self, event: events.MouseMove) -> None:
        if self._dragging:
            self.resize(self._panel.region.right - event.screen_x)

    def end_drag(self) -> bool:
        """End to drag. False if nothing was dragged."""
        dragged, self._dragging = self._dragging, False
        if dragged:
            self._panel.release_mouse()
        return dragged


class ChildHeader(Static):
    """The lines above the transcript of a sub-agent: who it is, its status, its task, what it has used, its warnings and
    its receipt. A click folds or unfolds the receipt; on the full screen it is unfolded without one."""

    _text = Text()
    _unfolded = False
    _chosen: bool | None = None
    """Whether the user unfolded or folded the receipt by a click."""
    _again: Callable[[], None] | None = None

    def show(self, context: RenderContext, agent: AgentView, width: int, *, full: bool, whole: bool) -> None:
        """Show an agent in `width` cells. Its usage has its own line if the first is too short (a `full` panel shows both). `whole`: all of
        its transcript is on the screen, which begins with the task."""
        self._unfolded = full if self._chosen is None else self._chosen
        self._again = partial(self.show, context, agent, width, full=full, whole=whole)
        styles, renderer = context.renderer.styles, context.renderer
        text = Text(no_wrap=True, overflow="ellipsis")
        text.append(f"[{sanitize_line(agent.profile, 40)}] ", style=styles.accent)
        text.append(agent.path, style="bold")
        text.append(" · worktree: w" if has_pending_worktree(agent) else "", style=styles.warn)
        text.append(" · ", style=styles.dim)
        status, usage = summary(context.state, agent, context.now())
        text.append(status, style=status_style(agent, renderer))
        fits = text.cell_len + 3 + len(usage) <= width
        if fits or full:
            text.append(f" · {usage}", style=styles.dim)
        task = [strip.text for strip in renderer.wrap(Text(sanitize_line(sanitize(agent.task), 300)), width)] or [""]
        if fits and len(task) > 2:
            task = [task[0], f"{task[1]}…"]
        told = task[:2] if fits else [f"{task[0]}…" if len(task) > 1 else task[0]]
        rows = [Text(row, style=styles.dim) for row in (*(() if whole else told), *(() if fits else (usage,)))]
        queued = [message.text for message in agent.queued if message.source == "person"]
        if queued and not agent.ended:
            rows.insert(0, Text(f"» at its next turn: {sanitize_line(queued[-1], 200)}", style=styles.accent))
        rows = [text, *rows][: 2 if self.screen.has_class("-low") else 3]
        if agent.ended or agent.receipt.tools:
            rows += self._evidence(agent, styles, unfolded=self._unfolded)
        for row in rows:
            row.truncate(width, overflow="ellipsis")
        text = Text("\n", no_wrap=True).join(rows)
        if text != self._text:
            self._text = text
            self.styles.height = len(rows)
            self.update(text, layout=False)

    def _evidence(self, agent: AgentView, styles: Styles, *, unfolded: bool) -> list[Text]:
        """The warnings in one line and the receipt, which leaves most of the panel to the transcript."""
        warnings = "; ".join(agent.receipt.warnings)
        rows = [Text(f"! {sanitize_line(warnings, 500)}", style=styles.warn)] if warnings else []
        rows.append(Text(f"{'▾' if unfolded else '▸'} {sanitize_line(agent.receipt.short(), 500)}", style=styles.dim))
        facts = agent.receipt.facts() if unfolded else []
        most = max(self.screen.size.height // 4, 2)
        if len(facts) > most:
            facts = [*facts[: most - 1], f"… {len(facts) - most + 1} more lines: see the end of the transcript"]
        return [*rows, *(Text(f"  {sanitize_line(fact, 500)}", style=styles.dim) for fact in facts)]

    def on_click(self) -> None:
        if self._again is not None:
            self._chosen = not self._unfolded
            self._again()
