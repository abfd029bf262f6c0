"""Reads and writes files below a root. Paths are opened name by name without following links, so that a link that is
created between check and use cannot lead out of the root."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import stat
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Literal

from friday_cli.core.protocol.errors import FileError, ToolError
from friday_cli.core.protocol.workspace import DirectoryEntry

from .beneath import FILE, opened_folder

LOCK_S = 5.0
"""Seconds that a write waits for another program that holds the lock of the folder."""
_locks: weakref.WeakValueDictionary[Path, threading.Lock] = weakref.WeakValueDictionary()
_locks_guard = threading.Lock()
_Kind = Literal["file", "folder", "link", "other"]
_KINDS: dict[int, _Kind] = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}


def open_parent(root: Path, path: Path, *, make: bool = False) -> contextlib.AbstractContextManager[int]:
    """A descriptor of the parent folder of `path`, opened from `root` without following any link. `make` creates missing
    folders. Raises OSError."""
    return opened_folder(root, path.parent.relative_to(root).parts, make=make)


MOST_SKIPPED = 4_000_000_000
"""Bytes in which the beginning of a line is looked for."""


def read(root: Path, path: Path, limit: int, skip: int = 0) -> bytes:
    """At most `limit` bytes of a regular file, after its first `skip` lines. Raises OSError, and ToolError if it is not a
    regular file or has not so many lines."""
    if path == root:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    with open_parent(root, path) as folder:
        return _read(folder, path.name, limit, skip)


def read_below(root: str, label: str, limit: int) -> bytes:
    """`read` of the file `label`, a path below `root` without `.` and `..`."""
    *parts, name = label.split("/")
    with opened_folder(root, parts) as folder:
        return _read(folder, name, limit)


def read_linked(path: Path, limit: int) -> bytes:
    """At most `limit` bytes of the regular file to which `path` leads, also through links. Raises OSError, for a device, a pipe or a socket
    too: those may never end."""
    real = Path(os.path.realpath(path))
    try:
        return read(real.parent, real, limit)
    except ToolError as error:
        raise OSError(errno.EINVAL, str(error).rstrip(".")) from None


def read_linked_text(path: Path, most: int) -> str:
    """The text of the regular file to which `path` leads, of at most `most` bytes. Raises FileError."""
    try:
        data = read_linked(path, most + 1)
        if len(data) > most:
            raise FileError(str(path), f"is larger than {most // 1_000_000} MB.")
        return data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(str(path), f"cannot be read: {getattr(error, 'strerror', None) or error}.") from None


def _read(folder: int, name: str, limit: int, skip: int = 0) -> bytes:
    with _opened_file(folder, name) as file:
        size = os.fstat(file.fileno()).st_size
        _skip_lines(file, skip)
        pieces, room = [], limit
        while room > 0 and (piece := file.read(min(room, max(size + 1, 65536)))):
            pieces.append(piece)
            room -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


@contextlib.contextmanager
def _opened_file(folder: int, name: str) -> Iterator[IO[bytes]]:
    _require_file(os.stat(name, dir_fd=folder, follow_symlinks=False))  # opening a device can have side effects
    fd = os.open(name, FILE, dir_fd=folder)
    with os.fdopen(fd, "rb", buffering=0) as file:
        _require_file(os.fstat(fd))
        yield file


@contextlib.contextmanager
def opened_file(root: Path, path: Path) -> Iterator[IO[bytes]]:
    """A regular file below `root`, opened without following any link. Raises OSError, and ToolError if it is not a regular file."""
    with open_parent(root, path) as folder, _opened_file(folder, path.name) as file:
        yield file


def copy(source: Path, target: Path, name: str) -> bool:
    """Copy the file or link `name` below `source`, with its mode and time, to the same name below `target`, where it replaces one. No link on
    the way is followed, in neither. False where there is none: nothing, a folder, a pipe, or something behind a link. Raises OSError."""
    path = target / name
    try:
        with open_parent(source, source / name) as old:
            if stat.S_ISLNK(os.stat(path.name, dir_fd=old, follow_symlinks=False).st_mode):
                text = os.readlink(path.name, dir_fd=old)
                with _made_way(target, path) as new:
                    os.symlink(text, path.name, dir_fd=new)
            else:
                with _opened_file(old, path.name) as file, _made_way(target, path) as new:
                    _copy_content(file, new, path.name)
        return True
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, ToolError):
        return False
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return False


@contextlib.contextmanager
def _made_way(root: Path, path: Path) -> Iterator[int]:
    """The folder of `path`, where no file or link of that name is left."""
    with open_parent(root, path, make=True) as folder:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path.name, dir_fd=folder)
        yield folder


def _copy_content(file: IO[bytes], folder: int, name: str) -> None:
    facts = os.fstat(file.fileno())
    made = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
    with os.fdopen(made, "wb") as written:  # without a buffer, a full disk would cut a file without an error
        while piece := file.read(1 << 20):
            written.write(piece)
        written.flush()
        os.fchmod(made, stat.S_IMODE(facts.st_mode))
        os.utime(made, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def _skip_lines(file: IO[bytes], lines: int) -> None:
    """Set the position to the beginning of the line after so many. Raises ToolError if the file ends before, or it is too far away."""
    at, left = 0, lines
    while left:
        piece = file.read(1 << 20)
        if not piece or at > MOST_SKIPPED:
            if not piece:
                raise ToolError(f"it has only {lines - left:,} lines; offset {lines + 1:,} is past the end.")
            raise ToolError(f"line {lines + 1:,} is too far from its beginning.", hint="Use grep or bash.")
        if (count := piece.count(b"\n")) < left:
            at, left = at + len(piece), left - count
            continue
        end = -1
        for _ in range(left):
            end = piece.index(b"\n", end + 1)
        file.seek(at + end + 1)
        return


def _require_file(found: os.stat_result) -> os.stat_result:
    if stat.S_ISLNK(found.st_mode):
        raise ToolError("it was just replaced by a symbolic link.", hint="Try again.")
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(found.st_mode):
        raise ToolError("it is a device, pipe or socket, not a regular file.")
    return found


def write(root: Path, path: Path, data: bytes, expect: str | None) -> str:
    """Replace the content of a file by `data` atomically and return its sha256. `expect` as in Workspace.write. Raises
    OSError and ToolError; the file is then unchanged."""
    if path == root:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    with locked_parent(root, path, make=expect is None) as folder:
        old = _require_expected(folder, path.name, expect)
        with replacing(folder, path.name, new=old is None) as temporary:
            create_file(folder, temporary, data, old)
            if old is not None:
                _require_expected(folder, path.name, expect)
    return hashlib.sha256(data).hexdigest()


@contextlib.contextmanager
def locked_parent(root: Path, path: Path, *, make: bool = False) -> Iterator[int]:
    """Like `open_parent`, but other writes of Friday to this file wait meanwhile. Raises OSError and ToolError."""
    with _locks_guard:
        lock = _locks.setdefault(path, threading.Lock())
    with lock, open_parent(root, path, make=make) as opened:
        folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=opened)
        try:
            _lock_folder(folder)
            yield folder
        finally:
            os.close(folder)


@contextlib.contextmanager
def replacing(folder: int, name: str, *, new: bool) -> Iterator[str]:
    """A temporary name in `folder`. The file that the block creates under it becomes `name`, which must not exist if
    `new` is set. Raises OSError and ToolError; nothing is changed then."""
    temporary = f".{name[:100]}.{secrets.token_hex(8)}.tmp"
    try:
        yield temporary
        if new:
            publish_new(folder, temporary, name)
        else:
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise


def remove_unfinished(root: Path, path: Path) -> None:
    """Remove the temporary files beside `path` that a killed process left. Raises OSError and ToolError."""
    pattern = re.compile(re.escape(f".{path.name[:100]}.") + r"[0-9a-f]{16}\.tmp")
    with locked_parent(root, path) as folder:
        for name in os.listdir(folder):
            if pattern.fullmatch(name):
                os.unlink(name, dir_fd=folder)


def create_file(
    folder: int, name: str, data: bytes, like: os.stat_result | None, mode: Callable[[int], int] = stat.S_IMODE
) -> None:
    """Create a file on the disk, with the owner of `like` if that is possible. `mode` returns its permissions, given the
    st_mode of `like` (None: that of any new file). Raises OSError."""
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=folder)
    try:
        created = os.fstat(fd)
        like = like or created
        if (created.st_uid, created.st_gid) != (like.st_uid, like.st_gid):
            with contextlib.suppress(OSError):  # only root may change the owner
                os.fchown(fd, like.st_uid, like.st_gid)
        os.fchmod(fd, mode(like.st_mode))
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.fsync(fd)
    finally:
        os.close(fd)


def publish_new(folder: int, temporary: str, name: str) -> None:
    """Rename a finished new file to `name`. Raises ToolError if a file of that name was created meanwhile."""
    try:
        os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        raise ToolError("another program has created it in the meantime.", hint="Read it first.") from None
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS):
            raise
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)  # a file system without hard links
    else:
        os.unlink(temporary, dir_fd=folder)


def _require_expected(folder: int, name: str, expect: str | None) -> os.stat_result | None:
    """The status of the file `name`. Raises ToolError if its content is not what the writer last read."""
    try:
        found = _require_file(os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        if expect is None:
            return None
        raise ToolError("it was deleted since it was read.", hint="Create it again if it is still needed.") from None
    if expect is None:
        raise ToolError("it already exists.", hint="Read it before changing it.")
    if not found.st_mode & 0o222:
        raise ToolError("it is read-only.", hint="Leave it, or make it writable first if that is intended.")
    digest = hashlib.sha256(_read(folder, name, found.st_size + 1)).hexdigest()
    if digest != expect:
        raise ToolError(
            "it changed since it was read.", hint="Read it again and repeat the change on its current content."
        )
    return found


def _lock_folder(folder: int) -> None:
    """Lock the folder against other friday processes until its descriptor is closed, if the file system supports it. Raises
    ToolError after `LOCK_S`."""
    import fcntl

    deadline = time.monotonic() + LOCK_S
    while True:
        try:
            return fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise ToolError("another program keeps its folder locked.", hint="Try again later.") from None
            time.sleep(0.01)
        except OSError:
            return  # a file system without locks


def entry(root: Path, path: Path) -> DirectoryEntry | None:
    """The entry at `path`, None if there is none. Raises OSError."""
    if path == root:
        return DirectoryEntry(path.name, "folder", 0, stat.S_IMODE(path.stat().st_mode))
    try:
        with open_parent(root, path) as folder:
            return _entry(folder, path.name)
    except (FileNotFoundError, NotADirectoryError):
        return None


def entries(root: Path, path: Path) -> list[DirectoryEntry]:
    """The entries of a folder, sorted by name. Raises OSError."""
    with open_parent(root, path / "_") as folder:
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
    kind = _KINDS.get(stat.S_IFMT(found.st_mode), "other")
    target = ""
    if kind == "link":
        with contextlib.suppress(OSError):
            target = os.readlink(name, dir_fd=folder)
    return DirectoryEntry(name, kind, found.st_size, stat.S_IMODE(found.st_mode), target)
