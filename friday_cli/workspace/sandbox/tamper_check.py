"""Compares files that could run code or grant rights later, before and after a command. A change is reported where a
sandbox cannot prevent it (Landlock never can; bubblewrap cannot if the command creates the repository). It is not reverted:
the user may have made it at the same time."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Sequence

from .protected_paths import writable_folder

FILES, BYTES = 500, 16 * 1024 * 1024
"""Files that are scanned, and bytes of each that are read."""


ScannedFiles = dict[str, tuple[tuple[int, ...], str]]
"""The stamp (which begins with the mode) and the digest of each protected file, by path."""


def scan(roots: Sequence[str], before: ScannedFiles | None = None) -> ScannedFiles:
    """The protected files of `roots`. Files that did not change since the scan `before` are not read again."""
    found: ScannedFiles = {}
    for root in roots:
        for path in (*writable_folder(root).freeze, os.path.join(root, ".git", "commondir")):
            _walk(path, found, before or {})
    return found


def changed(before: ScannedFiles, after: ScannedFiles) -> tuple[str, ...]:
    """The protected files that differ, sorted. Git's sample hooks are ignored: git does not run them."""
    old, new = ({name: (stamp[0], digest) for name, (stamp, digest) in files.items()} for files in (before, after))
    names = sorted(name for name in old.keys() | new.keys() if not name.endswith(".sample"))
    return tuple(name for name in names if old.get(name) != new.get(name))


def _walk(path: str, found: ScannedFiles, before: ScannedFiles) -> None:
    if len(found) >= FILES:
        return
    try:
        status = os.lstat(path)
        if stat.S_ISDIR(status.st_mode):
            for name in sorted(os.listdir(path)):
                if name not in ("objects", "refs", "logs", "index"):  # modules/ contains whole repositories
                    _walk(os.path.join(path, name), found, before)
            return
        stamp = (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        known = before.get(path)
        found[path] = known if known and known[0] == stamp else (stamp, _digest(path, status))
    except OSError:
        return


def _digest(path: str, status: os.stat_result) -> str:
    if stat.S_ISLNK(status.st_mode):
        return os.readlink(path)
    if not stat.S_ISREG(status.st_mode):
        return ""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return hashlib.sha256(file.read(BYTES)).hexdigest()
