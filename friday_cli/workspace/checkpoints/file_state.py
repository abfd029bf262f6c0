"""What stands at a path just now, and how a path is written down so that it can be found again."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

import msgspec

from friday_cli.core.protocol.receipt import KeptFile

from ..fs import safe_files

HASHED = 256_000_000
"""Bytes of a file up to which its sha256 is worked out."""


class FileState(msgspec.Struct, frozen=True):
    """`mode` is the st_mode (0: nothing is there), `digest` the sha256 of what it holds (of a link: of where it leads; ""
    for folders, devices and what is huge), `data` that itself where it is not larger than asked for."""

    mode: int = 0
    digest: str = ""
    data: bytes | None = None
    size: int = 0
    names: int = 1

    @property
    def kind(self) -> int:
        """File, link, folder ..., 0 for nothing."""
        return stat.S_IFMT(self.mode)

    def holds(self, mode: int, digest: str) -> bool:
        """Whether it is of the kind of `mode` and holds what has this sha256."""
        return self.kind == stat.S_IFMT(mode) and self.digest == digest


NOTHING = FileState()


def file_state(root: Path, path: Path, *, most: int) -> FileState:
    """What stands at `path` below `root`, no link on the way followed; at most `most` bytes of it. Raises OSError."""
    try:
        with safe_files.parent(root, path) as folder:
            found = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode):
                data = os.fsencode(os.readlink(path.name, dir_fd=folder))
                return FileState(found.st_mode, hashlib.sha256(data).hexdigest(), data, len(data))
            if not stat.S_ISREG(found.st_mode) or found.st_size > HASHED:
                return FileState(found.st_mode, size=found.st_size, names=found.st_nlink)
            fd = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            with os.fdopen(fd, "rb") as file:
                if found.st_size > most:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
                    return FileState(found.st_mode, digest, None, found.st_size, found.st_nlink)
                data = file.read()
            return FileState(found.st_mode, hashlib.sha256(data).hexdigest(), data, len(data), found.st_nlink)
    except (FileNotFoundError, NotADirectoryError):
        return NOTHING


def named(label: str) -> tuple[str, str]:
    """A label as JSON can hold it, and its bytes in hex where that is not the same."""
    raw = os.fsencode(label)
    try:
        return raw.decode("utf-8"), ""
    except UnicodeDecodeError:
        return raw.decode("utf-8", "backslashreplace"), raw.hex()


def place(root: Path, kept: KeptFile) -> Path:
    """Where the file is that was written down, in the session whose folder is `root`."""
    return Path(os.path.normpath(root / (os.fsdecode(bytes.fromhex(kept.raw)) if kept.raw else kept.path)))
