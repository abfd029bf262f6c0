"""What friday processes tell each other of a crowded lane: until when none of them starts a request on it, and when one
of them was served last.

Each is the time of change of an empty file in the state folder; a hash is the lane's name. There is no lock: the worst that
two writers at once can do is to wait a little less. A wait that lies in the past, or further off than any wait may be, says
nothing.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from friday_cli.core.limits.rate_limit import RETRY_AFTER_MOST_S
from friday_cli.paths import state_dir


class FileSharedRateLimit:
    """The `core.gate.Shared` of one lane. Where files cannot be kept it knows of nobody else."""

    def __init__(self, lane: str, env: Mapping[str, str] | None = None) -> None:
        name = hashlib.sha256(lane.encode("utf-8", "replace")).hexdigest()[:16]
        self._file = state_dir(env) / "lanes" / name
        self._served = self._file.with_suffix(".served")

    def closed_until(self) -> float:
        """When requests may start again, in Unix seconds; 0 when they may now."""
        until = _changed(self._file)
        return until if 0 < until - time.time() <= RETRY_AFTER_MOST_S else 0.0

    def close_until(self, at: float) -> None:
        """Tell the others to wait until `at` (Unix seconds), at most a minute from now; never shortens a longer wait."""
        until = min(at, time.time() + RETRY_AFTER_MOST_S)
        if until > self.closed_until():
            _touch(self._file, until)

    def served_at(self) -> float:
        """When a request of any process was served last, in Unix seconds; 0 when none is known of."""
        return _changed(self._served)

    def serve(self) -> None:
        """Tell the others that a request was served just now."""
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
