"""Detects which files changed while a command ran, with a scan of limited time."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from friday_cli.core.protocol.receipt import GONE, FileChange

SCAN_CPU_S, SCAN_S = 0.05, 1.0
"""Limits of one scan, in seconds: processor time, and elapsed time on a busy machine or a slow file system."""
FILES, BYTES = 50, 32 * 1024 * 1024
"""Changed files that are listed, and bytes of them that are read for their hashes."""
LISTED_GONE = 10
"""Removed files that are listed one by one."""
SKIPPED = frozenset(
    (
        ".git",
        ".hg",
        ".svn",
        "node_modules",
        ".venv",
        "venv",
        "__pycache__",
        ".tox",
        ".nox",
        ".cache",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        ".hypothesis",
        ".gradle",
        ".idea",
        ".next",
    )
)
"""Folders of tools, which are not scanned."""
BUILD_FOLDERS = frozenset(("target", "dist", "build", "vendor"))
"""Folders that usually contain generated files."""
_COARSE = 5
"""Linux's CLOCK_REALTIME_COARSE, the clock that file systems take timestamps from."""


class FileEffect(msgspec.Struct, frozen=True):
    """What commands did to a file: its st_mode and sha256 before and after (0 and "": it did not exist), and the lines
    added and removed, 0 if they are not known."""

    before: tuple[int, str]
    after: tuple[int, str]
    added: int = 0
    removed: int = 0


def with_effects(
    found: Sequence[FileChange], effects: Mapping[Path, FileEffect], *, label: Callable[[Path], str], remark: str
) -> tuple[FileChange, ...]:
    """The rows of `since`, with line counts, links, and the files that were removed, as far as `effects` has them."""
    rows = {row.path: row for row in found}
    cut, more = any(not row.sha256 for row in found), 0
    removed: dict[str, FileChange] = {}
    for path, effect in sorted(effects.items()):
        name, (mode, digest) = label(path), effect.after
        if effect.before == effect.after:
            continue
        if not mode:
            rows.pop(name, None)
            removed[name] = FileChange(name, 0, effect.removed, seen=f"{GONE}, {remark}")
        elif name in rows or len(rows) < FILES:
            seen = f"a link, {remark}" if stat.S_ISLNK(mode) else remark
            rows[name] = FileChange(name, effect.added, effect.removed, digest, seen)
        else:
            more += 1
    if more and not cut:
        rows[""] = FileChange(f"({more} more files)", seen=remark)
    return (
        *rows.values(),
        *(removed.values() if len(removed) <= LISTED_GONE else _folded(removed, f"{GONE}, {remark}")),
    )


def _folded(removed: Mapping[str, FileChange], seen: str) -> list[FileChange]:
    """Removed files, counted by their top folder."""
    counts = Counter(name.partition("/")[0] + "/" if "/" in name else name for name in removed)
    files = [name for name in counts if not name.endswith("/")]
    rows = [FileChange(f"{name} ({n:,} files)", seen=seen) for name, n in counts.items() if name.endswith("/")]
    if len(files) > LISTED_GONE:
        return [*rows, FileChange(f"{files[0]} and {len(files) - 1:,} more files", seen=seen)]
    return [*rows, *(removed[name] for name in files)]


def now() -> int:
    """The timestamp that a file written now would get, in nanoseconds."""
    try:
        return time.clock_gettime_ns(_COARSE)
    except OSError:
        return time.time_ns()


def since(
    roots: Sequence[Path],
    start: int,
    *,
    among: Sequence[str] | None,
    label: Callable[[Path], str],
    known: dict[str, str],
    remark: str,
) -> tuple[FileChange, ...] | None:
    """Files below `roots`, or of `among` if it is known that only these can, changed at or after `start` (nanoseconds);
    None when the scan exceeds its time limits. Files that have the hash in `known`, which are what Friday itself wrote, are
    omitted. `remark` becomes the `seen` of each row."""
    found = _touched(roots, start) if among is None else _touched_of(among, start)
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
    cpu_deadline, deadline = time.thread_time() + SCAN_CPU_S, time.monotonic() + SCAN_S
    found, folders = [], [str(root) for root in roots]
    while folders:
        if time.thread_time() > cpu_deadline or time.monotonic() > deadline:
            return None
        try:
            with os.scandir(folders.pop()) as names:
                for name in names:
                    if name.is_dir(follow_symlinks=False):
                        if name.name not in SKIPPED and name.name not in BUILD_FOLDERS:
                            folders.append(name.path)
                    elif name.is_file(follow_symlinks=False):
                        status = name.stat(follow_symlinks=False)
                        if status.st_ctime_ns >= start:
                            found.append((name.path, status.st_size))
        except OSError:
            continue  # removed since, or not readable
    return found


def _touched_of(paths: Sequence[str], start: int) -> list[tuple[str, int]]:
    found = []
    for path in paths:
        with contextlib.suppress(OSError):  # removed since
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode) and status.st_ctime_ns >= start:
                found.append((path, status.st_size))
    return found


def _digest(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() if stat.S_ISREG(os.fstat(fd).st_mode) else ""
    except OSError:
        return ""
