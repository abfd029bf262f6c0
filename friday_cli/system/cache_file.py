"""Files in the cache folder that keep what Friday would compute again. One that other users could write is not read."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from .paths import cache_dir, text_of

LARGEST = 64_000_000
"""Bytes of a file that is read: many times what Friday writes."""
KEPT_S = 90 * 86_400
"""Seconds after which the unused cache of a folder is removed."""


def read(path: Path) -> bytes | None:
    """The content of `path`; None if there is no such regular file, if it is larger than `LARGEST`, or if other users than this
    one may write it or replace it."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            facts = os.fstat(file.fileno())
            trusted = stat.S_ISREG(facts.st_mode) and _is_own(facts) and _is_own(os.stat(path.parent))
            return file.read() if trusted and facts.st_size <= LARGEST else None
    except OSError:
        return None


def _is_own(facts: os.stat_result) -> bool:
    return facts.st_uid == os.geteuid() and not stat.S_IMODE(facts.st_mode) & 0o022


def write(path: Path, content: bytes) -> bool:
    """Replace `path`, readable only for this user. Returns False if that failed, which is not an error."""
    from . import atomic_file

    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not _is_own(path.parent.stat()):
            path.parent.chmod(0o700)
        atomic_file.replace_bytes(path, content, mode=0o600)
        return True
    return False


def of_folder(kind: str, folder: Path, env: Mapping[str, str] | None) -> Path | None:
    """The cache file of this `kind` ("skills") for what was read below `folder`; None where agents could write it there."""
    import hashlib  # takes 3 ms; most folders need none

    path = cache_dir(env) / f"{kind}-{hashlib.sha256(text_of(folder).encode()).hexdigest()[:16]}"
    return None if path.is_relative_to(folder) else path


def write_of_folder(path: Path, content: bytes) -> None:
    """Write the cache file of a folder and remove those of its kind that were not used for `KEPT_S`. The folder for caches is made by
    the first session: to look at files changes nothing on a new machine."""
    if path.parent.is_dir() and write(path, content):
        with suppress(OSError):
            for old in path.parent.glob(f"{path.name.rpartition('-')[0]}-*"):
                if old.stat().st_mtime < time.time() - KEPT_S:
                    old.unlink()


def code_stamp(*code: Path) -> str:
    """Changes when one of these source files, or one in these folders, changes."""
    return " ".join(f"{os.path.basename(path)}:{os.stat(path).st_mtime_ns}" for path in _sources(code))


def _sources(code: tuple[Path, ...]) -> Iterator[str]:
    for path in code:
        if path.suffix == ".py":
            yield str(path)
            continue
        for folder, folders, files in os.walk(path):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            yield from (os.path.join(folder, name) for name in sorted(files) if name.endswith(".py"))
