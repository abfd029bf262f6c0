"""Temporary folders that last as long as their process: what a killed one left is removed by a later one."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress

PREFIX = "friday-run-"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class TemporaryFolder:
    """A private folder among the temporary files, at `path` until `close`. A lock on it says that its process is alive; where the file
    system has no such locks, nobody else removes it. Raises OSError."""

    path: str
    _handle: int

    def __init__(self) -> None:
        while not self._make():
            pass

    def _make(self) -> bool:
        """Create it. False if another process, which saw it before it was locked, removes it."""
        self.path = os.path.realpath(tempfile.mkdtemp(prefix=PREFIX))
        try:
            self._handle = os.open(self.path, _FOLDER)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(self._handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            kept = os.path.exists(self.path)
        except OSError as error:
            kept = not isinstance(error, BlockingIOError)
        if not kept:
            os.close(self._handle)
        return kept

    def close(self) -> None:
        """Remove it. Can be called more than once."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = -1


def remove_left() -> None:
    """Remove the folders of this user whose processes have ended. Blocks."""
    for name in os.listdir(tempfile.gettempdir()):
        if name.startswith(PREFIX):
            path = os.path.join(tempfile.gettempdir(), name)
            with suppress(OSError):
                _remove_if_left(path, os.open(path, _FOLDER))


def _remove_if_left(path: str, handle: int) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(handle).st_uid == os.geteuid():
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(handle)
