"""Watches, from a thread, an event loop whose thread may wait in the kernel for a file system that does not answer (a network drive, FUSE).

There no handler of a signal runs, and no time limit: the kernel lets such a thread end only with its process. Needs Linux's /proc.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress

LOOK_S = 1.0
"""Seconds between two looks. Time is counted in looks: a process that is stopped makes none."""
REST_S = 10.0
"""Seconds until the next look at a process that nobody sits at, while its event loop turns: there may be fifty of them."""
ENDS_AFTER = 3
"""Looks that a signal, or a press of Ctrl+C, may wait."""
TOLD_AFTER = 10
"""Looks without a turn of the event loop after which the person is told; after a time limit, the process ends then."""
STOPPED_AFTER = 60
"""Looks after which a process that is being ended by a signal ends, whatever it waits for."""
WRITE_S = 1.0
"""Seconds that a text for the person may take: what it is written to may not answer either."""
WAITS = "waits for a file system or a terminal that does not answer; Ctrl+C ends it"
STOPS = "has not ended yet: a file system may not answer; the same signal again ends it"
_ENDS = "friday: ended without waiting for what does not answer, such as a file system.\n"
_ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


class BlockedWatch:
    """Looks every `LOOK_S` seconds until the end of the event loop on which it is made; after `stopping`, until the end of the process.

    `background`: nobody sits at the process, and it looks every `REST_S` seconds while all is well. `limit_s`: seconds after which the process also ends where no signal came, with `code`; None for never. `tell` gets the text for a
    person, and "" when the loop goes on; `restore` gives the terminal back. Both are called on the thread of the watch.
    """

    def __init__(
        self,
        limit_s: float | None = None,
        code: int = 1,
        *,
        background: bool = False,
        tell: Callable[[str], object] | None = None,
        restore: Callable[[], object] = lambda: None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._limit, self._code, self._rest_s = limit_s, code, REST_S if background else LOOK_S
        self._tell, self._restore = tell or _tell, restore
        self._status = f"/proc/self/task/{threading.get_native_id()}/status"
        self._turned, self._pressed, self._silent = False, False, 0
        self._stop_code, self._stopped = 0, 0
        if os.path.exists(self._status):
            threading.Thread(target=self._run, name="blocked watch", daemon=True).start()

    def press(self) -> None:
        """Ctrl+C was typed where the terminal makes no signal of it: it counts where the loop did not turn lately. Called on any thread."""
        self._pressed = self._silent > 0

    def stopping(self, code: int) -> None:
        """A signal ends the process, with `code`. After `STOPPED_AFTER` looks it ends even if a thread waits for what does not answer."""
        self._stop_code = code

    def _turn(self) -> None:
        self._turned, self._pressed = True, False

    def _run(self) -> None:
        waiting, left, told = dict.fromkeys(_ENDING, 0), self._limit, False
        while not self._loop.is_closed():
            if self._silent == 0:
                with suppress(RuntimeError):  # closed
                    self._loop.call_soon_threadsafe(self._turn)
            pause = LOOK_S if self._silent else self._rest_s
            time.sleep(pause)
            left = None if left is None else left - pause
            self._look_at_stop()
            blocked, signals = (False, set[int]()) if self._turned else _look(self._status)
            waiting = {number: waiting[number] + 1 if number in signals else 0 for number in _ENDING}
            if self._turned or not blocked:
                self._silent, self._turned = 0, False
                if told:
                    _within_limit(lambda: self._tell(""))
                told = False
                continue
            self._silent += 1
            if self._pressed and self._silent >= ENDS_AFTER:
                self._end(128 + signal.SIGINT)
            for number, looks in waiting.items():
                if looks > ENDS_AFTER:
                    self._end(128 + number)
            if self._silent >= TOLD_AFTER and left is not None and left < 0:
                self._end(self._code)
            if self._silent >= TOLD_AFTER and not told:
                told = True
                _within_limit(lambda: self._tell(WAITS))
        while self._stop_code:  # the interpreter waits for each thread of the executor
            time.sleep(LOOK_S)
            self._look_at_stop()

    def _look_at_stop(self) -> None:
        self._stopped += bool(self._stop_code)
        if self._stopped == TOLD_AFTER:
            _within_limit(lambda: self._tell(STOPS))
        elif self._stopped >= STOPPED_AFTER:
            self._end(self._stop_code)

    def _end(self, code: int) -> None:
        _within_limit(lambda: (self._restore(), os.write(2, _ENDS.encode())))
        os._exit(code)


def _look(path: str) -> tuple[bool, set[int]]:
    """Whether the thread of a /proc status file waits in the kernel, and the signals that wait for it although it does not block them."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            fields = dict(line.split(":", 1) for line in file if ":" in line)
        waiting = (int(fields["SigPnd"], 16) | int(fields["ShdPnd"], 16)) & ~int(fields["SigBlk"], 16)
        return fields["State"].strip()[:1] in "SD", {number for number in _ENDING if waiting >> (number - 1) & 1}
    except (OSError, KeyError, ValueError):
        return False, set()


def _tell(text: str) -> None:
    if text:
        os.write(2, f"friday: {text}\n".encode())


def _within_limit(call: Callable[[], object]) -> None:
    """Call on a thread of its own and wait for at most `WRITE_S` seconds."""

    def run() -> None:
        try:
            call()
        except Exception:  # what cannot be told or restored must not keep the process
            return

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(WRITE_S)
