"""Ends synchronous work that takes too long, a match of a regular expression included."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SCHEMA_S = 1.0
"""Seconds for checking one document against a JSON Schema, which may come from a model or a server."""
TOO_SLOW = f"it cannot be checked within {SCHEMA_S:g} s; a pattern of the schema may be too slow"


class TookTooLong(Exception):
    """The time is over."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises TookTooLong in the block after `seconds`. The block must not await: what else runs would be ended instead. Python's `re` looks
    for signals while it matches, so that SIGALRM ends a match. Only the main thread gets signals: in another one there is no limit."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def late(signum: int, frame: FrameType | None) -> None:
        raise TookTooLong

    handler = signal.signal(signal.SIGALRM, late)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL if handler is None else handler)
        if timer[0]:
            signal.setitimer(signal.ITIMER_REAL, *timer)
