"""Signs outside the window: the terminal's title, and a word when the person looks elsewhere.

Interface: `tell(app, text)`, `Notice.follow(app)`, `Notice.titled`, `OLD_TITLE`. The terminal gets our own words and the
name of the folder only.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from friday_cli.core.text.sanitize import sanitize_line

if TYPE_CHECKING:
    from .agent_actions import AgentActions

KEEP_TITLE, OLD_TITLE = "\x1b[22;0t", "\x1b[23;0t"
"""Lets the terminal remember its title, and show that one again."""
LONG_S = 10.0
"""A turn that took longer is worth a word."""


def tell(app: AgentActions, text: str) -> None:
    """Ring, and say it as a notification of the terminal; nothing while the person is here."""
    if app.app_focus:
        return
    app.bell()
    if os.environ.get("TERM", "").startswith("rxvt"):
        write(app, f"\x1b]777;notify;Friday;{sanitize_line(text).replace(';', ',')}\x07")
    else:
        write(app, f"\x1b]9;{sanitize_line(text)}\x07")


def write(app: AgentActions, sequence: str) -> None:
    """Send a sequence to a real terminal."""
    driver = app._driver
    if driver is not None and not app.is_headless:
        driver.write(through(sequence) if os.environ.get("TMUX") and sequence.startswith("\x1b]9;") else sequence)


def through(sequence: str) -> str:
    """A sequence as tmux hands it on to the terminal around it, where it may."""
    return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"


class TerminalNotifier:
    """Keeps the title, and knows since when the agent works."""

    def __init__(self) -> None:
        self._title = ""
        self._since: float | None = None

    @property
    def titled(self) -> bool:
        """Whether the terminal shows a title of ours."""
        return bool(self._title)

    def follow(self, app: AgentActions) -> None:
        """Look at the session; the title changes only when it says something else."""
        working, asks = app.engine.working, len(app.engine.state.asks)
        sign = "? " if asks else "● " if working else ""
        title = f"{sign}friday · {sanitize_line(app.engine.options.cwd.name, 40)}" if app.engine.session else ""
        if title and title != self._title:
            if not self._title:
                write(app, KEEP_TITLE)
            self._title = title
            write(app, f"\x1b]0;{title}\x07")
        now = time.monotonic()
        if working:
            self._since = self._since or now
        elif self._since is not None:
            if now - self._since > LONG_S:
                tell(app, "Friday is done")
            self._since = None
