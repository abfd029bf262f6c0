"""Several changes of files at once: all of them, or none."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
from collections.abc import Sequence
from pathlib import Path

import msgspec

from friday_cli.core.protocol.errors import ToolError

from . import safe_files

LINK, FILE, PROGRAM = 0o120000, 0o100644, 0o100755
LIMIT = 256_000_000
"""Bytes of a file that is changed in this way."""


class FileContent(msgspec.Struct, frozen=True):
    """What a path holds: `mode` is LINK, FILE or PROGRAM, `data` the bytes, of a link where it leads. `rights` are the
    exact permission bits to give it, None: those it has, or a new file gets."""

    mode: int
    data: bytes
    rights: int | None = None

    @property
    def key(self) -> tuple[int, bytes]:
        """Equal where the same is held."""
        return self.mode, self.data


class FileWrite(msgspec.Struct, frozen=True):
    """One path and what it is to hold; None: nothing. It is only touched while it still holds `old`."""

    path: Path
    old: FileContent | None
    new: FileContent | None

    @property
    def digest(self) -> str:
        """The sha256 of what it will hold, "" for nothing."""
        return "" if self.new is None else hashlib.sha256(self.new.data).hexdigest()


def read_content(root: Path, path: Path) -> FileContent | None:
    """What `path` holds; no link on the way to it is followed. Raises OSError, and ToolError for folders and devices."""
    try:
        with safe_files.parent(root, path) as folder:
            return _content(folder, path.name)
    except FileNotFoundError:
        return None


def _content(folder: int, name: str) -> FileContent | None:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(found.st_mode):
        return FileContent(LINK, os.fsencode(os.readlink(name, dir_fd=folder)))
    if stat.S_ISDIR(found.st_mode):
        raise ToolError("it is a folder.")
    if not stat.S_ISREG(found.st_mode):
        raise ToolError("it is a device, pipe or socket.")
    if found.st_size > LIMIT:
        raise ToolError(f"it is larger than {LIMIT // 1_000_000} MB.")
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with os.fdopen(fd, "rb") as file:
        return FileContent(PROGRAM if found.st_mode & stat.S_IXUSR else FILE, file.read(LIMIT + 1))


def apply_atomically(steps: Sequence[tuple[Path, FileWrite]]) -> None:
    """Make all changes, each below its root. Raises ToolError, with everything as it was before; where even that fails,
    it names the files."""
    done: list[tuple[Path, FileWrite]] = []
    try:
        for root, step in steps:
            _make(root, step.path, step.old, step.new)
            done.append((root, step))
    except (OSError, ToolError) as error:
        reason = error.message if isinstance(error, ToolError) else f"{error.strerror}."
        left = _undone(done)
        words = f" These could not be put back as they were: {', '.join(left)}." if left else " Nothing was changed."
        raise ToolError(f"{step.path.name}: {reason}{words}") from None


def _undone(done: Sequence[tuple[Path, FileWrite]]) -> list[str]:
    left = []
    for root, step in reversed(done):
        try:
            _make(root, step.path, step.new, step.old)
        except (OSError, ToolError):
            left.append(str(step.path))
    return left


def _make(root: Path, path: Path, old: FileContent | None, new: FileContent | None) -> None:
    with safe_files.held(root, path, make=new is not None) as folder:
        here = _content(folder, path.name)
        if (here and here.key) != (old and old.key):
            raise ToolError("it changed just now.")
        if new is None:
            os.unlink(path.name, dir_fd=folder)
        elif new.mode == LINK and old is None:
            os.symlink(new.data, path.name, dir_fd=folder)
        else:
            _put(folder, path.name, old, new)
    if new is None:
        _tidy(root, path.parent)


def _put(folder: int, name: str, old: FileContent | None, new: FileContent) -> None:
    temporary = f".{name[:100]}.{secrets.token_hex(8)}.tmp"
    try:
        if new.mode == LINK:
            os.symlink(new.data, temporary, dir_fd=folder)
        else:
            _fill(folder, temporary, new, None if old is None or old.mode == LINK else name)
        if old is None:
            safe_files.appear(folder, temporary, name)
        else:
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _fill(folder: int, temporary: str, new: FileContent, before: str | None) -> None:
    """Write a file; its rights are those of `before`, but for who may run it."""
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=folder)
    try:
        mode = os.fstat(fd).st_mode
        if before is not None:
            found = os.stat(before, dir_fd=folder, follow_symlinks=False)
            if not found.st_mode & 0o222:
                raise ToolError("it is read-only.")
            mode = found.st_mode
            with contextlib.suppress(OSError):  # only root may give files away
                os.fchown(fd, found.st_uid, found.st_gid)
        mode = stat.S_IMODE(mode)
        mode = mode | (mode & 0o444) >> 2 if new.mode == PROGRAM else mode & ~0o111
        os.fchmod(fd, mode if new.rights is None else new.rights)
        view = memoryview(new.data)
        while view:
            view = view[os.write(fd, view) :]
        os.fsync(fd)
    finally:
        os.close(fd)


def _tidy(root: Path, folder: Path) -> None:
    """Remove the folders that a removal left empty, as git does."""
    while folder != root:
        try:
            with safe_files.parent(root, folder) as above:
                os.rmdir(folder.name, dir_fd=above)
        except OSError:
            return  # not empty
        folder = folder.parent
