"""What the files of a workspace hold before a command runs, so that what it changes can be told and brought back.

Nobody can tell beforehand what a command will change. So all that may matter is looked at: files that git does not ignore,
and small ones that it does where their folder is not ignored itself, within limits. Contents lie in a nameless file on
disk that is gone with the process.
"""

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

from ..fs import change_detection
from ..fs.gitignore import Level, level_of, top_of
from .blobs import MEGABYTE
from .file_state import NOTHING, FileState, file_state

IGNORED = 64 * 1024
"""Bytes of a file that git ignores, such as `.env`, up to which it is looked at all the same."""
TICK_NS = 20_000_000
JUST_NOW = (-1,)
"""The stamp of a file that changed within the last tick of the clock, and may change again within it."""
_NEVER = frozenset(
    (".git", ".hg", ".svn", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox", ".cache", ".mypy_cache",
     ".pytest_cache", ".ruff_cache", ".hypothesis", ".gradle", ".idea", ".next")
)  # fmt: skip
_MADE = frozenset(("target", "dist", "build", "vendor"))
"""Folders that are passed over where no repository says what is ignored."""


class SnapshotLimits(msgspec.Struct, frozen=True):
    """How much is looked at: bytes of one file and of all, files, seconds."""

    file: int = 10 * MEGABYTE
    all: int = 200 * MEGABYTE
    files: int = 20_000
    seconds: float = 3.0


class FileSnapshot(msgspec.Struct, frozen=True):
    """A file as it was: `stamp` changes whenever it does; its content lies at `start`, or `lost` says why it does not."""

    root: str
    stamp: tuple[int, ...]
    mode: int
    start: int = 0
    size: int = 0
    lost: str = ""


class SnapshotChange(msgspec.Struct, frozen=True):
    """A file that changed: what it held, and what it holds now. `lost` as in `Seen`."""

    root: Path
    path: Path
    before: FileState
    after: FileState
    lost: str = ""


