"""A store of file contents by sha256: private, written atomically, the oldest contents removed above a size limit."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from friday_cli.system.paths import data_dir

if TYPE_CHECKING:
    from friday_cli.config import Settings

MEGABYTE = 1_000_000


class Blobs:
    """The contents that one session stores in `folder`, which is created when first needed. Above `most` bytes the oldest
    are removed. Every call blocks and may raise OSError."""

    def __init__(self, folder: Path, *, most: int) -> None:
        self.folder = folder
        self._most = most
        self._size: int | None = None

    def put(self, data: bytes, *, durable: bool = True) -> str:
        """Store `data` and return its sha256. With `durable` it survives a power failure once this returns."""
        digest = hashlib.sha256(data).hexdigest()
        path = self.folder / digest
        with contextlib.suppress(FileNotFoundError):
            os.utime(path)
            return digest
        if not self.folder.is_dir():
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if durable:
                _sync(self.folder.parent)
        temporary = self.folder / f".{secrets.token_hex(8)}.tmp"
        try:
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(data)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            os.rename(temporary, path)
            if durable:
                _sync(self.folder)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        self._limit_size(len(data), digest)
        return digest

    def get(self, digest: str) -> bytes | None:
        """The content with this sha256; None if it is not stored or damaged."""
        try:
            data = (self.folder / digest).read_bytes()
        except OSError:
            return None
        return data if hashlib.sha256(data).hexdigest() == digest else None

    def has(self, digest: str) -> bool:
        """Whether a content with this sha256 is stored."""
        return (self.folder / digest).is_file()

    def copy_from(self, other: Path, digests: Iterable[str]) -> None:
        """Add those of `digests` that the folder `other` of another session has; hard links share the disk space."""
        for digest in digests:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                os.link(other / digest, self.folder / digest)
            except (FileExistsError, FileNotFoundError):
                continue
            except OSError:  # a file system without hard links
                with contextlib.suppress(OSError):
                    shutil.copyfile(other / digest, self.folder / digest)

    def _limit_size(self, size: int, newest: str) -> None:
        """Count `size` more bytes, and remove the oldest contents above the limit."""
        self._size = sum(found for _, found, _ in _files(self.folder)) if self._size is None else self._size + size
        if self._size <= self._most:
            return
        for _, found, path in sorted(_files(self.folder)):
            if self._size <= self._most * 0.9:
                break
            if path.name != newest:
                path.unlink(missing_ok=True)
                self._size -= found


def prune(parent: Path, *, most: int, live: Callable[[str], bool]) -> int:
    """Remove the oldest contents of all sessions below `parent` until they take at most `most` bytes, except those of
    `live` sessions. Returns the number of removed contents."""
    folders = [f for f in parent.iterdir() if f.is_dir() and not f.is_symlink()] if parent.is_dir() else []
    found = [row for folder in folders for row in _files(folder)]
    used, removed = sum(size for _, size, _ in found), 0
    spared = {folder.name for folder in folders if live(folder.name)} if used > most else set()
    for _, size, path in sorted(found):
        if used <= most:
            break
        if path.parent.name not in spared:
            path.unlink(missing_ok=True)
            used, removed = used - size, removed + 1
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()  # only if it is empty
    return removed


def _sync(folder: Path) -> None:
    """Flush the entries of a folder to the disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _files(folder: Path) -> list[tuple[float, int, Path]]:
    """Modification time, size and path of each content."""
    rows = []
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                if entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    rows.append((status.st_mtime, status.st_size, Path(entry.path)))
    return rows


def baseline_of(session: str, env: Mapping[str, str] | None = None) -> Path:
    """The file with what the folder of a session held before a command that runs."""
    return data_dir(env) / "baselines" / session / "files"


def blobs_of(session: str, settings: Settings, env: Mapping[str, str] | None = None) -> Blobs:
    """The store for the files of a session."""
    return Blobs(data_dir(env) / "checkpoints" / session, most=settings.checkpoints.megabytes * MEGABYTE)
