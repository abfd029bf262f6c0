"""A snapshot of a workspace's files before a command runs, so that its changes can be detected and undone. It covers,
within limits, all files that git does not ignore, and small ignored files whose folder is not ignored."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from ..fs import safe_files
from ..fs.change_detection import BUILD_FOLDERS, SKIPPED, now
from ..fs.gitignore import Level, level_of, top_of
from .baseline import BaselineFile, Commit, FileSnapshot
from .blobs import MEGABYTE
from .file_state import ABSENT, FileState, file_state

IGNORED = 64 * 1024
"""Largest ignored file (such as `.env`) that is included, in bytes."""
TICK_NS = 20_000_000
"""Upper bound of the resolution of file timestamps, in nanoseconds."""
JUST_NOW = -1
"""The first number of the stamp of a file that changed within the last tick of the clock, and may change again within it."""
MOVED = "it existed before the command, where it was not saved"
"""Why a file that appeared during a command is not removed: the command made it visible or moved it with its folder."""


class SnapshotLimits(msgspec.Struct, frozen=True):
    """The size of a snapshot: bytes of one file and of all, number of files, seconds of one scan."""

    file: int = 10 * MEGABYTE
    all: int = 200 * MEGABYTE
    files: int = 20_000
    seconds: float = 3.0


class SnapshotChange(msgspec.Struct, frozen=True):
    """A file that changed, with the states before and after. `lost` as in `FileSnapshot`."""

    root: Path
    path: Path
    before: FileState
    after: FileState
    lost: str = ""


class Snapshot:
    """The files below `roots` as they were at the last scan; their contents are stored in the file `baseline`. Every call
    blocks. Files that cannot be read are skipped."""

    def __init__(self, roots: Sequence[Path], baseline: Path, limits: SnapshotLimits) -> None:
        self.problem = ""
        """Why the snapshot was given up, "" while it works."""
        self.ready = False
        self._roots = [
            root for root in roots if not any(root != other and root.is_relative_to(other) for other in roots)
        ]
        self._limits = limits
        self._files: dict[str, FileSnapshot] = {}
        self._rules: dict[str, _FolderRules] = {}
        """The ignore rules of each folder at the last scan."""
        self._scanned_at = 0
        self._baseline = BaselineFile(baseline)

    @classmethod
    def left_behind(cls, baseline: Path, limits: SnapshotLimits) -> tuple[Self, str] | None:
        """The snapshot of a process that died while commands ran, and the agent of these commands; None if none ran."""
        loaded = BaselineFile.load(baseline)
        if loaded is None:
            return None
        file, files, commit = loaded
        snapshot = cls([root for root in map(Path, map(os.fsdecode, commit.roots)) if root.is_dir()], baseline, limits)
        snapshot._baseline, snapshot._scanned_at = file, commit.scanned_at
        snapshot._files = {path: f for path, f in files.items() if Path(f.root) in snapshot._roots}
        snapshot.ready = True
        if commit.agent:
            return snapshot, commit.agent
        snapshot.close()
        return None

    def commit(self, agent: str) -> None:
        """Save the snapshot for the case that the process is killed while commands of `agent` run ("": none)."""
        if self.ready:
            self._baseline.commit(Commit(agent, tuple(map(os.fsencode, self._roots)), self._scanned_at))

    def update(self) -> None:
        """Make the current files the snapshot."""
        found = self._walk()
        if found is None:
            return
        for path in self._files.keys() - found.keys():
            self._forget(path)
        for path, (root, status) in found.items():
            self._save(path, root, status)
        self.ready = True

    def differences(self) -> list[SnapshotChange]:
        """The changes since the last scan; the current files become the snapshot. Files that appear because an ignore
        rule was removed are not changes."""
        rules, since = self._rules, self._scanned_at
        found = self._walk()
        if not self.ready or found is None:
            return []
        known = {file.stamp[3]: file for file in self._files.values()}
        rows = []
        for path in sorted(self._files.keys() | found.keys()):
            old = self._files.get(path)
            root, status = found.get(path, ("", None))
            if old is not None and status is not None and old.stamp == _stamp(status) and old.stamp[0] != JUST_NOW:
                continue
            before, lost = self._state(old), old.lost if old else ""
            if status is None:
                assert old is not None
                root, after = old.root, ABSENT
                self._forget(path)
            else:
                self._save(path, root, status)
                if old is None:
                    if _was_hidden(path, status.st_size, rules):
                        continue
                    moved = known.get(status.st_ino)
                    if moved is not None and moved.lost and moved.stamp[2] == status.st_size:
                        lost = moved.lost
                    elif moved is None and status.st_ctime_ns < since - TICK_NS:
                        lost = MOVED
                after = _file_state(root, path, self._limits.file)
            if (before.mode, before.digest) != (after.mode, after.digest) or (old is not None and old.lost):
                rows.append(SnapshotChange(Path(root), Path(path), before, after, lost))
        return rows

    def file_written(self, path: Path) -> None:
        """Update one file that Friday itself changed."""
        name = str(path)
        if not self.ready:
            return
        try:
            status = os.stat(name, follow_symlinks=False)
        except OSError:
            self._forget(name)
            return
        root = next((root for root in self._roots if path.is_relative_to(root)), None)
        if root is not None and (name in self._files or len(self._files) < self._limits.files):
            self._save(name, str(root), status)

    def close(self) -> None:
        """Drop the snapshot."""
        self._files.clear()
        self._rules.clear()
        self.ready = False
        self._baseline.close()

    def _forget(self, path: str) -> None:
        if self._files.pop(path, None) is not None:
            self._baseline.drop(path)

    def _save(self, path: str, root: str, status: os.stat_result) -> None:
        old, stamp = self._files.get(path), _stamp(status)
        if old is not None and old.stamp == stamp and stamp[0] != JUST_NOW:
            return
        self._files.pop(path, None)
        if self._baseline.end + status.st_size > self._limits.all:
            self._compact()
        data, lost = None, ""
        if status.st_size > self._limits.file:
            lost = f"it was larger than {self._limits.file // MEGABYTE} MB"
        elif self._baseline.end + status.st_size > self._limits.all:
            lost = f"the folder has more than the {self._limits.all // MEGABYTE} MB that are saved before a command"
        else:
            data = _file_state(root, path, self._limits.file).data
            lost = "it could not be read" if data is None else ""
        file = FileSnapshot(root, stamp, status.st_mode, lost=lost)
        try:
            self._files[path] = self._baseline.add(path, file, data or b"")
        except OSError as error:
            file = msgspec.structs.replace(file, lost=f"it could not be saved: {error.strerror}")
            self._files[path] = self._baseline.add(path, file)

    def _compact(self) -> None:
        """Remove contents that no file has any longer, if they are at least half of the baseline file."""
        if sum(file.size for file in self._files.values()) <= self._baseline.end // 2:
            self._files = self._baseline.compact(self._files) or self._files

    def _state(self, old: FileSnapshot | None) -> FileState:
        if old is None:
            return ABSENT
        if old.lost:
            return FileState(old.mode, size=old.size)
        data = self._baseline.read(old)
        return FileState(old.mode, hashlib.sha256(data).hexdigest(), data, old.size)

    def _walk(self) -> dict[str, tuple[str, os.stat_result]] | None:
        """Every file of the snapshot by path, with its root and status; None if there are too many, which disables the
        snapshot."""
        if self.problem:
            return None
        deadline = time.monotonic() + self._limits.seconds
        rules: dict[str, _FolderRules] = {}
        scanned_at = now()
        found: dict[str, tuple[str, os.stat_result]] = {}
        for root in self._roots:
            for count, (path, status) in enumerate(_files(root, rules)):
                found[path] = str(root), status
                if len(found) > self._limits.files:
                    self._disable(f"the folder has more than {self._limits.files:,} files")
                    return None
                if count % 256 == 0 and time.monotonic() > deadline:
                    self._disable(f"scanning the folder takes longer than {self._limits.seconds:g} s")
                    return None
        for path in self._files.keys() - found.keys():  # deleted, or hidden by a new ignore rule
            root_name = self._files[path].root
            if (now_hidden := _status(root_name, path)) is not None:
                found[path] = root_name, now_hidden
        self._rules, self._scanned_at = rules, scanned_at
        return found

    def _disable(self, why: str) -> None:
        self.close()
        self.problem = why


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    """Numbers that change whenever the file does. The first is `JUST_NOW` for a file that changed within the last tick: it
    could change again without a new timestamp. The fourth is the inode."""
    changed = JUST_NOW if status.st_ctime_ns > now() - TICK_NS else status.st_mtime_ns
    return changed, status.st_ctime_ns, status.st_size, status.st_ino, status.st_mode


def _status(root: str, path: str) -> os.stat_result | None:
    """The status of a file or link below `root`; None if it does not exist. No link in the path is followed."""
    try:
        with safe_files.open_parent(Path(root), Path(path)) as folder:
            status = os.stat(os.path.basename(path), dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode) else None


def _file_state(root: str, path: str, most: int) -> FileState:
    try:
        return file_state(Path(root), Path(path), most=most)
    except OSError:
        return ABSENT


class _FolderRules(NamedTuple):
    """The ignore rules of a folder. `level` is None in a folder that is ignored itself: all of it counts."""

    level: Level | None
    repository: bool

    def skips(self, folder: str, name: str) -> bool:
        """Whether a subfolder is not scanned."""
        if name in SKIPPED or (name in BUILD_FOLDERS and not self.repository):  # no ignore rules
            return True
        return self.level is not None and self.level.hides(folder, True)

    def hides(self, path: str, size: int) -> bool:
        """Whether a file is not included."""
        return self.level is not None and size > IGNORED and self.level.hides(path, False)

    def below(self, folder: str) -> _FolderRules:
        return self._replace(level=self.level and self.level.below(folder))


def _was_hidden(path: str, size: int, rules: Mapping[str, _FolderRules]) -> bool:
    """Whether a file was not included under the rules of an earlier scan, by folder."""
    above, new = os.path.dirname(path), []
    while above not in rules:
        new.append(above)
        if (parent := os.path.dirname(above)) == above:
            return False  # nothing is known of the earlier scan
        above = parent
    found = rules[above]
    return found.hides(path, size) or any(found.skips(folder, os.path.basename(folder)) for folder in reversed(new))


def _files(root: Path, seen: dict[str, _FolderRules]) -> Iterator[tuple[str, os.stat_result]]:
    """The files and links below a folder that a snapshot includes, in no order. `seen` gets the rules of each folder."""
    level, ignored = level_of(root)
    waiting = [(str(root), _FolderRules(None if ignored else level, top_of(root) is not None))]
    while waiting:
        folder, rules = waiting.pop()
        seen[folder] = rules
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        if not rules.skips(entry.path, entry.name):
                            waiting.append((entry.path, rules.below(entry.path)))
                        continue
                    status = entry.stat(follow_symlinks=False)
                    if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
                        continue
                    if not rules.hides(entry.path, status.st_size):
                        yield entry.path, status
        except OSError:
            continue  # removed since, or not readable
