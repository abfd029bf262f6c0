"""The current state of a path, and the encoding of paths in events."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path
from typing import Self

import msgspec

from friday_cli.core.protocol.receipt import KeptFile
from friday_cli.system import safe_files
from friday_cli.system.beneath import FILE, WALK

HASHED = 256_000_000
"""Largest file whose sha256 is computed, in bytes."""
COMPARED = 1_000_000
"""Largest file whose changed lines are counted and shown, in bytes."""


class FileState(msgspec.Struct, frozen=True):
    """`mode` is the st_mode (0: the path does not exist), `digest` the sha256 of the content (of a link: of its target; ""
    for folders, devices and files above `HASHED`), `data` the content if it is not larger than requested, `size` in
    bytes, `hard_links` the number of names."""

    mode: int = 0
    digest: str = ""
    data: bytes | None = None
    size: int = 0
    hard_links: int = 1

    @property
    def kind(self) -> int:
        """The file type bits of `mode`: file, link, folder ...; 0 if it does not exist."""
        return stat.S_IFMT(self.mode)

    def has_content(self, mode: int, digest: str) -> bool:
        """Whether it is of the kind of `mode` and its content has this sha256."""
        return self.kind == stat.S_IFMT(mode) and self.digest == digest


ABSENT = FileState()
"""The state of a path that does not exist."""


def file_state(root: Path, path: Path, *, most: int) -> FileState:
    """The state of `path` below `root`, with `data` up to `most` bytes. No link in the path is followed. Raises OSError."""
    try:
        with safe_files.open_parent(root, path) as folder:
            found = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode):
                data = os.fsencode(os.readlink(path.name, dir_fd=folder))
                return FileState(found.st_mode, hashlib.sha256(data).hexdigest(), data, len(data))
            if not stat.S_ISREG(found.st_mode) or found.st_size > HASHED:
                return FileState(found.st_mode, size=found.st_size, hard_links=found.st_nlink)
            fd = os.open(path.name, FILE, dir_fd=folder)
            with os.fdopen(fd, "rb") as file:
                if found.st_size > most:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
                    return FileState(found.st_mode, digest, None, found.st_size, found.st_nlink)
                data = file.read()
            return FileState(found.st_mode, hashlib.sha256(data).hexdigest(), data, len(data), found.st_nlink)
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT


class ContentReader:
    """Reads many files. A folder stays open while files below it follow each other. No link in a path is followed."""

    def __init__(self) -> None:
        self._open: list[tuple[str, int]] = []
        """The path and the descriptor of each open folder; each is in the one before it, the first is a root."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._leave(None)

    def _leave(self, folder: str | None) -> None:
        """Close the folders that `folder` is not in; None: all."""
        while self._open and (folder is None or not f"{folder}/".startswith(f"{self._open[-1][0].rstrip('/')}/")):
            os.close(self._open.pop()[1])

    def _enter(self, root: str, folder: str) -> int:
        """The descriptor of a folder below `root`. Raises OSError."""
        if self._open and self._open[0][0] != root:
            self._leave(None)
        self._leave(folder)
        if not self._open:
            self._open.append((root, os.open(root, WALK)))
        at, opened = self._open[-1]
        for name in filter(None, folder[len(at) :].split("/")):
            at, opened = f"{at.rstrip('/')}/{name}", os.open(name, WALK, dir_fd=opened)
            self._open.append((at, opened))
        return opened

    def read(self, root: str, path: str, *, most: int) -> bytes | None:
        """The content of a file, or the target of a link; None if it cannot be read or is larger than `most` bytes."""
        folder, _, name = path.rpartition("/")
        try:
            above = self._open[-1][1] if self._open and self._open[-1][0] == folder else self._enter(root, folder)
            try:
                fd = os.open(name, FILE, dir_fd=above)
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
                return os.fsencode(os.readlink(name, dir_fd=above))
            try:
                found = os.fstat(fd)
                if not stat.S_ISREG(found.st_mode) or found.st_size > most:
                    return None
                data = os.read(fd, found.st_size + 1)
                while len(data) != found.st_size and (more := os.read(fd, 2**20)):
                    data += more
                return data
            finally:
                os.close(fd)
        except OSError:
            return None


def encode_path(label: str) -> tuple[str, str]:
    """A label as valid UTF-8, and its bytes in hex if that is not lossless ("" if it is)."""
    raw = os.fsencode(label)
    try:
        return raw.decode("utf-8"), ""
    except UnicodeDecodeError:
        return raw.decode("utf-8", "backslashreplace"), raw.hex()


def decode_path(root: Path, kept: KeptFile) -> Path:
    """The path of a recorded file, in the session whose folder is `root`."""
    return Path(os.path.normpath(root / (os.fsdecode(bytes.fromhex(kept.raw)) if kept.raw else kept.path)))


def text_of(data: bytes) -> str | None:
    """Bytes as text that can be compared; None if they are not text or above `COMPARED` bytes."""
    if len(data) > COMPARED or b"\0" in data:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None
