"""Signs outside the window: the terminal's title, and a word when the person looks elsewhere.

Interface: `tell(app, text)`, `Notice.follow(app)`. The terminal gets our own words and the name of the folder only.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from friday_cli.core.plain import line

if TYPE_CHECKING:
    from .agents import AgentKeys

LONG_S = 10.0
"""A turn that took longer is worth a word."""


def tell(app: AgentKeys, text: str) -> None:
    """Ring, and say it as a notification of the terminal; nothing while the person is here."""
    if not app.app_focus:
        app.bell()
        write(app, f"\x1b]9;{line(text)}\x07")


def write(app: AgentKeys, sequence: str) -> None:
    """Send a sequence to a real terminal."""
    driver = app._driver
    if driver is not None and not app.is_headless:
        driver.write(sequence)


class Notice:
    """Keeps the title, and knows since when the agent works."""

    def __init__(self) -> None:
        self._title = ""
        self._since: float | None = None

    def follow(self, app: AgentKeys) -> None:
        """Look at the session; the title changes only when it says something else."""
        working, asks = app.engine.working, len(app.engine.state.asks)
        sign = "? " if asks else "● " if working else ""
        title = f"{sign}friday · {line(app.engine.options.cwd.name, 40)}" if app.engine.session else ""
        if title and title != self._title:
            self._title = title
            write(app, f"\x1b]0;{title}\x07")
        now = time.monotonic()
        if working:
            self._since = self._since or now
        elif self._since is not None:
            if now - self._since > LONG_S:
                tell(app, "Friday is done")
            self._since = None
