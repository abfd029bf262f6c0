"""The signals that end `friday ask`."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress

_SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


class SignalHandler:
    """Handles SIGINT, SIGTERM and SIGHUP: the first signal calls `on_first`, a second one calls `on_second` and exits.

    `code`: the exit code of the first signal, 0 without one. Until the session is open, `on_first` cancels the opening.
    """

    def __init__(self) -> None:
        self.code = 0
        self.on_first: Callable[[], object] = lambda: None
        self.on_second: Callable[[], object] = lambda: None
        self.on_stop: Callable[[int], object] = lambda code: None
        """Called with the exit code before `on_first`."""
        self.write_rest: Callable[[], object] = lambda: None
        """Called before the second signal ends the process: output that is not written yet."""

    def watch(self, *, hang_up: bool = True) -> None:
        """Handle signals from now on; the first one cancels the current task. Without `hang_up` SIGHUP stays as it is."""
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        self.on_first = task.cancel
        for number, code in _SIGNALS.items():
            if number == signal.SIGHUP and not hang_up:
                continue
            with suppress(NotImplementedError, RuntimeError):  # not in the main thread
                loop.add_signal_handler(number, self._received, code)

    def _received(self, code: int) -> None:
        if self.code:
            self.on_second()
            with suppress(OSError):
                self.write_rest()
            os._exit(self.code)
        self.code = code
        self.on_stop(code)
        self.on_first()
