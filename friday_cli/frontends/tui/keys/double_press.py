"""Detects that a key is pressed twice for the same action, as Ctrl+C to quit and Esc to rewind."""

from __future__ import annotations

import time
from collections.abc import Callable

AGAIN_S = 1.5
"""Seconds within which the second press counts."""


class DoublePress:
    """Remembers the last press. `on_second` is called when a press is the second one, or is forgotten."""

    def __init__(self, on_second: Callable[[], object] | None = None) -> None:
        self._on_second = on_second
        self._last = ("", 0.0)

    def again(self, action: str) -> bool:
        """Record a press for `action`. True when the press before was for the same action and recent."""
        now = time.monotonic()
        (action_before, pressed_at), self._last = self._last, (action, now)
        second = action_before == action and now - pressed_at < AGAIN_S
        if second:
            self._last = ("", 0.0)  # the next press is a first one
            if self._on_second is not None:
                self._on_second()
        return second

    def forget(self) -> None:
        """Forget the last press, and take back what was said about a second one."""
        if self._last[0] and self._on_second is not None:
            self._on_second()
        self._last = ("", 0.0)
