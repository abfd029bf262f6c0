"""The side panel: the tree of agents above, the transcript of the selected sub-agent below.

The panel selects the newest running sub-agent by itself until the user moves the cursor. On a low screen it shows the tree
or the transcript, not both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Static

from friday_cli.core.protocol.agent_path import depth_of
from friday_cli.view import SessionView

from ..state import preferences
from .agent_tree import AgentTree
from .blocks import RenderContext
from .child_header import ChildHeader
from .panel_resizer import PanelResizer
from .transcript import Transcript

LOW = 14
"""Rows below which the panel shows the tree or a transcript, not both."""


class AgentPanel(Vertical):
    """See the module. `child` is the path of the sub-agent whose transcript is open, "" for none."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "request('stop', 'cancel')", "Cancel: it returns what it has", id="agent.cancel"),
        Binding("X", "request('stop', 'abort')", "Abort: it ends now", id="agent.abort"),
        Binding("m", "request('write')", "Write to it; an ended one resumes", id="agent.message"),
        Binding("b", "request('background')", "Continue it in the background", id="agent.background"),
        Binding(
            "w", "request('decide_worktree')", "Its worktree: apply, discard, or keep the branch", id="agent.worktree"
        ),
        Binding("r,c", "request('copy_result')", "Copy its result", id="agent.copy"),
    ]

    @dataclass
    class ActionRequested(AgentTree.AgentMessage):
        """The user wants to do something to the agent; `action` is the name of a method of `AgentActions`."""

        action: str
        arguments: tuple[str, ...] = ()

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
        """Show what is new. `dirty` are the paths of the agents that look different."""
        if self.size.height and (self.size.height < LOW) != self.has_class("short"):
            self.on_resize()  # a panel that becomes visible gets no event if its size was read before
        self.agents.follow()
        idle = not (self._user_selected or self.agents.has_focus or self.inside)
        if idle and (path := _newest(self.context.state, self.child)):
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
            header.show(self.context, agent, self.size.width - 3, full=self.has_class("full"))

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

    def action_request(self, action: str, *arguments: str) -> None:
        """Request an action on the agent that keys act on."""
        self.post_message(self.ActionRequested(self.in_hand, action, arguments))

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

    def on_agent_tree_arranged(self) -> None:
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


def _newest(state: SessionView, shown: str) -> str:
    """The path of the newest running sub-agent, unless the one that is shown runs, too. "" for no change."""
    running = [agent.path for agent in state.working if depth_of(agent.path)]
    if running and shown not in running:
        return running[-1]
    if not running and not shown and len(state.agents) > 1:  # it ended before the panel followed the session
        return list(state.agents)[-1]
    return ""
