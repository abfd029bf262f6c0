"""The transcript with the panel of sub-agents beside it: which of them is shown, how wide, and what agents are asked to do.

The panel is beside the transcript on a wide terminal and lies over it on a narrower one. While it is hidden, the strip above
the prompt shows who works.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal

from .state import preferences
from .terminal.clipboard import copy, has_desktop
from .widgets import WIDE
from .widgets.blocks import RenderContext
from .widgets.message_queue import Draft
from .widgets.styles import TextRenderer
from .widgets.transcript import Transcript
from .widgets.transcript_messages import CopyText, ForkRequested, Links, OpenAgent

if TYPE_CHECKING:
    from .app import FridayApp
    from .widgets.agent_panel import AgentPanel
    from .widgets.agent_tree import AgentTree


class ChatBody(Horizontal):
    """`transcript` is that of the main agent; `panel` is there when the screen is ready."""

    panel: AgentPanel

    def __init__(self, friday: FridayApp, context: RenderContext) -> None:
        super().__init__(id="body")
        self._friday = friday
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
        if self._friday.chat.ready:
            self.panel.redraw()

    def show_panel(self) -> None:
        """Show or hide the panel."""
        wanted = self.panel_wanted
        if wanted is None:
            wanted = self.app.size.width >= WIDE and len(self._friday.controller.state.agents) > 1
        self.panel.set_class(wanted, "shown")
        self.panel.resizer.fit()
        self._friday.chat.strip.follow(self.context, hidden=wanted)

    def _want_panel(self, wanted: bool) -> None:
        self.panel_wanted = wanted
        self.show_panel()

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
        panel, prompt = self.panel, self._friday.chat.composer.area
        if panel.has_class("full"):
            panel.fill(False)
        elif panel.alone and not hide:
            panel.enter_tree()
        elif hide or self.app.size.width < WIDE:
            child = self.context.state.agents.get(panel.child)
            running = child is not None and not child.ended
            if running and (hide or panel.inside) and not self._friday.presses.again("close"):
                text = f"{panel.child} is still running. Press again to hide it; it keeps running."
                return self._friday.say_note(text, "warning")
            self._want_panel(False)
            prompt.focus()
        else:
            prompt.focus()

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
            self._friday.refresher.schedule_refresh()
        elif path == "a":
            self.transcript.focus()
        else:
            self._want_panel(True)
            panel.open(path)
            panel.enter_child()

    def on_agent_tree_agent_selected(self, message: AgentTree.AgentSelected) -> None:
        self.panel.open(message.path)
        self._friday.refresher.schedule_refresh()

    def on_agent_panel_action_requested(self, message: AgentPanel.ActionRequested) -> None:
        agents = self._friday.agents
        agents.begin(getattr(agents, message.action), message.path, *message.arguments)

    def on_transcript_marking(self) -> None:
        self._friday.refresher.schedule_refresh()

    def on_transcript_fork_requested(self, message: ForkRequested) -> None:
        self._friday.input.submit(Draft(f"/fork {message.number}"))

    def on_transcript_copy_text(self, message: CopyText) -> None:
        self._friday.run_worker(self._friday.input.copy_text(message.text))

    def on_transcript_links(self, message: Links) -> None:
        self._friday.run_worker(_follow_link(self._friday, message.urls))


async def _follow_link(app: FridayApp, urls: list[str]) -> None:
    """Copy the link that the user chooses, and open it when there is a desktop: a browser in the terminal would write over
    the chat."""
    from .widgets.choice_dialog import Chooser

    url = await app.push_screen_wait(Chooser("Which link?", [(url, url) for url in urls[:50]]))
    if url:
        await copy(app, url)
        if has_desktop():
            app.open_url(url)
        app.say_note(f"Copied: {url}")
