"""Files in the cache folder that keep what Friday would compute again. One that other users could write is not read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def read(path: Path) -> bytes | None:
    """The content of `path`; None if there is no such file, or if other users than this one may write it."""
    try:
        with open(path, "rb") as file:
            facts = os.fstat(file.fileno())
            trusted = facts.st_uid == os.geteuid() and not stat.S_IMODE(facts.st_mode) & 0o022
            return file.read() if trusted else None
    except OSError:
        return None


def write(path: Path, content: bytes) -> bool:
    """Replace `path`, readable only for this user. Returns False if that failed, which is no error."""
    from friday_cli import atomic_file

    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        atomic_file.replace_bytes(path, content, mode=0o600)
        return True
    return False


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
