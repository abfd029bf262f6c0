"""Keeps the screen in step with the session: one timer that tells each widget what changed.

Nothing is drawn per event: `changed` only plans the next update. Keys that the user types are shown first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from . import status_text
from .chat_screen import ChatScreen
from .chat_services import ChatServices
from .keys import keys
from .notifications import TerminalNotifier

if TYPE_CHECKING:
    from .own_status import OwnStatus

SOON_S, BEAT_S, CLOCK_S = 0.005, 0.05, 1.0
"""Seconds until an update after a pause, between two updates, and between two when only clocks run."""
ECHO_S, LATE_S = 0.02, 0.15
"""Seconds after a key in which only the key is drawn, and after which an update is not put off for keys."""


class ScreenRefresher:
    """Updates the widgets of the chat screen. `on_idle` is called when the main agent has nothing to do."""

    def __init__(
        self, services: ChatServices, chat: ChatScreen, notifier: TerminalNotifier, on_idle: Callable[[], None]
    ) -> None:
        self._services, self._chat, self._notifier, self._on_idle = services, chat, notifier, on_idle
        self._controller = services.controller
        self.folder = status_text.Folder(services.cwd)
        self.typed_at = 0.0
        """When the last key came, by the monotonic clock in seconds."""
        self._timer: asyncio.TimerHandle | None = None
        self._due = self._refreshed_at = 0.0
        self._pause = BEAT_S
        self._root_had_ended = False
        """Whether the main agent had ended at the last update."""
        self._asks_before: set[str] = set()
        self.own_status: OwnStatus | None = None
        """The row that a program of the user writes."""

    def changed(self) -> None:
        """Plan an update because the session changed: at once after a pause or when the main agent has begun or ended."""
        turn_changed = self._root_had_ended != self._root_ended
        self._schedule_in(SOON_S if turn_changed else max(self._refreshed_at + self._pause - time.monotonic(), SOON_S))

    @property
    def _root_ended(self) -> bool:
        root = self._controller.state.root
        return root is not None and root.ended

    @property
    def quiet(self) -> bool:
        """Whether the screen shows everything that is known of the session."""
        return self._timer is None and not self._controller.fold.dirty

    def schedule_refresh(self) -> None:
        """Plan an update because the screen changed."""
        self._schedule_in(BEAT_S)

    def _schedule_in(self, seconds: float) -> None:
        due = time.monotonic() + seconds
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due
        self._timer = self.call_in(seconds, self.refresh)

    def call_in(self, seconds: float, call: Callable[[], object]) -> asyncio.TimerHandle:
        """Call `call` on the app after so many seconds. A timer of Textual 8.2 never fires when the process is not scheduled
        for its whole time while it is set, which happens for times of some milliseconds."""
        return asyncio.get_running_loop().call_later(seconds, self._services.app.call_next, call)

    def refresh(self) -> None:
        """Update every widget; the only place where the screen follows the session."""
        self._timer = None
        controller, chat = self._controller, self._chat
        if not chat.ready:
            return
        now = time.monotonic()
        if (left := self.typed_at + ECHO_S - now) > 0 and now - self._refreshed_at < LATE_S:
            self._schedule_in(left)
            return
        begun = time.thread_time()  # wall-clock time would include what other programs do meanwhile
        if controller.fold.failure is not None:
            raise controller.fold.failure
        for text in controller.told:
            self._services.say_note(text, "warning")
        controller.told.clear()
        dirty, controller.fold.dirty = controller.fold.dirty, set()
        chat.body.transcript.follow()
        chat.body.show_panel()
        chat.follow_strip()
        chat.working.follow(chat.body.context, keys.respelled("Esc stops", self._services.keys.chosen))
        chat.body.panel.agents.follow()
        chat.body.panel.follow(dirty)
        self._follow_asks()
        if not controller.working and controller.session is not None:
            self._on_idle()
        self.follow_status()
        self._notifier.follow()
        self._refreshed_at, self._root_had_ended = time.monotonic(), self._root_ended
        self._pause = max(BEAT_S, 3 * (time.thread_time() - begun))
        if controller.working and self._root_ended:
            self._schedule_in(BEAT_S)  # its last event comes a moment before the session is idle
        elif controller.state.moves:
            self._schedule_in(CLOCK_S)

    def _follow_asks(self) -> None:
        chat = self._chat
        asks = set(self._controller.state.asks)
        focused, composer, panel = self._services.app.focused, chat.composer, chat.approval
        had_keys = focused is not None and panel in focused.ancestors_with_self
        panel.follow()
        if asks - self._asks_before:
            self._notifier.terminal.notify("Friday needs you")
            if focused is composer.area and not composer.text and not composer.popup.open:
                panel.focus()
        elif had_keys and not asks:  # answered elsewhere, or the agent was stopped
            composer.area.focus()
        self._asks_before = asks

    def follow_status(self) -> None:
        """Update the status line and the border of the prompt."""
        chat, controller = self._chat, self._controller
        panel, composer = chat.body.panel, chat.composer
        composer.show_mode(controller.mode)
        composer.watch_only(status_text.read_only_reason(controller))
        hint = status_text.hint(
            controller,
            chat.place,
            pane=panel.has_class("shown"),
            queued=not composer.queue.empty,
            chosen=panel.agents.selected,
            asked=chat.approval.keys_hint,
        )
        facts = status_text.facts(controller, self.folder, keys.respelled(hint, self._services.keys.chosen))
        chat.status.show(facts, chat.body.context.renderer.styles)
        if self.own_status is not None:
            self.own_status.follow(facts)
        chat.first_screen.follow(facts)
