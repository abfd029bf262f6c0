"""The side pane: the tree of agents above, the transcript of the chosen one below.

Interface: `Side(scene)`, `follow(dirty)`, `open(path)`, `close_child()`, `child` (the path that is open, "" for none),
`inside` (whether the child's transcript has the keys), `in_hand`. Messages: `Stop(path, level)`, `Write(path)`,
`Background(path)`, `Copy(path)`, `Apart(path)` its worktree is to be decided on, `Widened(width)` the border was
dragged. The pane picks the newest sub-agent by itself until a person moves the cursor.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Static

from friday_cli.core.protocol.agent_path import depth_of
from friday_cli.core.text.sanitize import sanitize, sanitize_line

from .agent_block import status_style, summary
from .agent_row import waits_apart
from .agent_tree import AgentTree
from .blocks import RenderContext
from .selection import TranscriptReader

NARROWEST, CHAT = 28, 40
"""Cells that the pane has at least, and that it leaves to the chat."""
SHORT = 14
"""Rows below which the pane shows the tree or a transcript, not both."""


class AgentPanel(Vertical):
    """See the module."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "stop('cancel')", "Cancel: it hands back what it has", id="agent.cancel"),
        Binding("X", "stop('abort')", "Abort: it ends now", id="agent.abort"),
        Binding("m", "write", "Write to it; one that has ended goes on", id="agent.message"),
        Binding("b", "background", "Let it go on in the background", id="agent.background"),
        Binding("w", "apart", "Its worktree: apply, discard, or keep the branch", id="agent.worktree"),
        Binding("r,c", "copy", "Copy its result", id="agent.copy"),
    ]

    class StopRequested(AgentTree.AgentMessage):
        """It should end; `level` is cancel or abort."""

        def __init__(self, path: str, level: Literal["cancel", "abort"]) -> None:
            self.level = level
            super().__init__(path)

    class WriteRequested(AgentTree.AgentMessage):
        """A person wants to write to it."""

    class BackgroundRequested(AgentTree.AgentMessage):
        """It should go on in the background."""

    class WorktreeDecision(AgentTree.AgentMessage):
        """What becomes of its worktree is to be decided."""

    class CopyResult(AgentTree.AgentMessage):
        """Its result is wanted on the clipboard."""

    class Widened(Message):
        """The person dragged the border; `width` in cells."""

        def __init__(self, width: int) -> None:
            self.width = width
            super().__init__()

    def __init__(self, scene: RenderContext, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.scene = scene
        self.child = ""
        self.chosen = 0
        """The width that the person chose, in cells; 0 for none."""
        self._fitted: int | None = None
        self._own_choice = False
        self._dragged = False
        self._headed = Text()

    def compose(self) -> ComposeResult:
        yield Static(id="tree-head")
        yield AgentTree(self.scene, id="tree")
        with Vertical(id="child"):
            yield Static(id="child-head")
            yield TranscriptReader(self.scene, "", id="child-log")

    @property
    def agents(self) -> AgentTree:
        return self.query_one(AgentTree)

    @property
    def log_view(self) -> TranscriptReader:
        return self.query_one("#child-log", TranscriptReader)

    @property
    def inside(self) -> bool:
        return self.log_view.has_focus

    def follow(self, dirty: Iterable[str]) -> None:
        """Show what is new; `dirty` are the agents that look different."""
        self._see_room()
        self.agents.follow()
        if not self._own_choice:
            self._choose()
        if self.child:
            self._head()
            if self.child in dirty or any(path.startswith(self.child + ".") for path in dirty):
                self.log_view.follow()

    def _choose(self) -> None:
        """The newest sub-agent at work, while the person has not chosen."""
        if self.agents.has_focus or self.log_view.has_focus:
            return  # a person is looking at it
        state = self.scene.state
        working = [agent.path for agent in state.working if depth_of(agent.path)]
        if working and self.child not in working:
            self._show(working[-1])
        elif not self.child and len(state.agents) > 1:  # it was quicker than the eye
            self._show(list(state.agents)[-1])

    def open(self, path: str, *, own: bool = True) -> None:
        """Show the transcript of an agent below the tree; the root has its own place."""
        self._own_choice = own
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
        self._head()
        self.log_view.show(path)
        self.log_view.follow()

    def close_child(self) -> None:
        """Show the tree alone."""
        self.child = ""
        self.remove_class("with-child")
        self._arrange()

    def reset(self, scene: RenderContext) -> None:
        """Begin anew with another session."""
        self.scene, self._own_choice = scene, False
        self.close_child()
        self.agents.reset(scene)
        self.log_view.reset(scene)

    def redraw(self) -> None:
        """The look has changed."""
        self.agents.redraw()
        self.log_view.redraw()
        if self.child:
            self._head()

    def _head(self) -> None:
        """Who it is and how it stands, its task, and what it has used where that has no room in the first line."""
        agent = self.scene.state.agents.get(self.child)
        if agent is None:
            return
        pen, look, room = self.scene.pen, self.scene.pen.look, self.size.width - 3
        text = Text(no_wrap=True, overflow="ellipsis")
        text.append(f"[{sanitize_line(agent.profile, 40)}] ", style=look.accent)
        text.append(agent.path, style="bold")
        text.append(" · worktree waits: w" if waits_apart(agent) else "", style=look.warn)
        text.append(" · ", style=look.dim)
        status, figures = summary(self.scene.state, agent, self.scene.now())
        text.append(status, style=status_style(agent, pen))
        one = text.cell_len + 3 + len(figures) <= room
        if one or self.has_class("full"):
            text.append(f" · {figures}", style=look.dim)
        task = [strip.text for strip in pen.wrap(Text(sanitize_line(sanitize(agent.task), 300)), room)] or [""]
        if one and len(task) > 2:
            task = [task[0], f"{task[1]}…"]
        rows = task[:2] if one else [f"{task[0]}…" if len(task) > 1 else task[0], figures]
        if waiting := [message.text for message in agent.queued if message.source == "person"]:
            text.append(f"\n» at its next turn: {sanitize_line(waiting[-1], 200)}", style=look.accent)
        text.append("\n" + "\n".join(rows), style=look.dim)
        if text != self._headed:
            self._headed = text
            self.query_one("#child-head", Static).update(text, layout=False)

    def on_agent_tree_arranged(self) -> None:
        head, told = self.query_one("#tree-head", Static), self.agents.told
        self._arrange()
        head.update(Text(told, style=self.scene.pen.look.warn, no_wrap=True, overflow="ellipsis"))

    # ---- keys: the agent under the cursor, or the one whose transcript has the keys -------------

    @property
    def in_hand(self) -> str:
        """The path of the agent that keys are about."""
        return self.child if self.inside else self.agents.selected

    def action_stop(self, level: Literal["cancel", "abort"]) -> None:
        self.post_message(self.StopRequested(self.in_hand, level))

    def action_write(self) -> None:
        self.post_message(self.WriteRequested(self.in_hand))

    def action_background(self) -> None:
        self.post_message(self.BackgroundRequested(self.in_hand))

    def action_apart(self) -> None:
        self.post_message(self.WorktreeDecision(self.in_hand))

    def action_copy(self) -> None:
        self.post_message(self.CopyResult(self.in_hand))

    # ---- the border, dragged by the mouse --------------------------------------------------------

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if event.screen_x == self.region.x and event.button == 1 and not self._fills:
            self._dragged = True
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._dragged:
            self.widen(self.region.right - event.screen_x)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        if self._dragged:
            self._dragged = False
            self.release_mouse()
            self.post_message(self.Widened(self.region.width))

    def widen(self, width: int) -> int:
        """Be `width` cells wide, as far as that leaves room for the chat; gives what is chosen now. A pane that fills the
        screen stays as it is."""
        if not self._fills:
            self.chosen = min(max(width, NARROWEST), max(self.app.size.width - CHAT, NARROWEST))
            self.fit()
        return self.chosen

    @property
    def _fills(self) -> bool:
        return self.has_class("full") or self.app.size.width < 80

    def fit(self) -> None:
        """Be as wide as was chosen, where the pane leaves room for the chat."""
        most = max(self.app.size.width - CHAT, NARROWEST)
        width = min(self.chosen, most) if self.chosen and not self._fills else None
        if width != self._fitted:  # even the same width would be a new layout of the screen
            self.styles.width = self._fitted = width

    def fill(self, whole: bool) -> None:
        """Take the whole screen, or give it back."""
        self.set_class(whole, "full")
        self.fit()
        self._arrange()

    # ---- which of the tree and the transcript are shown ------------------------------------------

    def enter_child(self) -> None:
        """Go to the transcript that is open."""
        self._arrange(inside=True)
        self.log_view.focus()

    def enter_tree(self) -> None:
        """Go to the tree; nothing fills the screen any more."""
        self.fill(False)
        self._arrange(inside=False)
        self.agents.focus()

    @property
    def alone(self) -> bool:
        """Whether a transcript is shown in place of the tree, for want of room."""
        return self.has_class("short") and self.inside and not self.has_class("full")

    def _arrange(self, *, inside: bool | None = None) -> None:
        inside = self.inside if inside is None else inside
        full, short = self.has_class("full"), self.has_class("short")
        self.query_one("#child").display = bool(self.child) and (inside or full or not short)
        self.agents.display = not (self.child and (full or (short and inside)))
        self.query_one("#tree-head").display = self.agents.display and bool(self.agents.told)

    def on_descendant_focus(self) -> None:
        self._follow_focus()

    def on_descendant_blur(self) -> None:
        self._follow_focus()

    def _follow_focus(self) -> None:
        if self.query("#child-log"):  # it is lost, too, when the pane is taken away
            self._arrange()

    def on_resize(self) -> None:
        self.set_class(self.size.height < SHORT, "short")
        self._arrange()
        self._head()

    def _see_room(self) -> None:
        """Note how much room there is, where no event told it: one that comes into sight is told of no size that somebody
        has asked for before."""
        if self.size.height and (self.size.height < SHORT) != self.has_class("short"):
            self.on_resize()
