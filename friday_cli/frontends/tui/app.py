"""The app: puts the panes together, opens sessions in them, and routes keys.

Interface: `FridayApp(options, first=..., pick=..., env=...)`; after it ran `failure` is the error that ended it, if any.
Everything about a session is in `engine.Engine`, everything that is drawn in the panes.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.app import ComposeResult, ScreenStackError
from textual.containers import Horizontal
from textual.css.query import NoMatches
from textual.events import Key
from textual.worker import WorkerFailed

from friday_cli.core.protocol.errors import FridayError, NotConfigured

from . import status_text, theme
from .controller import Make, SessionController
from .keys import keys
from .keys.global_bindings import EVERYWHERE
from .refresh import BEAT_S, ScreenRefresher
from .state import keymap, preferences
from .state.file_index import FileIndex
from .state.prompt_history import PromptHistory
from .widgets.agent_block import make_block
from .widgets.agent_panel import AgentPanel
from .widgets.approval_panel import Approval
from .widgets.blocks import RenderContext
from .widgets.composer import Composer
from .widgets.message_queue import Draft
from .widgets.search_bar import FindBar
from .widgets.status_bar import StatusLine
from .widgets.styles import Styles, TextRenderer
from .widgets.text_input import Prompt
from .widgets.transcript import Transcript
from .widgets.welcome import Welcome

if TYPE_CHECKING:
    from textual.command import Provider


def _palette() -> type[Provider]:
    """What the palette offers; made when it is opened."""
    from .palette import Palette

    return Palette


def _ahead() -> None:
    """Load what draws answers, while nobody waits for one."""
    from .widgets import markdown  # noqa: F401


class FridayApp(ScreenRefresher):
    """See the module."""

    TITLE = "Friday"
    CSS_PATH = "app.tcss"
    AUTO_FOCUS = "#prompt"
    COMMANDS = {_palette}  # noqa: RUF012
    PAUSE_GC_ON_SCROLL = True
    VERTICAL_BREAKPOINTS = [(0, "-low"), (26, "-high")]  # noqa: RUF012
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (80, "-medium"), (120, "-wide")]  # noqa: RUF012
    BINDINGS = EVERYWHERE

    def __init__(
        self,
        options: Make,
        *,
        cwd: Path,
        first: str = "",
        pick: bool = False,
        env: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self.engine = SessionController(options, on_change=self.changed, env=env)
        self.failure: BaseException | None = None
        self._cwd, self.first, self._pick = cwd, first, pick
        self.places = status_text.Places(cwd)
        self.profiles = []

    def compose(self) -> ComposeResult:
        self.scene = self._new_scene()
        with Horizontal(id="body"):
            yield Transcript(self.scene, id="chat")
        yield Composer(PromptHistory(self._cwd), FileIndex(self._cwd), self.words, id="composer")
        yield StatusLine(id="status")

    def on_mount(self) -> None:
        self.animation_level = "none"
        self.keys = keymap.read(keys.names())
        self.set_keymap(self.keys.chosen)
        liked = preferences.read()
        self.show_theme(liked.theme or theme.AUTO)
        self.query_one(Prompt).focus()
        loop = asyncio.get_running_loop()
        for number, code in ((signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)):
            try:
                loop.add_signal_handler(number, self.exit, code)
            except (NotImplementedError, RuntimeError, ValueError):
                pass  # not the main thread: a test
        self.theme_changed_signal.subscribe(self, self._new_look)
        self.screen.screen_layout_refresh_signal.subscribe(self, self.place_notes)
        self.app_resume_signal.subscribe(self, lambda _: self.action_redraw())  # the screen was given to the shell
        self.soon(BEAT_S, self._start)  # what was typed so far is shown first

    def _new_scene(self) -> RenderContext:
        return RenderContext(self.engine.state, TextRenderer(Styles.of(self)), time.time, make_block)

    # ---- sessions ---------------------------------------------------------------------

    def _start(self) -> None:
        self.run_worker(self._begin())

    async def _furnish(self) -> None:
        """Put up what nobody sees at first: what is typed at the start need not wait for it."""
        side = AgentPanel(self.scene, id="side")
        side.resizer.chosen = preferences.read().side
        await self.query_one("#body").mount(side)
        await self.mount(FindBar(id="find"), Approval(self.scene, id="approval"), before="#composer")
        self.furnished.set()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.stands or action in ("leave", "leave_empty", "interrupt")

    async def _begin(self) -> None:
        await self._furnish()
        self.look()
        await self.reopen()
        self.places.look()
        if self._pick:
            await self.pick_session()
        self.settled_theme(await asyncio.to_thread(theme.wanted, self._cwd) or self.chosen)
        self.profiles = await asyncio.to_thread(status_text.profiles, self._cwd, self.engine.options.trusted)
        await self.load_customs()
        for problem in self.keys.problems[:3]:
            self.say_note(problem, "warning")
        await asyncio.to_thread(_ahead)
        if not gc.isenabled():
            gc.freeze()  # what was loaded stays; from here on a long day must not grow by its cycles
            gc.enable()

    async def reopen(self, **changes: Any) -> bool:
        """Open a session in place of the one that is open; False when that failed, which was said."""
        wrong: FridayError | None
        try:
            wrong = await self.engine.switch(**changes)
        except NotConfigured as error:
            await self._welcome(wrong := error)
        except FridayError as error:
            self.failure = error
            self.exit(error.exit_code)
            return False
        else:
            await self.query(Welcome).remove()
            if wrong is not None:
                self.say_note(str(wrong), "error")
        self.scene = self._new_scene()
        self.query_one("#chat", Transcript).reset(self.scene)
        self.query_one(AgentPanel).reset(self.scene)
        self.query_one(Approval).reset(self.scene)
        self.look()
        return wrong is None

    async def _welcome(self, error: NotConfigured) -> None:
        if not self.query(Welcome):
            await self.mount(Welcome(), before="#composer")

    async def on_welcome_chosen(self, message: Welcome.Chosen) -> None:
        await self.query(Welcome).remove()
        self.query_one(Prompt).focus()
        self.first = self.first or message.first
        self.run_worker(self.reopen(model=message.model))

    async def pick_session(self) -> None:
        from .widgets.session_picker import Picker

        def picked(session: str | None) -> None:
            if session:
                self.run_worker(self.reopen(resume=session))

        await self.push_screen(Picker(self._cwd), picked)

    async def leave(self) -> None:
        self.exit(0)

    def _new_look(self, _theme: object) -> None:
        self.scene.renderer = TextRenderer(Styles.of(self))
        self.query_one("#chat", Transcript).redraw()
        if self.stands:
            self.query_one(AgentPanel).redraw()
            self.follow_status()

    # ---- keys -----------------------------------------------------------------------------

    def on_key(self, event: Key) -> None:
        """A letter that means nothing belongs to the prompt; also one that came before all was there."""
        if not (self.focused is None and event.is_printable and event.character and len(self.screen_stack) == 1):
            return
        if not any(event.key in keymap.held(node) for node in self.screen.ancestors_with_self):
            event.stop()
            area = self.query_one(Prompt)
            area.focus()
            area.insert(event.character)

    async def action_back(self) -> None:
        """Esc: the nearest of closing something, taking a message back, leaving a pane, and interrupting. Twice where there
        is none of these: going back."""
        side, composer = self.query_one(AgentPanel), self.query_one(Composer)
        if isinstance(self.focused, Transcript) and self.focused.marker.end():
            return
        if self.query_one(FindBar).close() or self.query_one(Approval).escape():
            return
        if self.focused is not None and side in self.focused.ancestors:
            self.leave_side()
        elif self.focused is not composer.area and not self.query(Welcome):
            composer.area.focus()
        elif composer.escape() or self.stop_shell() or self.close_overlay():
            pass
        elif self.engine.working:
            self.run_worker(self.engine.stop("a", "abort"))
            self.say_note("Interrupted.")
        elif not composer.text and self.engine.state.root is not None and self.twice("rewind"):
            self.run_worker(self.deliver(Draft("/rewind")))

    def action_interrupt(self) -> None:
        """Ctrl+C: copy what is selected, clear what is typed, interrupt; twice in a row: quit."""
        composer = self.query_one(Composer)
        if text := self.screen.get_selected_text() or composer.area.selected_text:
            self.run_worker(self.copy_text(text))
            self.screen.clear_selection()
        elif composer.text:
            self.twice("quit")  # the next one does
            composer.history.add(composer.text)
            composer.clear()
        elif self.twice("quit"):
            self.exit(0)
        elif self.stop_shell():
            self.say_note("Stopped. Ctrl+C again quits.")
        elif self.engine.working:
            self.run_worker(self.engine.stop("a", "abort"))
            self.say_note("Interrupted. Ctrl+C again quits.")
        else:
            self.say_note("Ctrl+C again quits.")

    def action_leave_empty(self) -> None:
        if self.query_one(Composer).text:
            self.query_one(Prompt).action_delete_right()
        else:
            self.exit(0)

    def action_leave(self) -> None:
        self.exit(0)

    def action_mode(self) -> None:
        from friday_cli.core.permissions.rules import MODES

        modes = [mode for mode in MODES if mode != "yolo"]
        now = self.engine.mode or "ask"
        if self.engine.session is not None:
            mode = modes[(modes.index(now) + 1) % len(modes)] if now in modes else "ask"
            self.run_worker(self.engine.set_mode(mode))

    def action_details(self) -> None:
        self.query_one("#chat", Transcript).toggle_all()

    def action_background(self) -> None:
        waited = [a.path for a in self.engine.state.working if a.path != "a" and not a.background]
        if waited:
            self.run_worker(self.detach(waited[-1]))
        else:
            self.say_note("No sub-agent is being waited for.")

    def action_answer(self) -> None:
        side = self.query_one(AgentPanel)
        self.query_one(Approval).show_for(side.in_hand if self.place in ("tree", "child", "whole") else "")

    def action_redraw(self) -> None:
        self.refresh(layout=True, repaint=True)

    async def command(self, draft: Draft) -> bool:
        from .commands import slash_commands

        return await slash_commands.run(self, draft)

    # ---- what commands and panes ask for -------------------------------------------------

    def use_theme(self, name: str) -> None:
        self.say_note(f"Theme: {self.choose_theme(name)}")

    def _handle_exception(self, error: Exception) -> None:
        """A defect ends the app; it is said in one line when the terminal is a person's again. What finds no pane any more
        because the app is being taken down is none: work that a person began may be over later than the panes."""
        found = error.error if isinstance(error, WorkerFailed) else error
        if isinstance(found, (NoMatches, ScreenStackError)) and not self.is_running:
            return
        self.failure = self.failure or error
        super()._handle_exception(error)

    def _print_error_renderables(self) -> None:
        self._exit_renderables.clear()
