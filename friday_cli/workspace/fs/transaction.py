"""Applies several file changes at once: all of them, or none."""

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
"""Largest file that is changed in this way, in bytes."""


class FileContent(msgspec.Struct, frozen=True):
    """The content of a path. `mode` is LINK, FILE or PROGRAM; `data` the bytes of the file, or the target of a link.
    `rights` are exact permission bits to set; None keeps those it has, or gives those of a new file."""

    mode: int
    data: bytes
    rights: int | None = None

    @property
    def key(self) -> tuple[int, bytes]:
        """Equal for equal content; `rights` do not count."""
        return self.mode, self.data


class FileWrite(msgspec.Struct, frozen=True):
    """One path and its new content; None deletes it. It is changed only while its content still is `old`."""

    path: Path
    old: FileContent | None
    new: FileContent | None

    @property
    def digest(self) -> str:
        """The sha256 of the new content, "" for a deletion."""
        return "" if self.new is None else hashlib.sha256(self.new.data).hexdigest()


def read_content(root: Path, path: Path) -> FileContent | None:
    """The content of `path`; None if it does not exist. No link in the path is followed. Raises OSError, and ToolError
    for folders, devices and files above `LIMIT`."""
    try:
        with safe_files.open_parent(root, path) as folder:
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
    """Make all changes, each below its root. If one fails, the earlier ones are reverted and ToolError is raised; it names
    the files that could not be reverted."""
    done: list[tuple[Path, FileWrite]] = []
    try:
        for root, step in steps:
            _make(root, step.path, step.old, step.new)
            done.append((root, step))
    except (OSError, ToolError) as error:
        reason = error.message if isinstance(error, ToolError) else f"{error.strerror}."
        failed = _revert(done)
        outcome = f" These could not be reverted: {', '.join(failed)}." if failed else " Nothing was changed."
        raise ToolError(f"{step.path.name}: {reason}{outcome}") from None


def _revert(done: Sequence[tuple[Path, FileWrite]]) -> list[str]:
    """Undo changes, the newest first; the paths that could not be reverted."""
    failed = []
    for root, step in reversed(done):
        try:
            _make(root, step.path, step.new, step.old)
        except (OSError, ToolError):
            failed.append(str(step.path))
    return failed


def _make(root: Path, path: Path, old: FileContent | None, new: FileContent | None) -> None:
    with safe_files.locked_parent(root, path, make=new is not None) as folder:
        current = _content(folder, path.name)
        if (current and current.key) != (old and old.key):
            raise ToolError("it changed just now.")
        if new is None:
            os.unlink(path.name, dir_fd=folder)
        elif new.mode == LINK and old is None:
            os.symlink(new.data, path.name, dir_fd=folder)
        else:
            _replace(folder, path.name, old, new)
    if new is None:
        _remove_empty_folders(root, path.parent)


def _replace(folder: int, name: str, old: FileContent | None, new: FileContent) -> None:
    temporary = f".{name[:100]}.{secrets.token_hex(8)}.tmp"
    try:
        if new.mode == LINK:
            os.symlink(new.data, temporary, dir_fd=folder)
        else:
            _fill(folder, temporary, new, None if old is None or old.mode == LINK else name)
        if old is None:
            safe_files.publish_new(folder, temporary, name)
        else:
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _fill(folder: int, temporary: str, new: FileContent, before: str | None) -> None:
    """Write a file with the permissions of the file `before`; only the executable bits are those of `new`."""
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=folder)
    try:
        mode = os.fstat(fd).st_mode
        if before is not None:
            found = os.stat(before, dir_fd=folder, follow_symlinks=False)
            if not found.st_mode & 0o222:
                raise ToolError("it is read-only.")
            mode = found.st_mode
            with contextlib.suppress(OSError):  # only root may change the owner
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


def _remove_empty_folders(root: Path, folder: Path) -> None:
    """Remove folders that a deletion left empty, as git does."""
    while folder != root:
        try:
            with safe_files.open_parent(root, folder) as above:
                os.rmdir(folder.name, dir_fd=above)
        except OSError:
            return  # not empty
        folder = folder.parent
