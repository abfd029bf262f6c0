"""Applies several file changes at once: all of them, or none."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec

from friday_cli.core.protocol.errors import ToolError
from friday_cli.system import safe_files

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


class PendingChange(msgspec.Struct, frozen=True):
    """A change of the file `path` below `root` that is about to be made: the new content, None for a deletion."""

    root: Path
    path: Path
    new: FileContent | None


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


def leaves_empty(folder: Path, deleted: Collection[Path]) -> bool:
    """Whether deleting `deleted` leaves no file in `folder`; False if none of them is in it."""
    for parent, folders, files in os.walk(folder):
        paths = [Path(parent, name) for name in (*folders, *files)]
        if any(path not in deleted for path in paths if path.is_symlink() or not path.is_dir()):
            return False
    return any(path.is_relative_to(folder) for path in deleted)


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
        else:
            with safe_files.replacing(folder, path.name, new=old is None) as temporary:
                _create(folder, temporary, path.name, old, new)
    if new is None:
        remove_empty_folders(root, path.parent)


def _create(folder: int, temporary: str, name: str, old: FileContent | None, new: FileContent) -> None:
    """Write the file `temporary` with the permissions of `name`; only the executable bits are those of `new`."""
    if new.mode == LINK:
        return os.symlink(new.data, temporary, dir_fd=folder)
    like = None if old is None or old.mode == LINK else os.stat(name, dir_fd=folder, follow_symlinks=False)
    if like is not None and not like.st_mode & 0o222:
        raise ToolError("it is read-only.")

    def permissions(mode: int) -> int:
        if new.rights is not None:
            return new.rights
        mode = stat.S_IMODE(mode)
        return mode | (mode & 0o444) >> 2 if new.mode == PROGRAM else mode & ~0o111

    safe_files.create_file(folder, temporary, new.data, like, permissions)


def remove_empty_folders(root: Path, folder: Path) -> None:
    """Remove folders that a deletion left empty, as git does."""
    while folder != root:
        try:
            with safe_files.open_parent(root, folder) as above:
                os.rmdir(folder.name, dir_fd=above)
        except OSError:
            return  # not empty
        folder = folder.parent
