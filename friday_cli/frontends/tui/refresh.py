"""When the screen follows the session, and what follows: one timer tells every pane what changed.

`Following` is the part of the app that knows this; `app.FridayApp` is the rest. Nothing is drawn per event: `changed` only
asks for a look, `look` tells the panes. What a person types is shown before it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from textual import events

from . import notifications, status_text
from .input import InputController
from .keys import keys
from .widgets.agent_panel import AgentPanel
from .widgets.approval_panel import Approval
from .widgets.composer import Composer
from .widgets.message_queue import Draft
from .widgets.status_bar import StatusLine
from .widgets.transcript import Transcript

SOON_S, BEAT_S, CLOCK_S = 0.005, 0.05, 1.0
"""Seconds to a look at what changed, between two looks, and between two when only clocks run."""
ECHO_S, LATE_S = 0.02, 0.15
"""Seconds that a key has the screen to itself, and after which a look waits for no key."""


class ScreenRefresher(InputController):
    """See the module."""

    places: status_text.Places
    first = ""
    """The message that was given on the command line, until it is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.notice = notifications.TerminalNotifier()
        self._tick: asyncio.TimerHandle | None = None
        self._due = self._looked = self._typed = 0.0
        self._pause = BEAT_S
        self._ended = False
        """Whether the main agent had ended when the screen last followed."""
        self._asked: set[str] = set()

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key):
            self._typed = time.monotonic()
        await super().on_event(event)

    def changed(self) -> None:
        """Something of the session is new: look at once after a rest or when all is said, else when the pause is over."""
        over = self._ended != self._root_ended
        self._look_in(SOON_S if over else max(self._looked + self._pause - time.monotonic(), SOON_S))

    @property
    def _root_ended(self) -> bool:
        root = self.engine.state.root
        return root is not None and root.ended

    @property
    def quiet(self) -> bool:
        """Whether everything that is known of the session is on the screen."""
        return self._tick is None and not self.engine.dirty

    def look_again(self) -> None:
        self._look_in(BEAT_S)

    def _look_in(self, seconds: float) -> None:
        due = time.monotonic() + seconds
        if self._tick is not None and self._due <= due:
            return
        if self._tick is not None:
            self._tick.cancel()
        self._due = due
        self._tick = self.soon(seconds, self.look)

    def soon(self, seconds: float, do: Callable[[], None]) -> asyncio.TimerHandle:
        """Call `do` after so many seconds. A timer of Textual (8.2) is never heard of again when the process stands still for
        its whole time as it is set, which a few milliseconds are easily."""
        return asyncio.get_running_loop().call_later(seconds, self.call_next, do)

    def look(self) -> None:
        """Tell every pane what changed; the only place where the screen follows the session."""
        self._tick = None
        if not self.stands:
            return
        now = time.monotonic()
        if (left := self._typed + ECHO_S - now) > 0 and now - self._looked < LATE_S:
            self._look_in(left)
            return
        begun = time.thread_time()  # the clock would count what other programs do meanwhile
        if self.engine.failure is not None:
            raise self.engine.failure
        for words in self.engine.told:
            self.say_note(words, "warning")
        self.engine.told.clear()
        dirty, self.engine.dirty = self.engine.dirty, set()
        state = self.engine.state
        self.query_one("#chat", Transcript).follow()
        self.arrange_side()
        self.query_one(AgentPanel).follow(dirty)
        self._follow_asks()
        if not self.engine.working and self.engine.session is not None:
            composer = self.query_one(Composer)
            if waiting := composer.queue.take() or self._take_first():
                self.run_worker(self.deliver(waiting))
        self.follow_status()
        self.notice.follow(self)
        self._looked, self._ended = time.monotonic(), self._root_ended
        self._pause = max(BEAT_S, 3 * (time.thread_time() - begun))
        if self.engine.working and state.root is not None and state.root.ended:
            self._look_in(BEAT_S)  # its end is told a moment before it is over
        elif state.working and any(not a.status.startswith("waiting") for a in state.working):
            self._look_in(CLOCK_S)

    def _take_first(self) -> Draft | None:
        first, self.first = self.first, ""
        return Draft(first) if first else None

    def _follow_asks(self) -> None:
        asks = set(self.engine.state.asks)
        panel = self.query_one(Approval)
        had_keys = self.focused is not None and panel in self.focused.ancestors_with_self
        panel.follow()
        composer = self.query_one(Composer)
        if asks - self._asked:
            notifications.tell(self, "Friday needs you")
            if self.focused is composer.area and not composer.text and not composer.popup.open:
                panel.focus()
        elif had_keys and not asks:  # what was asked is settled, by somebody else or by a stop
            composer.area.focus()
        self._asked = asks

    def follow_status(self) -> None:
        composer = self.query_one(Composer)
        composer.show_mode(self.engine.mode)
        side = self.query_one(AgentPanel)
        composer.watch_only(status_text.watched(self.engine))
        shown, queued, chosen = side.has_class("shown"), not composer.queue.empty, side.agents.selected
        hint = status_text.hint(self.engine, self.place, pane=shown, queued=queued, chosen=chosen)
        told = status_text.of(self.engine, self.places, keys.respelled(hint, self.keys.chosen))
        self.query_one(StatusLine).show(told, self.scene.renderer.styles)
