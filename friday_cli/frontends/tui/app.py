"""The chat as a Textual app: mounts the chat screen, opens the session in it, and holds the keys that work everywhere.

What the app does is in its parts, each a plain attribute: `controller` (the session), `input` (what the user types),
`agents` (stop and continue agents), `leaving` (how the chat ends), `refresher` (the screen follows the session), `themes`,
`notifier`. `chat` is the screen with its widgets. Parts know each other and `services`, not the app.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual import events, on
from textual.app import App, ComposeResult, ScreenStackError
from textual.css.query import NoMatches
from textual.notifications import Notify
from textual.widgets._toast import ToastRack
from textual.worker import WorkerFailed

from friday_cli.core.protocol.errors import FridayError

from . import status_text, theme
from .agent_actions import AgentActions
from .chat_screen import ChatScreen
from .chat_services import ChatServices
from .controller import Make, SessionController
from .defects import Defects
from .early_input import EarlyInput
from .input import InputController, carry_out
from .keys import keys
from .keys.double_press import DoublePress
from .leaving import Leaving
from .notifications import TerminalNotifier
from .refresh import ScreenRefresher
from .state import keymap, preferences
from .theme import ThemeController
from .widgets import WIDE
from .widgets.chat_request import ChatRequest
from .widgets.message_queue import Draft

if TYPE_CHECKING:
    from textual.command import Provider
    from textual.driver import Driver


def _palette() -> type[Provider]:
    """The commands of the palette; imported when it is opened."""
    from .palette import Palette

    return Palette


class FridayApp(App[int]):
    """After it ran, `services.failure` is the error that ended it, if any."""

    TITLE = "Friday"
    CSS_PATH = "app.tcss"
    AUTO_FOCUS = "#prompt"
    COMMANDS = {_palette}  # noqa: RUF012
    PAUSE_GC_ON_SCROLL = True
    VERTICAL_BREAKPOINTS = [(0, "-low"), (26, "-high")]  # noqa: RUF012
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (80, "-medium"), (100, "-docked"), (120, "-wide")]  # noqa: RUF012
    BINDINGS = keys.EVERYWHERE

    input: InputController
    refresher: ScreenRefresher

    def __init__(
        self,
        options: Make,
        *,
        cwd: Path,
        first: str = "",
        pick: bool = False,
        joins: str = "",
        env: Mapping[str, str] | None = None,
    ) -> None:
        """`first` is sent as the first message; `pick` lets the user choose the session to resume; `joins` as in
        `SessionController`."""
        no_color = bool(os.environ.get("NO_COLOR"))
        if not no_color:
            os.environ.pop("NO_COLOR", None)  # an empty one means nothing, but Textual tests only for its presence
        super().__init__(ansi_color=True if no_color else None)
        self.cwd, self._pick = cwd, pick
        self.controller = SessionController(options, on_change=lambda: self.refresher.changed(), joins=joins, env=env)
        self.services = services = ChatServices(
            self,
            cwd,
            self.controller,
            DoublePress(self.clear_notifications),
            keymap.read(keys.names),
            schedule_refresh=lambda: self.refresher.schedule_refresh(),
            refresh=lambda: self.refresher.refresh(),
        )
        self.defects = Defects(
            lambda text: services.say_note(text, "error"), lambda error: error is self.controller.fold.failure
        )
        self.chat = chat = ChatScreen(
            services, lambda *typed: self.input.completions(*typed), lambda: self.input.customs
        )
        self._early = EarlyInput(lambda: chat.composer.text, lambda: chat.approval.asked if chat.ready else "")
        self.agents = AgentActions(services, chat)
        self.leaving = Leaving(services, chat)
        self.themes = ThemeController(self)
        self.notifier = TerminalNotifier(self, self.controller)
        self.input = InputController(services, chat, self.agents, self.themes, self.leaving.by_command, first)
        self.refresher = ScreenRefresher(services, chat, self.notifier, self.input.send_waiting)

    def get_driver_class(self) -> type[Driver]:
        if sys.platform == "win32" or "TEXTUAL_DRIVER" in os.environ:
            return super().get_driver_class()
        from .terminal.driver import Listening

        return partial(Listening, on_closed=lambda: self.leaving.window_closed())  # type: ignore[return-value]

    def get_default_screen(self) -> ChatScreen:
        return self.chat

    def compose(self) -> ComposeResult:
        """By the app, not by the screen: `on_mount` comes when the prompt is there, and only then the first key."""
        return self.chat.first_widgets()

    def on_mount(self) -> None:
        self.animation_level = "none"
        self.set_keymap(self.services.keys.chosen)
        self.themes.show(preferences.read().theme or theme.AUTO)
        self.notifier.ask_for_status()
        self.chat.composer.area.focus()
        self.leaving.handle_signals()
        self.theme_changed_signal.subscribe(self, lambda _: self.chat.restyle())
        self.app_resume_signal.subscribe(self, lambda _: self.action_redraw())  # the shell had the terminal meanwhile
        # keys that were typed so far are shown before the session is opened
        self.call_after_refresh(lambda: self.run_worker(self._start()))

    async def _start(self) -> None:
        """Mount the rest of the screen, open the session, then load what is not needed for the first message."""
        await self.chat.furnish()
        self.refresher.refresh()
        try:
            await _show_end(self, self.controller.joins)
            await self.input.reopen()
            self.refresher.folder.read_branch()
            if self._pick:
                await self.input.pick_session()
        finally:  # when what was opened is laid out and has the focus
            self.call_after_refresh(self._early.release, self.post_message)
        await _use_settings(self)
        self.input.profiles = await asyncio.to_thread(status_text.profiles, self.cwd, self.controller.options.trusted)
        await self.input.load_customs()
        for problem in self.services.keys.problems[:3]:
            self.services.say_note(problem, "warning")
        await asyncio.to_thread(importlib.import_module, f"{__package__}.widgets.markdown")  # draws the first reply
        if not gc.isenabled():
            gc.freeze()  # what was loaded stays; from now on cycles must be collected, or a long chat would grow
            gc.enable()

    @on(ChatRequest)
    def _carry_out(self, request: ChatRequest) -> None:
        carry_out(request, self.input, self.agents, self.services)

    def on_notify(self, event: Notify) -> None:
        """Keep one older note at most, and no note twice. Textual shows the new one."""
        shown = list(self._notifications)
        for note in shown:
            if note is not shown[-1] or note.message == event.notification.message:
                self._unnotify(note, refresh=False)
        kept = {ToastRack._toast_id(note) for note in self._notifications}
        for place in self.screen.query(ToastRack).results():
            place.remove_children([holder for holder in place.children if holder.id not in kept])  # Textual leaves them

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key):
            self.refresher.typed_at = time.monotonic()
        if self._early.holds(event):
            return
        if isinstance(event, events.Paste) and (welcome := self.chat.welcome) is not None and welcome.takes(event.text):
            return
        await super().on_event(event)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.chat.ready or action in ("quit", "leave_empty", "interrupt")

    async def action_back(self) -> None:
        """Esc: close the list or field that has the focus, or stop what runs; then leave the tree, go back to the prompt.
        Twice when none applies: rewind."""
        chat, area = self.chat, self.chat.composer.area
        left_mode, area.left_mode = area.has_focus and area.left_mode, False
        if chat.leave_marking() or chat.find_bar.close() or chat.composer.close_list():
            return
        panel = chat.body.panel
        covers = panel.has_class("full") or self.size.width < WIDE
        if covers and panel.has_focus_within:  # it lies over the chat like a dialog
            chat.body.leave_panel()
        elif self.input.run_stop.possible:
            self.services.say_note(self.input.run_stop.stop())
            chat.composer.aim_at_main()
            chat.composer.area.focus()
        elif left_mode:
            pass
        elif panel.has_focus_within:
            chat.body.leave_panel()
        elif chat.welcome:
            chat.welcome.query_one("#ways").focus()
        elif not chat.composer.area.has_focus:
            chat.composer.area.focus()
        elif chat.composer.aim_at_main() or chat.body.close_overlay():
            pass
        elif chat.composer.text or self.controller.state.root is None or self.controller.working:
            pass  # a run that is being stopped: each Esc was for that
        elif self.services.presses.again("rewind"):
            self.input.submit(Draft("/rewind"))

    def action_interrupt(self) -> None:
        """Ctrl+C: copy what is selected, and stop what runs; when nothing runs, clear what is typed. Twice in a row, with an
        empty prompt: quit."""
        composer = self.chat.composer
        if text := self.screen.get_selected_text() or composer.area.selected_text:
            self.run_worker(self.services.copy_text(text))
            self.screen.clear_selection()
        if self.input.run_stop.possible:
            stopped = self.input.run_stop.stop()
            self.services.presses.again("quit")  # the next one quits
            self.services.say_note(f"{stopped} Press Ctrl+C again to quit.")
        elif text:
            pass
        elif composer.text:
            self.services.presses.again("quit")  # the next one quits
            composer.history.add(composer.text)
            composer.clear()
        elif self.services.presses.again("quit"):
            self.exit(0)
        else:
            self.services.say_note("Press Ctrl+C again to quit.")

    def action_leave_empty(self) -> None:
        if self.chat.composer.text:
            self.chat.composer.area.action_delete_right()
        else:
            self.leaving.by_key("Ctrl+D")

    async def action_quit(self) -> None:
        self.leaving.by_key("Ctrl+Q")

    def action_mode(self) -> None:
        from friday_cli.core.permissions.decision import MODES

        if self.controller.session is not None:
            modes = [mode for mode in MODES if mode != "yolo"]
            now = self.controller.mode
            mode = modes[(modes.index(now) + 1) % len(modes)] if now in modes else "ask"
            from friday_cli.session.commands import SetMode

            self.run_worker(self.controller.session.do(SetMode(mode)))

    def action_details(self) -> None:
        self.chat.body.transcript.toggle_all()

    def action_tree(self) -> None:
        self.chat.body.toggle_tree()

    def action_wider(self, by: int) -> None:
        self.chat.body.widen(by)

    def action_background(self) -> None:
        self.agents.begin(self.agents.background_newest)

    def action_answer(self) -> None:
        in_hand = self.chat.place in ("tree", "child", "whole")
        self.chat.approval.show_for(self.chat.body.panel.in_hand if in_hand else "")

    def action_help(self) -> None:
        self.input.submit(Draft("/help"))

    def action_find(self) -> None:
        self.input.look_for("")

    def action_redraw(self) -> None:
        self.refresh(layout=True, repaint=True)

    def _handle_exception(self, error: Exception) -> None:
        """A defect of a part is logged and told, and the chat goes on; one before the first screen, or so many that the screen
        cannot be used, end the app, and are printed when the screen is gone. Work that finds no widget because the app is
        being taken down is not a defect."""
        found = error.error if isinstance(error, WorkerFailed) else error
        if isinstance(found, (NoMatches, ScreenStackError)) and not self.is_running:
            return
        if isinstance(found, FridayError):
            return self.services.say_note(str(found), "error")
        if self.chat.ready and self.defects.survived(found):
            return
        self.services.failure = self.services.failure or error
        super()._handle_exception(error)

    def _print_error_renderables(self) -> None:
        self._exit_renderables.clear()


async def _show_end(app: FridayApp, session: str) -> None:
    """Show the end of a long session before it is opened, which reads all of it. What is pressed waits for that."""
    from friday_cli.session import lists

    with suppress(FridayError):  # opening the session reports why
        if session and (found := await lists.end_of(session)):
            app.controller.fold.state = found
            app._early.everything = True
            app.chat.reset()
            app.refresher.refresh()
            drawn = asyncio.Event()
            app.call_after_refresh(drawn.set)
            await drawn.wait()


async def _use_settings(app: FridayApp) -> None:
    """Use the settings of the screen; none where they cannot be read (opening the session reports why)."""
    from friday_cli.session import lists

    try:
        settings = await asyncio.to_thread(lists.settings, app.cwd)
    except FridayError:
        return
    app.themes.use_settings(settings.theme)
    if settings.tui.vim:
        from .widgets.vim_prompt import use_vim

        use_vim(app.chat.composer, True)
    if settings.tui.status_command:
        from .own_status import OwnStatus

        own = OwnStatus(app.services, settings.tui.status_command)
        await own.show(app.chat)
        app.refresher.own_status = own
        app.refresher.schedule_refresh()
