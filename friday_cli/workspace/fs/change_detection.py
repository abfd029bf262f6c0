"""Which files changed while a command ran, where a short look can tell."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from friday_cli.core.protocol.receipt import FileChange

LOOK_S, LOOK_MOST_S = 0.05, 1.0
"""How long a look at the workspace may take: seconds of the processor, and by the clock, where a machine is busy or a
file system slow."""
FILES, BYTES = 50, 32 * 1024 * 1024
"""How many changed files are listed, and how much of them is read for their hashes."""
_SKIPPED = frozenset(
    (".git", ".hg", ".svn", "node_modules", ".venv", "venv", "__pycache__", "target", "dist", "build", ".tox", ".nox",
     ".cache", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".gradle", ".idea", ".next", "vendor")
)  # fmt: skip
_COARSE = 5
"""Linux's CLOCK_REALTIME_COARSE, the clock file systems stamp with."""


def now() -> int:
    """The time a file would be stamped with, in nanoseconds."""
    try:
        return time.clock_gettime_ns(_COARSE)
    except OSError:
        return time.time_ns()


def since(
    roots: Sequence[Path], start: int, *, label: Callable[[Path], str], known: dict[str, str], remark: str
) -> tuple[FileChange, ...] | None:
    """Files below `roots` changed at or after `start`; None when there is too much to look through.

    `known` gives the hashes of what Friday itself wrote: files that still hold just that are left out.
    """
    found = _touched(roots, start)
    if found is None:
        return None
    rows: list[FileChange] = []
    room = BYTES
    more = 0
    for path, size in sorted(set(found)):
        room -= size
        if len(rows) == FILES or room < 0:
            more += 1
            continue
        digest = _digest(path)
        if digest and known.get(path) != digest:
            rows.append(FileChange(label(Path(path)), sha256=digest, seen=remark))
    if more:
        rows.append(FileChange(f"({more} more files)", seen=remark))
    return tuple(rows)


def _touched(roots: Sequence[Path], start: int) -> list[tuple[str, int]] | None:
    worked, until = time.thread_time() + LOOK_S, time.monotonic() + LOOK_MOST_S
    found, folders = [], [str(root) for root in roots]
    while folders:
        if time.thread_time() > worked or time.monotonic() > until:
            return None
        try:
            with os.scandir(folders.pop()) as names:
                for name in names:
                    if name.is_dir(follow_symlinks=False):
                        if name.name not in _SKIPPED:
                            folders.append(name.path)
                    elif name.is_file(follow_symlinks=False):
                        status = name.stat(follow_symlinks=False)
                        if status.st_ctime_ns >= start:
                            found.append((name.path, status.st_size))
        except OSError:
            continue  # gone meanwhile, or not ours to read
    return found


def _digest(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() if stat.S_ISREG(os.fstat(fd).st_mode) else ""
    except OSError:
        return ""
