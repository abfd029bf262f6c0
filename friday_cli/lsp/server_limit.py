"""How many language servers run at the same time in all sessions of a person. Each has the lock of a file, which the kernel releases
when the process of its session ends in any way."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

WANTED_S = 60.0
"""Seconds for which it is known that a session was refused a server."""


class ServerLimit:
    """At most `most` servers, whose lock files are in `folder`. Every call blocks."""

    def __init__(self, folder: Path, most: int) -> None:
        self._folder, self._most = folder, most

    def take(self) -> Callable[[], None] | None:
        """Counts one more server until the result is called; None if as many run as may. Where files cannot be locked, none is
        refused."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for number in range(self._most):
                handle = os.open(self._folder / f"{number}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return partial(os.close, handle)
                except OSError as error:
                    os.close(handle)
                    if error.errno != errno.EWOULDBLOCK:
                        raise
        except OSError:
            return lambda: None
        return None

    def refused(self) -> None:
        """Let the other sessions know that one needs a server."""
        try:
            (self._folder / "wanted").touch(mode=0o600)
        except OSError:
            pass  # it goes on without one

    def is_wanted(self) -> bool:
        """Whether a session was refused a server in the last minute."""
        try:
            return time.time() - (self._folder / "wanted").stat().st_mtime < WANTED_S
        except OSError:
            return False
