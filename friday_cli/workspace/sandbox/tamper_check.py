"""Looks at files that would run code or grant rights later, before and after a command.

Where a sandbox cannot protect them (Landlock never can, bubblewrap not where they come into being with the command) a
change is seen and told. It is not put back: the person may have made it in the meantime, and nobody could tell.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Sequence
from typing import NamedTuple

from .protected_paths import ground

FILES, BYTES = 500, 16 * 1024 * 1024
"""How many files are looked at, and how much of one is read."""


class _FileStamp(NamedTuple):
    stamp: tuple[int, ...]
    digest: str


Looked = dict[str, _FileStamp]


def look(roots: Sequence[str], before: Looked | None = None) -> Looked:
    """What stands in the protected places of `roots` now; what has not been touched since `before` is not read again."""
    found: Looked = {}
    for root in roots:
        for place in (*ground(root).freeze, os.path.join(root, ".git", "commondir")):
            _walk(place, found, before or {})
    return found


def changed(before: Looked, after: Looked) -> tuple[str, ...]:
    """The protected files that are not what they were, sorted. Git's own samples are no hooks."""
    names = sorted(name for name in before.keys() | after.keys() if not name.endswith(".sample"))
    return tuple(name for name in names if _what(before.get(name)) != _what(after.get(name)))


def _what(seen: _FileStamp | None) -> tuple[int, str] | None:
    return (seen.stamp[0], seen.digest) if seen else None


def _walk(path: str, found: Looked, before: Looked) -> None:
    if len(found) >= FILES:
        return
    try:
        status = os.lstat(path)
        if stat.S_ISDIR(status.st_mode):
            for name in sorted(os.listdir(path)):
                if name not in ("objects", "refs", "logs", "index"):  # below modules/ lie whole repositories
                    _walk(os.path.join(path, name), found, before)
            return
        stamp = (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        known = before.get(path)
        found[path] = known if known and known.stamp == stamp else _FileStamp(stamp, _digest(path, status))
    except OSError:
        return


def _digest(path: str, status: os.stat_result) -> str:
    if stat.S_ISLNK(status.st_mode):
        return os.readlink(path)
    if not stat.S_ISREG(status.st_mode):
        return ""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return hashlib.sha256(file.read(BYTES)).hexdigest()
