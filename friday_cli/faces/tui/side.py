"""The side pane: the tree of agents above, the transcript of the chosen one below.

Interface: `Side(scene)`, `follow(dirty)`, `open(path)`, `close_child()`, `child` (the path that is open, "" for none).
The pane picks the newest sub-agent by itself until a person moves the cursor.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Static

from friday_cli.core.events import depth_of
from friday_cli.core.plain import line, plain

from .blocks import Scene
from .delegation import status_style, summary
from .transcript import Transcript
from .tree import AgentTree


class Side(Vertical):
    """See the module."""

    def __init__(self, scene: Scene, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.scene = scene
        self.child = ""
        self._own_choice = False

    def compose(self) -> ComposeResult:
        yield AgentTree(self.scene, id="tree")
        with Vertical(id="child"):
            yield Static(id="child-head")
            yield Transcript(self.scene, "", id="child-log")

    @property
    def agents(self) -> AgentTree:
        return self.query_one(AgentTree)

    @property
    def log_view(self) -> Transcript:
        return self.query_one("#child-log", Transcript)

    def follow(self, dirty: Iterable[str]) -> None:
        """Show what is new; `dirty` are the agents that look different."""
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
        self._head()
        self.log_view.show(path)
        self.log_view.follow()

    def close_child(self) -> None:
        """Show the tree alone."""
        self.child = ""
        self.remove_class("with-child")

    def reset(self, scene: Scene) -> None:
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
        agent = self.scene.state.agents.get(self.child)
        if agent is None:
            return
        look = self.scene.pen.look
        text = Text(f"[{line(agent.profile, 40)}] ", style=look.accent, no_wrap=True, overflow="ellipsis")
        text.append(agent.path, style="bold")
        text.append(" · ", style=look.dim)
        text.append(summary(self.scene.state, agent, self.scene.now()), style=status_style(agent, self.scene.pen))
        text.append("\n" + line(plain(agent.task), 300), style=look.dim)
        self.query_one("#child-head", Static).update(text)
