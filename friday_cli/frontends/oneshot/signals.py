"""The signals that end `friday ask`."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

TWICE_S = 0.1
"""Seconds in which the same signal again is the same one: `timeout` sends it to a process and to its group."""
_SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


class SignalHandler:
    """Handles SIGINT, SIGTERM and SIGHUP. A second signal writes the rest of the output with `write_rest` and exits.

    `code`: the exit code of the first signal, 0 without one.
    """

    def __init__(self, write_rest: Callable[[], object] = lambda: None) -> None:
        self.code, self._at = 0, 0.0
        self._write_rest = write_rest
        self._on_first: Callable[[], object] = lambda: None
        self._on_second: Callable[[], object] = lambda: None
        self._on_stop: Callable[[int], object] = lambda code: None

    def watch(self, on_stop: Callable[[int], object] | None) -> None:
        """Handle signals from now on; the first one cancels the current task. `on_stop` is called with the exit code before that;
        None: the process is in the background, and SIGHUP stays as it is."""
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        self._on_first, self._on_stop = task.cancel, on_stop or self._on_stop
        for number, code in _SIGNALS.items():
            if number == signal.SIGHUP and on_stop is None:
                continue
            with suppress(NotImplementedError, RuntimeError):  # not in the main thread
                loop.add_signal_handler(number, self._received, code)

    def call(self, on_first: Callable[[], object], on_second: Callable[[], object] | None = None) -> None:
        """Call `on_first` for the first signal from now on, and `on_second` for a second one (None: what was called so far)."""
        self._on_first, self._on_second = on_first, on_second or self._on_second

    def _received(self, code: int) -> None:
        if self.code == code and time.monotonic() - self._at < TWICE_S:
            return
        if self.code:
            self._on_second()
            with suppress(OSError):
                self._write_rest()
            os._exit(self.code)
        self.code, self._at = code, time.monotonic()
        self._on_stop(code)
        self._on_first()
