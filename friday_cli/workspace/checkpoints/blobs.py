"""A place for contents by their sha256: private, written whole or not at all, the oldest removed where it grows too large."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from friday_cli.paths import data_dir

if TYPE_CHECKING:
    from friday_cli.config import Settings

MEGABYTE = 1_000_000


class Blobs:
    """The contents that one session keeps in `folder`, made when first needed. Above `most` bytes the oldest go.

    Every call blocks, and may raise OSError.
    """

    def __init__(self, folder: Path, *, most: int) -> None:
        self.folder = folder
        self._most = most
        self._size: int | None = None

    def put(self, data: bytes, *, durable: bool = True) -> str:
        """Keep `data`; its sha256. If `durable`, it survives a power cut when this returns."""
        digest = hashlib.sha256(data).hexdigest()
        path = self.folder / digest
        try:
            os.utime(path)
            return digest
        except FileNotFoundError:
            pass
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
        self._grown(len(data), digest)
        return digest

    def get(self, digest: str) -> bytes | None:
        """What has this sha256; None where it is not kept any more, or is damaged."""
        try:
            data = (self.folder / digest).read_bytes()
        except OSError:
            return None
        return data if hashlib.sha256(data).hexdigest() == digest else None

    def has(self, digest: str) -> bool:
        """Whether something with this sha256 is kept."""
        return (self.folder / digest).is_file()

    def take(self, other: Path, digests: Iterable[str]) -> None:
        """Keep what the folder `other` of another session keeps of these; the two share the disk space."""
        for digest in digests:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                os.link(other / digest, self.folder / digest)
            except (FileExistsError, FileNotFoundError):
                continue
            except OSError:  # a file system without hard links
                with contextlib.suppress(OSError):
                    shutil.copyfile(other / digest, self.folder / digest)

    def _grown(self, size: int, newest: str) -> None:
        """Count `size` more bytes, and remove the oldest contents where that is too much."""
        if self._size is None:
            self._size = sum(found for _, found, _ in _files(self.folder))
        else:
            self._size += size
        if self._size <= self._most:
            return
        for _, found, path in sorted(_files(self.folder)):
            if self._size <= self._most * 0.9:
                break
            if path.name != newest:
                path.unlink(missing_ok=True)
                self._size -= found


def prune(place: Path, *, most: int, live: Callable[[str], bool]) -> int:
    """Remove the oldest contents of all sessions below `place` while they take more than `most` bytes, none of those that
    are `live`; gives how many went."""
    folders = [f for f in place.iterdir() if f.is_dir() and not f.is_symlink()] if place.is_dir() else []
    found = [row for folder in folders for row in _files(folder)]
    taken, gone = sum(size for _, size, _ in found), 0
    spared = {folder.name for folder in folders if live(folder.name)} if taken > most else set()
    for _, size, path in sorted(found):
        if taken <= most:
            break
        if path.parent.name not in spared:
            path.unlink(missing_ok=True)
            taken, gone = taken - size, gone + 1
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()  # where nothing is left in it
    return gone


def _sync(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _files(folder: Path) -> list[tuple[float, int, Path]]:
    """Time, size and path of each content."""
    rows = []
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                if entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    rows.append((status.st_mtime, status.st_size, Path(entry.path)))
    return rows


def blobs_of(session: str, settings: Settings, env: Mapping[str, str] | None = None) -> Blobs:
    """Where the earlier contents of a session's files are kept."""
    return Blobs(data_dir(env) / "checkpoints" / session, most=settings.checkpoints.megabytes * MEGABYTE)
