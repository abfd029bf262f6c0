"""What a person does with agents: the side pane, stopping, writing to one, and letting one go on in the background.

`AgentKeys` is the part of the app that knows this; `app.FridayApp` is the rest.
"""

from __future__ import annotations

import asyncio
import time
from typing import Literal

from textual.notifications import Notify
from textual.screen import Screen
from textual.widgets._toast import ToastRack

from friday_cli.core.protocol.errors import FridayError
from friday_cli.core.protocol.format import pluralize
from friday_cli.view import worktree_text

from .controller import SessionController
from .state import preferences
from .status_text import Place
from .terminal.clipboard import copy, has_desktop
from .theme import Themed
from .widgets.agent_panel import AgentPanel
from .widgets.agent_tree import AgentTree
from .widgets.approval_panel import Approval
from .widgets.choice_dialog import Chooser
from .widgets.composer import Composer
from .widgets.text_input import Prompt
from .widgets.transcript import Transcript
from .widgets.transcript_messages import Links, OpenAgent
from .widgets.welcome import Welcome

AGAIN_S = 1.5
"""Seconds between two presses of a key that count as one wish."""


class AgentActions(Themed):
    """See the module."""

    engine: SessionController
    side_wish: bool | None = None
    """Whether the person wants the side pane; None leaves it to the width."""
    furnished: asyncio.Event
    """Set when all panes are there."""
    _pressed = ("", 0.0)

    @property
    def stands(self) -> bool:
        """Whether all panes are there: not yet at the first picture, no more while the app is taken down."""
        return self.furnished.is_set() and self.is_running

    def look_again(self) -> None:
        """Look at the session soon."""

    def twice(self, what: str) -> bool:
        """Whether the same wish was made a moment ago."""
        now = time.monotonic()
        before, self._pressed = self._pressed, (what, now)
        again = before[0] == what and now - before[1] < AGAIN_S
        if again:
            self.clear_notifications()  # what asked for the second press is answered
        return again

    def say_note(self, text: str, level: Literal["information", "warning", "error"] = "information") -> None:
        """Say one line; it is never markup."""
        from friday_cli.core.text.sanitize import sanitize

        self.notify(sanitize(text), severity=level, markup=False, timeout=3 if level == "information" else 6)

    def on_notify(self, event: Notify) -> None:
        """Two notes at most are seen, each once: what is older or the same gives way. Textual shows the new one."""
        seen = list(self._notifications)
        for note in seen:
            if note is not seen[-1] or note.message == event.notification.message:
                self._unnotify(note, refresh=False)

    def place_notes(self, screen: Screen[object]) -> None:
        """Notes stand at the left above the prompt and what is asked: they hide neither those nor the tree's beginning."""
        body = next(iter(screen.query("#body")), None)
        below = 1 if body is None else screen.size.height - body.region.bottom
        for rack in screen.query(ToastRack):
            if rack.styles.margin.bottom != below:
                rack.styles.margin = (0, 0, below, 0)

    @property
    def place(self) -> Place:
        """Where the keys go."""
        side, focused = self.query_one(AgentPanel), self.focused
        if isinstance(focused, Transcript):
            child: Place = "whole" if side.has_class("full") else "child"
            return "marking" if focused.marker.caret is not None else child if side.inside else "chat"
        if focused is None or isinstance(focused, Prompt):
            return "prompt"
        if any(isinstance(node, Welcome) for node in focused.ancestors):
            return "welcome"
        if self.query_one(Approval) in focused.ancestors:
            return "words"
        return "tree" if side in focused.ancestors else "panel" if isinstance(focused, Approval) else ""

    def on_descendant_focus(self) -> None:
        if not self.stands:
            return
        asked = self.query_one(Approval)
        brief = self.place in ("tree", "child", "whole", "chat", "marking")
        if asked.has_class("brief") and not brief:
            asked.grace.restart()  # what is under the mouse now was not there when it was pressed
        asked.set_class(brief, "brief")
        self.look_again()

    def on_app_focus(self) -> None:
        """The window has the keys again: the click or key that did it answers nothing."""
        if self.stands:
            self.query_one(Approval).grace.restart()

    def on_transcript_marking(self) -> None:
        self.look_again()

    # ---- the side pane -----------------------------------------------------------------

    def arrange_side(self) -> None:
        wide = self.size.width >= 120
        wish = self.side_wish
        if wish is None:
            wish = wide and len(self.engine.state.agents) > 1
        side = self.query_one(AgentPanel)
        side.set_class(wish, "shown")
        side.resizer.fit()

    def on_resize(self) -> None:
        if self.stands and self.size.width < 120 and self.side_wish is None:
            self.query_one(AgentPanel).remove_class("shown", "full")
        self.look_again()

    def focus_tree(self) -> None:
        """Show the tree of agents and go there."""
        self.side_wish = True
        self.arrange_side()
        self.query_one(AgentPanel).enter_tree()

    def action_tree(self) -> None:
        side = self.query_one(AgentPanel)
        if side.has_class("shown") and isinstance(self.focused, AgentTree):
            self.leave_side(hide=True)
        else:
            self.focus_tree()

    def leave_side(self, *, hide: bool = False) -> None:
        side = self.query_one(AgentPanel)
        if side.has_class("full"):
            side.fill(False)
        elif side.alone and not hide:
            side.enter_tree()
        elif hide or self.size.width < 120:
            child = self.engine.state.agents.get(side.child)
            if (hide or side.inside) and child is not None and not child.ended and not self.twice("close"):
                self.say_note(f"{child.path} is still at work. Once more hides it; it goes on.", "warning")
                return
            self.side_wish = False
            self.arrange_side()
            self.query_one(Prompt).focus()
        else:
            self.query_one(Prompt).focus()

    def close_overlay(self) -> bool:
        """Hide the pane where it lies over the chat; whether it did."""
        side = self.query_one(AgentPanel)
        over = side.has_class("shown") and self.size.width < 120
        if over:
            self.side_wish = False
            self.arrange_side()
        return over

    def action_wider(self, by: int) -> None:
        side = self.query_one(AgentPanel)
        preferences.keep(side=side.resizer.resize(side.region.width + by))

    def on_agent_panel_widened(self, message: AgentPanel.Widened) -> None:
        preferences.keep(side=message.width)

    def _open_agent(self, path: str) -> None:
        """Show the transcript of an agent and go there; from there once more: let it fill the screen."""
        side, chat = self.query_one(AgentPanel), self.query_one("#chat", Transcript)
        if self.focused is side.log_view and side.child == path:
            side.fill(not side.has_class("full"))
            self.look_again()
        elif path == "a":
            chat.focus()
        else:
            self.side_wish = True
            self.arrange_side()
            side.open(path)
            side.enter_child()

    def on_agent_tree_picked(self, message: AgentTree.Picked) -> None:
        self.query_one(AgentPanel).open(message.path)
        self.look_again()

    def on_agent_tree_open_transcript(self, message: AgentTree.OpenTranscript) -> None:
        self._open_agent(message.path)

    def on_transcript_open_agent(self, message: OpenAgent) -> None:
        self._open_agent(message.path)

    def on_agent_panel_write_requested(self, message: AgentPanel.WriteRequested) -> None:
        agent = self.engine.state.agents.get(message.path)
        self.query_one(Composer).aim(message.path if message.path != "a" else "", agent.profile if agent else "")

    def on_agent_tree_answer_requested(self, message: AgentTree.AnswerRequested) -> None:
        self.query_one(Approval).show_for(message.path)

    def on_agent_panel_background_requested(self, message: AgentPanel.BackgroundRequested) -> None:
        self.run_worker(self.detach(message.path))

    async def detach(self, path: str) -> None:
        try:
            done = await self.engine.detach(path)
        except FridayError as error:
            self.say_note(str(error), "error")
            return
        self.say_note(f"{path} goes on in the background." if done else f"{path} cannot go to the background now.")

    def on_transcript_links(self, message: Links) -> None:
        self.run_worker(self._follow_link(message.urls))

    async def _follow_link(self, urls: list[str]) -> None:
        """Copy the link that the person chooses, and open it where there is a desktop: a browser in the terminal would
        write over the chat."""
        url = await self.push_screen_wait(Chooser("Which link?", [(u, u) for u in urls[:50]]))
        if url:
            await copy(self, url)
            if has_desktop():
                self.open_url(url)
            self.say_note(f"Copied: {url}")

    def on_agent_panel_copy_result(self, message: AgentPanel.CopyResult) -> None:
        agent = self.engine.state.agents.get(message.path)
        text = agent.result if agent else ""
        if text:
            self.run_worker(self.copy_text(text))
        else:
            self.say_note(f"{message.path} has no result yet.")

    async def copy_text(self, text: str) -> None:
        """Put a text on every clipboard there is."""
        await copy(self, text)
        self.say_note(f"Copied {len(text):,} characters.")

    def on_agent_panel_stop_requested(self, message: AgentPanel.StopRequested) -> None:
        path, below = message.path, self.engine.below(message.path)
        verb = "cancel" if message.level == "cancel" else "abort"
        if below and not self.twice(f"{verb} {path}"):
            key = "x" if verb == "cancel" else "X"
            self.say_note(
                f"{pluralize(below, 'agent')} below {path} would end too. {key} again: {verb} all.",
                "warning",
            )
            return
        self.run_worker(self._stop(path, message.level))

    async def _stop(self, path: str, level: Literal["cancel", "abort"]) -> None:
        try:
            count = await self.engine.stop(path, level)
        except FridayError as error:
            self.say_note(str(error), "error")
            return
        self.say_note(f"{pluralize(count, 'agent')} ended." if count else f"{path} has ended already.")

    # ---- worktrees ----------------------------------------------------------------------

    def on_agent_panel_worktree_decision(self, message: AgentPanel.WorktreeDecision) -> None:
        self.run_worker(self._decide(message.path))

    async def _decide(self, path: str) -> None:
        """Ask what becomes of the work of an agent in its worktree, and do it."""
        agent = self.engine.state.agents.get(path)
        made = agent.worktree if agent else None
        if agent is None or made is None or made.state not in ("opened", "changed"):
            how = f" any more: {worktree_text(made)}" if made else ""
            self.say_note(f"{path} has no worktree{how}.")
            return
        if not agent.ended:
            self.say_note(f"{path} is still at work in its worktree.")
            return
        count = len(made.files)
        names = ", ".join(file.path for file in made.files[:6]) + (" ..." if count > 6 else "")
        choices = [
            ("apply", "Apply: take all of it over into the folder"),
            ("keep", f"Keep it on the branch {made.branch}; its folder goes"),
            ("discard", "Discard it"),
            ("leave", "Decide later"),
        ]
        choice = await self.push_screen_wait(Chooser(f"Worktree of {path} {worktree_text(made)}\n{names}", choices))
        if choice == "apply" and (conflict := await self._settle(path, "apply")):
            why, _, diff = conflict.partition("\nWhat the worktree changed in them:\n")
            rest = choices[1:][::-1]
            about = {key: diff for key, _ in rest} if diff else {}
            choice = await self.push_screen_wait(Chooser(why, rest, about=about))
        if choice == "discard" and count:
            sure = [("", "No, keep it"), ("discard", f"Yes, throw away {pluralize(count, 'changed file')}")]
            choice = await self.push_screen_wait(Chooser(f"What {path} changed is nowhere else: {names}", sure))
        if choice in ("keep", "discard") and (problem := await self._settle(path, choice)):
            self.say_note(problem, "error")

    async def _settle(self, path: str, what: str) -> str:
        """Do with a worktree what was decided, and say so; gives why it could not be."""
        try:
            self.say_note(await self.engine.settle(path, what))
        except FridayError as error:
            return str(error)
        return ""