class Snapshot:
    """What the files below `roots` held at the last look. Every call blocks; what cannot be read is passed over."""

    def __init__(self, roots: Sequence[Path], folder: Path, limits: SnapshotLimits) -> None:
        self.problem = ""
        """Why not everything is looked at, "" where it is."""
        self.taken = False
        self._roots = [
            root for root in roots if not any(root != other and root.is_relative_to(other) for other in roots)
        ]
        self._folder = folder
        self._limits = limits
        self._files: dict[str, FileSnapshot] = {}
        self._contents: IO[bytes] | None = None
        self._end = 0

    def update(self) -> None:
        """Take everything as it is now for what was there before."""
        found = self._walk()
        if found is None:
            return
        for path in self._files.keys() - found.keys():
            del self._files[path]
        for path, (root, status) in found.items():
            self._learn(path, root, status)
        self.taken = True

    def differences(self) -> list[SnapshotChange]:
        """What changed since the last look, which this one is from now on."""
        found = self._walk()
        if not self.taken or found is None:
            return []
        rows = []
        for path in sorted(self._files.keys() | found.keys()):
            old = self._files.get(path)
            root, status = found.get(path, ("", None))
            if old is not None and status is not None and old.stamp == _stamp(status) != JUST_NOW:
                continue
            before = self._before(old)
            if status is None:
                assert old is not None
                root, after = old.root, NOTHING
                del self._files[path]
            else:
                self._learn(path, root, status)
                after = _sight(root, path, self._limits.file)
            if (before.mode, before.digest) != (after.mode, after.digest) or (old is not None and old.lost):
                rows.append(SnapshotChange(Path(root), Path(path), before, after, old.lost if old else ""))
        return rows

    def wrote(self, path: Path) -> None:
        """Friday itself changed this file, and knows what it held."""
        name = str(path)
        if not self.taken:
            return
        try:
            status = os.stat(name, follow_symlinks=False)
        except OSError:
            self._files.pop(name, None)
            return
        root = next((root for root in self._roots if path.is_relative_to(root)), None)
        if root is not None and (name in self._files or len(self._files) < self._limits.files):
            self._learn(name, str(root), status)

    def close(self) -> None:
        """Forget everything."""
        self._files.clear()
        self.taken = False
        if self._contents is not None:
            self._contents.close()
            self._contents = None

    # ---- one file -----------------------------------------------------------------------

    def _learn(self, path: str, root: str, status: os.stat_result) -> None:
        old, stamp = self._files.get(path), _stamp(status)
        if old is not None and old.stamp == stamp != JUST_NOW:
            return
        self._files.pop(path, None)
        if self._end + status.st_size > self._limits.all:
            self._tighten()
        if status.st_size > self._limits.file:
            lost = f"it was larger than {self._limits.file // MEGABYTE} MB"
        elif self._end + status.st_size > self._limits.all:
            lost = f"the folder holds more than the {self._limits.all // MEGABYTE} MB that are kept before a command"
        else:
            lost = "it could not be read"
            data = _sight(root, path, self._limits.file).data
            if data is not None:
                try:
                    self._files[path] = FileSnapshot(root, stamp, status.st_mode, self._store(data), len(data))
                    return
                except OSError as error:
                    lost = f"it could not be kept: {error.strerror}"
        self._files[path] = FileSnapshot(root, stamp, status.st_mode, lost=lost)

    def _store(self, data: bytes) -> int:
        if self._contents is None:
            self._contents = self._file()
        start = self._end
        self._contents.seek(start)
        left = memoryview(data)
        while left:  # not buffered: a full disk must be told of this content, and of no other
            left = left[self._contents.write(left) :]
        self._end += len(data)
        return start

    def _file(self) -> IO[bytes]:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return tempfile.TemporaryFile(dir=self._folder, buffering=0)

    def _tighten(self) -> None:
        """Leave out of the contents what no file holds any more."""
        if self._contents is None or sum(seen.size for seen in self._files.values()) > self._end // 2:
            return
        old, end, kept = self._contents, self._end, {}
        try:
            self._contents, self._end = self._file(), 0
            for path, seen in self._files.items():
                if not seen.lost:
                    old.seek(seen.start)
                    kept[path] = msgspec.structs.replace(seen, start=self._store(old.read(seen.size)))
        except OSError:  # no room for both
            if self._contents is not old:
                self._contents.close()
            self._contents, self._end = old, end
            return
        self._files |= kept
        old.close()

    def _before(self, old: FileSnapshot | None) -> FileState:
        if old is None:
            return NOTHING
        if old.lost or self._contents is None:
            return FileState(old.mode, size=old.size)
        self._contents.seek(old.start)
        data = self._contents.read(old.size)
        return FileState(old.mode, hashlib.sha256(data).hexdigest(), data, old.size)

    # ---- all files ----------------------------------------------------------------------

    def _walk(self) -> dict[str, tuple[str, os.stat_result]] | None:
        """Every file that is looked at; None where there are too many, which ends the looking for good."""
        if self.problem:
            return None
        until = time.monotonic() + self._limits.seconds
        found: dict[str, tuple[str, os.stat_result]] = {}
        for root in self._roots:
            for count, (path, status) in enumerate(_files(root)):
                found[path] = str(root), status
                if len(found) > self._limits.files:
                    self._give_up(f"the folder holds more than {self._limits.files:,} files")
                    return None
                if count % 256 == 0 and time.monotonic() > until:
                    self._give_up(f"looking at the folder takes longer than {self._limits.seconds:g} s")
                    return None
        return found

    def _give_up(self, why: str) -> None:
        self.close()
        self.problem = why


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    """Another one whenever the file changed; of a file that changed just now none that it could have again: the clock of
    file systems ticks slowly."""
    if status.st_ctime_ns > change_detection.now() - TICK_NS:
        return JUST_NOW
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_mode


def _sight(root: str, path: str, most: int) -> FileState:
    try:
        return file_state(Path(root), Path(path), most=most)
    except OSError:
        return NOTHING


def _files(root: Path) -> Iterator[tuple[str, os.stat_result]]:
    """The files and links below a folder that may matter, in no order."""
    level, ignored = level_of(root)
    repository = top_of(root) is not None
    waiting: list[tuple[str, Level | None]] = [(str(root), None if ignored else level)]
    while waiting:
        folder, rules = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name in _NEVER or (entry.name in _MADE and not repository):
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
            continue  # gone meanwhile, or not ours to read
