"""Shares rate limits between friday processes: until when none of them may send a request, and when one succeeded last.

Each is the modification time of an empty file in the state folder, named by a hash of the lane (a model service and key).
There is no lock: two writers at once can at worst shorten a wait. A time in the past, or later than any wait may be, is
ignored.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from friday_cli.core.limits.rate_limit import RETRY_AFTER_MOST_S
from friday_cli.system.paths import state_dir


class FileSharedRateLimit:
    """Implements `SharedRateLimit` for one lane. If files cannot be written, processes do not see each other."""

    def __init__(self, lane: str, env: Mapping[str, str] | None = None) -> None:
        name = hashlib.sha256(lane.encode("utf-8", "replace")).hexdigest()[:16]
        self._file = state_dir(env) / "lanes" / name
        self._served = self._file.with_suffix(".served")

    def closed_until(self) -> float:
        """When requests may start again, in Unix seconds; 0: now."""
        until = _changed(self._file)
        return until if 0 < until - time.time() <= RETRY_AFTER_MOST_S else 0.0

    def close_until(self, at: float) -> None:
        """Let all processes wait until `at` (Unix seconds), at most a minute from now. Never shortens a longer wait."""
        until = min(at, time.time() + RETRY_AFTER_MOST_S)
        if until > self.closed_until():
            _touch(self._file, until)

    def served_at(self) -> float:
        """When a request of any process succeeded last, in Unix seconds; 0 if unknown."""
        return _changed(self._served)

    def serve(self) -> None:
        """Record that a request succeeded now."""
        _touch(self._served, time.time())


def _changed(file: Path) -> float:
    try:
        return os.stat(file).st_mtime
    except OSError:
        return 0.0


def _touch(file: Path, at: float) -> None:
    with suppress(OSError):
        try:
            os.utime(file, (at, at))
        except FileNotFoundError:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(file, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
            os.utime(file, (at, at))
