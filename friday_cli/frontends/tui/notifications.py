"""Where notes are shown, and signals outside the screen: the terminal's title, notifications while it has no focus, and reports
of the status to terminals that read them.

The terminal gets fixed texts and the name of the folder only.
"""

from __future__ import annotations

import os
from typing import Any

from textual.app import App
from textual.css.scalar import Scalar
from textual.geometry import Spacing
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets._toast import ToastRack

from friday_cli.core.text.sanitize import sanitize_line

from ..person_notifier import LongTurn, PersonNotifier
from .controller import SessionController
from .terminal.program_status import ProgramStatus

KEEP_TITLE, OLD_TITLE = "\x1b[22;0t", "\x1b[23;0t"
"""Escape sequences: save the terminal's title, and restore it."""
MOST_ROWS = 6
"""Rows that notes take at most, as in the style sheet."""


class TerminalSignals:
    """The title of an app's terminal, and notifications. Texts are fixed, with numbers and names of folders."""

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self.title = ""
        """The title of the terminal set here, "" for none."""

    def set_title(self, title: str) -> None:
        """Change the title; the one before the first is saved for `OLD_TITLE`."""
        if title != self.title:
            if not self.title:
                self.write(KEEP_TITLE)
            self.title = title
            self.write(f"\x1b]0;{title}\x07")

    def notify(self, text: str) -> None:
        """Ring the bell and send a notification; nothing while the window has the focus."""
        if self._app.app_focus:
            return
        self._app.bell()
        if os.environ.get("TERM", "").startswith("rxvt"):
            self.write(f"\x1b]777;notify;Friday;{sanitize_line(text).replace(';', ',')}\x07")
        else:
            self.write(f"\x1b]9;{sanitize_line(text)}\x07")

    def write(self, sequence: str) -> None:
        """Send a sequence to a real terminal."""
        driver = self._app._driver
        if driver is not None and not self._app.is_headless:
            if os.environ.get("TMUX") and sequence.startswith("\x1b]9;"):
                sequence = "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"  # tmux passes it on
            driver.write(sequence)


class TerminalNotifier:
    """Tells a person at the terminal of a chat of its questions, its state and the end of a long turn."""

    def __init__(self, app: App[Any], controller: SessionController) -> None:
        self._app, self._controller = app, controller
        self.terminal = TerminalSignals(app)
        self.status = ProgramStatus(self.terminal.write)
        self._turn = LongTurn()
        self._person: PersonNotifier | None = None

    def ask_for_status(self) -> None:
        """Ask the terminal whether it reads reports of the status."""
        if self._app.is_headless:
            return
        from .terminal.driver import Listening

        if isinstance(driver := self._app._driver, Listening):
            driver.ask("7501", lambda _: self._app.call_later(self._status_supported))

    def _status_supported(self) -> None:
        self.status.supported = True
        self.status.follow(self._controller.state, working=self._controller.working)

    def follow(self) -> None:
        """Update the title, and notify when a long turn has ended."""
        controller = self._controller
        sign = "? " if controller.state.asks else "● " if controller.working else ""
        title = f"{sign}friday · {sanitize_line(controller.options.cwd.name, 40)}" if controller.session else ""
        if title:
            self.terminal.set_title(title)
        self.status.follow(controller.state, working=controller.working)
        if self._person is None and controller.session is not None and controller.remote is None:
            # else its owner runs it
            self._person = PersonNotifier(controller.options.cwd, controller.told.append)
        if self._person is not None:
            self._person.follow(controller.state)
        if self._turn.ended(controller.working):
            self.terminal.notify("Friday is done")
            if self._person is not None:
                self._person.tell("is done")

    async def close(self) -> None:
        """Run nothing of the person any more."""
        if self._person is not None:
            await self._person.close()


def keep_rows_for_toasts(screen: Screen[Any], body: Widget) -> None:
    """Let notes take rows of `body`, which is above them, and of nothing else: they push no question and no prompt away. Where
    it has one row, a note stands over it."""
    for rack in screen.query(ToastRack):
        shown = [widget for widget in screen.children[screen.children.index(rack) + 1 :] if widget.region.height]
        most = shown[0].region.y - body.region.y - 1 if shown else 1
        wanted = (0, 0, screen.size.height - body.region.bottom if most < 1 else 0, 0)
        rack.set_class(most < 1, "over")
        if rack.styles.max_height != Scalar.from_number(most := min(max(most, 1), MOST_ROWS)):
            rack.styles.max_height = most
        if rack.styles.margin != Spacing(*wanted):
            rack.styles.margin = wanted
