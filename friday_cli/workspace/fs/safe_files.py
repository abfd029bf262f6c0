"""Files below a root, reached name by name, so that a link put in the way later leads nowhere."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import stat
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.workspace import DirectoryEntry

_WALK = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
LOCK_S = 5.0
"""How long a write waits for another program that writes into the same folder."""
_locks: weakref.WeakValueDictionary[Path, threading.Lock] = weakref.WeakValueDictionary()
_locks_guard = threading.Lock()


@contextlib.contextmanager
def parent(root: Path, path: Path, *, make: bool = False) -> Iterator[int]:
    """A descriptor of the folder `path` lies in, reached from `root` without following any link.

    `make` creates the folders that are missing. Raises OSError.
    """
    fd = os.open(root, _WALK)
    try:
        for name in path.parent.relative_to(root).parts:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=fd)
            below = os.open(name, _WALK, dir_fd=fd)
            os.close(fd)
            fd = below
        yield fd
    finally:
        os.close(fd)


def read(root: Path, path: Path, limit: int) -> bytes:
    """At most `limit` bytes of a regular file. Raises OSError, and ToolError for what is no regular file."""
    if path == root:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    with parent(root, path) as folder:
        return _read(folder, path.name, limit)


def _read(folder: int, name: str, limit: int) -> bytes:
    _require_file(os.stat(name, dir_fd=folder, follow_symlinks=False))  # opening a device may already do something
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with os.fdopen(fd, "rb", buffering=0) as file:
        size = _require_file(os.fstat(fd)).st_size
        pieces, room = [], limit
        while room > 0 and (piece := file.read(min(room, max(size + 1, 65536)))):
            pieces.append(piece)
            room -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _require_file(found: os.stat_result) -> os.stat_result:
    if stat.S_ISLNK(found.st_mode):
        raise ToolError("a symbolic link was put in its place just now.", hint="Try again.")
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(found.st_mode):
        raise ToolError("it is a device, pipe or socket, and no regular file.")
    return found


def write(root: Path, path: Path, data: bytes, expect: str | None) -> str:
    """Make `data` the whole of a file, or leave it as it is; its sha256. `expect` as in Workspace.write.

    Raises OSError and ToolError.
    """
    if path == root:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    with held(root, path, make=expect is None) as folder:
        _replace(folder, path.name, data, expect)
    return hashlib.sha256(data).hexdigest()


@contextlib.contextmanager
def held(root: Path, path: Path, *, make: bool = False) -> Iterator[int]:
    """As `parent`, with every other Friday's writes of this file kept waiting. Raises OSError and ToolError."""
    with _lock(path), parent(root, path, make=make) as walked:
        folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=walked)
        try:
            _alone(folder)
            yield folder
        finally:
            os.close(folder)


def _replace(folder: int, name: str, data: bytes, expect: str | None) -> None:
    old = _expected(folder, name, expect)
    temporary = f".{name[:100]}.{secrets.token_hex(8)}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=folder)
    try:
        try:
            _fill(fd, data, old)
        finally:
            os.close(fd)
        if old is None:
            appear(folder, temporary, name)
        else:
            _expected(folder, name, expect)
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _fill(fd: int, data: bytes, old: os.stat_result | None) -> None:
    if old is not None:
        mine = os.fstat(fd)
        if (mine.st_uid, mine.st_gid) != (old.st_uid, old.st_gid):
            with contextlib.suppress(OSError):  # only root may give files away
                os.fchown(fd, old.st_uid, old.st_gid)
        os.fchmod(fd, stat.S_IMODE(old.st_mode))
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.fsync(fd)


def appear(folder: int, temporary: str, name: str) -> None:
    """Give a finished new file its name, unless somebody else took it meanwhile."""
    try:
        os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        raise ToolError("it was created by somebody else meanwhile.", hint="Read it first.") from None
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS):
            raise
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)  # a file system without hard links
    else:
        os.unlink(temporary, dir_fd=folder)


def _expected(folder: int, name: str, expect: str | None) -> os.stat_result | None:
    """What stands at `name`; raises ToolError when that is not what the writer last saw."""
    try:
        found = _require_file(os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        if expect is None:
            return None
        raise ToolError("it was deleted since it was read.", hint="Write it anew if it is still wanted.") from None
    if expect is None:
        raise ToolError("it exists already.", hint="Read it before changing it.")
    if not found.st_mode & 0o222:
        raise ToolError("it is read-only.", hint="Leave it, or make it writable first if that is meant.")
    digest = hashlib.sha256(_read(folder, name, found.st_size + 1)).hexdigest()
    if digest != expect:
        raise ToolError(
            "it changed since it was read.", hint="Read it again and repeat the change on what it holds now."
        )
    return found


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    with _locks_guard:
        lock = _locks.get(path)
        if lock is None:
            lock = _locks[path] = threading.Lock()
    with lock:
        yield


def _alone(folder: int) -> None:
    """Keep other Fridays out of the folder until its descriptor is closed, where the file system can."""
    import fcntl

    until = time.monotonic() + LOCK_S
    while True:
        try:
            return fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise ToolError("another program keeps its folder locked.", hint="Try again later.") from None
            time.sleep(0.01)
        except OSError:
            return  # a file system without locks


def entry(root: Path, path: Path) -> DirectoryEntry | None:
    """What stands at `path`, None when nothing does. Raises OSError."""
    if path == root:
        return DirectoryEntry(path.name, "folder", 0, stat.S_IMODE(path.stat().st_mode))
    try:
        with parent(root, path) as folder:
            return _entry(folder, path.name)
    except (FileNotFoundError, NotADirectoryError):
        return None


def entries(root: Path, path: Path) -> list[DirectoryEntry]:
    """The names in a folder, sorted. Raises OSError."""
    with parent(root, path / "_") as folder:
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        try:
            found = []
            for name in sorted(os.listdir(fd)):
                with contextlib.suppress(FileNotFoundError):
                    found.append(_entry(fd, name))
            return found
        finally:
            os.close(fd)


def _entry(folder: int, name: str) -> DirectoryEntry:
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    kind: Literal["file", "folder", "link", "other"] = "other"
    target = ""
    if stat.S_ISREG(found.st_mode):
        kind = "file"
    elif stat.S_ISDIR(found.st_mode):
        kind = "folder"
    elif stat.S_ISLNK(found.st_mode):
        kind = "link"
        with contextlib.suppress(OSError):
            target = os.readlink(name, dir_fd=folder)
    return DirectoryEntry(name, kind, found.st_size, stat.S_IMODE(found.st_mode), target)
