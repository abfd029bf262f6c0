"""A snapshot of a workspace's files before a command runs, so that its changes can be detected and undone. It covers,
within limits, all files that git does not ignore, and small ignored files whose folder is not ignored. The contents are in
an unnamed file on disk that disappears with the process."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import msgspec

from ..fs.change_detection import BUILD_FOLDERS, SKIPPED, now
from ..fs.gitignore import Level, level_of, top_of
from .blobs import MEGABYTE
from .file_state import ABSENT, FileState, file_state

IGNORED = 64 * 1024
"""Largest ignored file (such as `.env`) that is included, in bytes."""
TICK_NS = 20_000_000
"""Upper bound of the resolution of file timestamps, in nanoseconds."""
JUST_NOW = (-1,)
"""The stamp of a file that changed within the last tick of the clock, and may change again within it."""


class SnapshotLimits(msgspec.Struct, frozen=True):
    """The size of a snapshot: bytes of one file and of all, number of files, seconds of one scan."""

    file: int = 10 * MEGABYTE
    all: int = 200 * MEGABYTE
    files: int = 20_000
    seconds: float = 3.0


class FileSnapshot(msgspec.Struct, frozen=True):
    """A file in the snapshot. `stamp` changes whenever the file does. Its content is at `start` of the content file, or
    `lost` says why it was not saved."""

    root: str
    stamp: tuple[int, ...]
    mode: int
    start: int = 0
    size: int = 0
    lost: str = ""


class SnapshotChange(msgspec.Struct, frozen=True):
    """A file that changed, with the states before and after. `lost` as in `FileSnapshot`."""

    root: Path
    path: Path
    before: FileState
    after: FileState
    lost: str = ""


class Snapshot:
    """The files below `roots` as they were at the last scan; contents are stored in `folder`. Every call blocks. Files
    that cannot be read are skipped."""

    def __init__(self, roots: Sequence[Path], folder: Path, limits: SnapshotLimits) -> None:
        self.problem = ""
        """Why the snapshot was given up, "" while it works."""
        self.ready = False
        self._roots = [
            root for root in roots if not any(root != other and root.is_relative_to(other) for other in roots)
        ]
        self._folder = folder
        self._limits = limits
        self._files: dict[str, FileSnapshot] = {}
        self._contents: IO[bytes] | None = None
        self._end = 0

    def update(self) -> None:
        """Make the present files the snapshot."""
        found = self._walk()
        if found is None:
            return
        for path in self._files.keys() - found.keys():
            del self._files[path]
        for path, (root, status) in found.items():
            self._save(path, root, status)
        self.ready = True

    def differences(self) -> list[SnapshotChange]:
        """The changes since the last scan; the present files become the snapshot."""
        found = self._walk()
        if not self.ready or found is None:
            return []
        rows = []
        for path in sorted(self._files.keys() | found.keys()):
            old = self._files.get(path)
            root, status = found.get(path, ("", None))
            if old is not None and status is not None and old.stamp == _stamp(status) != JUST_NOW:
                continue
            before = self._state(old)
            if status is None:
                assert old is not None
                root, after = old.root, ABSENT
                del self._files[path]
            else:
                self._save(path, root, status)
                after = _file_state(root, path, self._limits.file)
            if (before.mode, before.digest) != (after.mode, after.digest) or (old is not None and old.lost):
                rows.append(SnapshotChange(Path(root), Path(path), before, after, old.lost if old else ""))
        return rows

    def file_written(self, path: Path) -> None:
        """Update one file that Friday itself changed."""
        name = str(path)
        if not self.ready:
            return
        try:
            status = os.stat(name, follow_symlinks=False)
        except OSError:
            self._files.pop(name, None)
            return
        root = next((root for root in self._roots if path.is_relative_to(root)), None)
        if root is not None and (name in self._files or len(self._files) < self._limits.files):
            self._save(name, str(root), status)

    def close(self) -> None:
        """Drop the snapshot."""
        self._files.clear()
        self.ready = False
        if self._contents is not None:
            self._contents.close()
            self._contents = None

    def _save(self, path: str, root: str, status: os.stat_result) -> None:
        old, stamp = self._files.get(path), _stamp(status)
        if old is not None and old.stamp == stamp != JUST_NOW:
            return
        self._files.pop(path, None)
        if self._end + status.st_size > self._limits.all:
            self._compact()
        if status.st_size > self._limits.file:
            lost = f"it was larger than {self._limits.file // MEGABYTE} MB"
        elif self._end + status.st_size > self._limits.all:
            lost = f"the folder has more than the {self._limits.all // MEGABYTE} MB that are saved before a command"
        else:
            lost = "it could not be read"
            data = _file_state(root, path, self._limits.file).data
            if data is not None:
                try:
                    self._files[path] = FileSnapshot(root, stamp, status.st_mode, self._store(data), len(data))
                    return
                except OSError as error:
                    lost = f"it could not be saved: {error.strerror}"
        self._files[path] = FileSnapshot(root, stamp, status.st_mode, lost=lost)

    def _store(self, data: bytes) -> int:
        self._contents = self._contents or self._new_content_file()
        start = self._end
        self._contents.seek(start)
        rest = memoryview(data)
        while rest:  # unbuffered: the error of a full disk must be raised for this content
            rest = rest[self._contents.write(rest) :]
        self._end += len(data)
        return start

    def _new_content_file(self) -> IO[bytes]:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return tempfile.TemporaryFile(dir=self._folder, buffering=0)

    def _compact(self) -> None:
        """Remove contents that no file has any longer, if they are at least half of the content file."""
        if self._contents is None or sum(file.size for file in self._files.values()) > self._end // 2:
            return
        old, end, moved = self._contents, self._end, {}
        try:
            self._contents, self._end = self._new_content_file(), 0
            for path, file in self._files.items():
                if not file.lost:
                    old.seek(file.start)
                    moved[path] = msgspec.structs.replace(file, start=self._store(old.read(file.size)))
        except OSError:  # no space for both files
            if self._contents is not old:
                self._contents.close()
            self._contents, self._end = old, end
            return
        self._files |= moved
        old.close()

    def _state(self, old: FileSnapshot | None) -> FileState:
        if old is None:
            return ABSENT
        if old.lost or self._contents is None:
            return FileState(old.mode, size=old.size)
        self._contents.seek(old.start)
        data = self._contents.read(old.size)
        return FileState(old.mode, hashlib.sha256(data).hexdigest(), data, old.size)

    def _walk(self) -> dict[str, tuple[str, os.stat_result]] | None:
        """Every file of the snapshot by path, with its root and status; None if there are too many, which disables the
        snapshot."""
        if self.problem:
            return None
        deadline = time.monotonic() + self._limits.seconds
        found: dict[str, tuple[str, os.stat_result]] = {}
        for root in self._roots:
            for count, (path, status) in enumerate(_files(root)):
                found[path] = str(root), status
                if len(found) > self._limits.files:
                    self._disable(f"the folder has more than {self._limits.files:,} files")
                    return None
                if count % 256 == 0 and time.monotonic() > deadline:
                    self._disable(f"scanning the folder takes longer than {self._limits.seconds:g} s")
                    return None
        return found

    def _disable(self, why: str) -> None:
        self.close()
        self.problem = why


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    """A value that changes whenever the file does. `JUST_NOW` for a file that changed within the last tick: it could
    change again without a new timestamp."""
    if status.st_ctime_ns > now() - TICK_NS:
        return JUST_NOW
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_mode


def _file_state(root: str, path: str, most: int) -> FileState:
    try:
        return file_state(Path(root), Path(path), most=most)
    except OSError:
        return ABSENT


def _files(root: Path) -> Iterator[tuple[str, os.stat_result]]:
    """The files and links below a folder that a snapshot includes, in no order."""
    level, ignored = level_of(root)
    repository = top_of(root) is not None
    waiting: list[tuple[str, Level | None]] = [(str(root), None if ignored else level)]
    while waiting:
        folder, rules = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name in SKIPPED or (entry.name in BUILD_FOLDERS and not repository):  # no ignore rules
                            continue
                        if rules is None or not rules.hides(entry.path, True):
                            waiting.append((entry.path, rules and rules.below(entry.path)))
                        continue
                    status = entry.stat(follow_symlinks=False)
                    if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
                        continue
                    if rules is None or status.st_size <= IGNORED or not rules.hides(entry.path, False):
                        yield entry.path, status
        except OSError:
            continue  # removed since, or not readable
