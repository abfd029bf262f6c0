"""The transcript with the panel of sub-agents beside it: which of them is shown, how wide, and what agents are asked to do.

The panel is beside the transcript on a wide terminal and lies over it on a narrower one. While it is hidden, the strip above
the prompt shows who works.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message

from .chat_services import ChatServices
from .state import preferences
from .widgets import WIDE
from .widgets.blocks import RenderContext
from .widgets.styles import TextRenderer
from .widgets.transcript import Transcript
from .widgets.transcript_messages import OpenAgent

if TYPE_CHECKING:
    from .widgets.agent_panel import AgentPanel
    from .widgets.agent_tree import AgentTree


class ChatBody(Horizontal):
    """`transcript` is that of the main agent; `panel` is there when the screen is ready."""

    panel: AgentPanel

    class PanelToggled(Message):
        """The panel was shown or hidden."""

    class Left(Message):
        """The user goes back to the prompt."""

    def __init__(self, services: ChatServices, context: RenderContext) -> None:
        super().__init__(id="body")
        self._services = services
        self.context = context
        self.transcript = Transcript(context, id="chat")
        self.panel_wanted: bool | None = None
        """Whether the user wants the panel; None: it depends on the width."""

    def compose(self) -> ComposeResult:
        yield self.transcript

    async def furnish(self) -> None:
        """Mount the panel, hidden."""
        from .widgets.agent_panel import AgentPanel

        self.panel = AgentPanel(self.context, id="side")
        self.panel.resizer.chosen = preferences.read().side
        await self.mount(self.panel)

    def reset(self, context: RenderContext) -> None:
        """Show another session."""
        self.context = context
        self.transcript.reset(context)
        self.panel.reset(context)

    def restyle(self, renderer: TextRenderer) -> None:
        """Draw with another renderer."""
        self.context.renderer = renderer
        self.transcript.redraw()

    def show_panel(self) -> None:
        """Show or hide the panel."""
        wanted = self.panel_wanted
        if wanted is None:
            wanted = self.app.size.width >= WIDE and len(self._services.controller.state.agents) > 1
        self.panel.set_class(wanted, "shown")
        self.panel.resizer.fit()

    def _want_panel(self, wanted: bool) -> None:
        self.panel_wanted = wanted
        self.show_panel()
        self.post_message(self.PanelToggled())

    def focus_tree(self) -> None:
        """Show the tree of agents and go there."""
        self._want_panel(True)
        self.panel.enter_tree()

    def toggle_tree(self) -> None:
        """Go to the tree of agents; from there, hide the panel."""
        if self.panel.has_class("shown") and self.panel.agents.has_focus:
            self.leave_panel(hide=True)
        else:
            self.focus_tree()

    def leave_panel(self, *, hide: bool = False) -> None:
        """Go one step back from the panel: out of the full screen, to the tree, or to the prompt. A panel over the
        transcript is hidden, another one only on request (`hide`)."""
        panel = self.panel
        if panel.has_class("full"):
            panel.fill(False)
        elif panel.alone and not hide:
            panel.enter_tree()
        elif hide or self.app.size.width < WIDE:
            child = self.context.state.agents.get(panel.child)
            running = child is not None and not child.ended
            if running and (hide or panel.inside) and not self._services.presses.again("close"):
                text = f"{panel.child} is still running. Press again to hide it; it keeps running."
                return self._services.say_note(text, "warning")
            self._want_panel(False)
            self.post_message(self.Left())
        else:
            self.post_message(self.Left())

    def close_overlay(self) -> bool:
        """Hide the panel where it lies over the transcript; False when it does not."""
        over = self.panel.has_class("shown") and self.app.size.width < WIDE
        if over:
            self._want_panel(False)
        return over

    def widen(self, by: int) -> None:
        """Change the width of the panel by columns, and keep it for later chats."""
        preferences.keep(side=self.panel.resizer.resize(self.panel.region.width + by))

    @on(OpenAgent)
    def _open_agent(self, message: OpenAgent) -> None:
        """Show the transcript of an agent and go there; when it has the focus, let it fill the screen or end that."""
        path, panel = message.path, self.panel
        if panel.inside and panel.child == path:
            panel.fill(not panel.has_class("full"))
            self._services.schedule_refresh()
        elif path == "a":
            self.transcript.focus()
        else:
            self._want_panel(True)
            panel.open(path)
            panel.enter_child()

    def on_agent_tree_agent_selected(self, message: AgentTree.AgentSelected) -> None:
        self.panel.open(message.path)
        self._services.schedule_refresh()

    def on_transcript_marking(self) -> None:
        self._services.schedule_refresh()
