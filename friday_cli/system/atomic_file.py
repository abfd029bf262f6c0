"""Locks and atomically replaces small files that several processes change."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file of `path` for the block; wait for other processes. Raises OSError."""
    import fcntl

    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open(path.with_name(path.name + ".lock"), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def replace(path: Path, content: str, *, mode: int | None = None) -> None:
    """Replace the file by `content` atomically. `mode` None: keep the mode (0600 for a new file). Raises OSError."""
    replace_bytes(path, content.encode(), mode=mode)


def replace_bytes(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Like `replace`, for bytes."""
    import tempfile

    if mode is None:
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name + ".")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
