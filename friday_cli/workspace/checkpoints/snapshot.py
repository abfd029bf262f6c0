"""A snapshot of a workspace's files before a command runs, so that its changes can be detected and undone. It covers,
within limits, all files that git does not ignore, and small ignored files whose folder is not ignored."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

import msgspec

from ..fs.change_detection import now
from .baseline import BaselineFile, Commit, FileSnapshot
from .blobs import MEGABYTE
from .file_state import ABSENT, ContentReader, FileState, file_state
from .folder_rules import FolderRules, was_hidden
from .scan import FolderScanner, FoundFile, SnapshotLimits

TICK_NS = 20_000_000
"""Upper bound of the resolution of file timestamps, in nanoseconds."""
JUST_NOW = -1
"""The first number of the stamp of a file that changed within the last tick of the clock, and may change again within it."""
MOVED = "it existed before the command, where it was not saved"
"""Why a file that appeared during a command is not removed: the command made it visible or moved it with its folder."""


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
        self.ready = False
        self._scanner = FolderScanner(roots, limits)
        self._files: dict[str, FileSnapshot] = {}
        self._inodes: dict[int, FileSnapshot] | None = None
        """The files by inode, from the first new file on: made anew each time it took 3 ms with 19,000 files."""
        self._baseline = BaselineFile(baseline)

    @classmethod
    def left_behind(cls, baseline: Path, limits: SnapshotLimits) -> tuple[Self, str] | None:
        """The snapshot of a process that died while commands ran, and the agent of these commands; None if none ran."""
        loaded = BaselineFile.load(baseline)
        if loaded is None:
            return None
        file, files, commit = loaded
        snapshot = cls([root for root in map(Path, map(os.fsdecode, commit.roots)) if root.is_dir()], baseline, limits)
        snapshot._baseline, snapshot._scanner.scanned_at = file, commit.scanned_at
        snapshot._files = {path: f for path, f in files.items() if Path(f.root) in snapshot._scanner.roots}
        snapshot.ready = True
        if commit.agent:
            return snapshot, commit.agent
        snapshot.close()
        return None

    @property
    def problem(self) -> str:
        """Why the snapshot was given up, "" while it works."""
        return self._scanner.problem

    def commit(self, agent: str) -> None:
        """Save the snapshot for the case that the process is killed while commands of `agent` run ("": none)."""
        if self.ready:
            scanner = self._scanner
            self._baseline.commit(Commit(agent, tuple(map(os.fsencode, scanner.roots)), scanner.scanned_at))

    def update_and_commit(self, agent: str, wanted: Callable[[], bool]) -> None:
        """Both, at once."""
        self.update(wanted)
        self.commit(agent)

    def take_early(self, wanted: Callable[[], bool]) -> None:
        """Take the first snapshot if that takes long, so that no command waits for it."""
        if not self.ready and self._scanner.takes_long():
            self.update(wanted)

    def update(self, wanted: Callable[[], bool] = lambda: True) -> None:
        """Make the current files the snapshot. The first one may be given up: it ends once `wanted` is False."""
        found = self._changed(wanted)
        if found is None:
            return
        with ContentReader() as reader:
            for path, (root, status) in found.items():
                if not self.ready and not wanted():
                    return
                if status is None:
                    self._forget(path)
                else:
                    self._save(path, root, status, reader)
        self.ready = True

    def differences(self) -> list[SnapshotChange]:
        """The changes since the last scan; the current files become the snapshot. Files that appear because an ignore
        rule was removed are not changes."""
        rules, since = dict(self._scanner.rules), self._scanner.scanned_at
        found = self._changed()
        return self._compare(found, rules, since) if self.ready and found is not None else []

    def unseen_differences(self, wanted: Callable[[], bool]) -> list[SnapshotChange] | None:
        """The changes that `differences` did not see because the kernel did not report them, and only those. None if
        `wanted` became False before the scan ended."""
        if not self.ready:
            return []
        rules, since = dict(self._scanner.rules), self._scanner.scanned_at
        found = self._scanner.unwatched(self._files, wanted)
        self._close_if_given_up()
        return None if found is None else self._compare(found, rules, since)

    def touched_since(self, start: int) -> list[str] | None:
        """As `FolderScanner.touched_since`."""
        return self._scanner.touched_since(start)

    def _changed(self, wanted: Callable[[], bool] = lambda: True) -> dict[str, FoundFile] | None:
        found = self._scanner.changed(self._files) if self.ready else self._scanner.complete(self._files, wanted)
        self._close_if_given_up()
        return found

    def _close_if_given_up(self) -> None:
        if self.problem:
            self.close()

    def _compare(
        self, found: Mapping[str, FoundFile], rules: Mapping[str, FolderRules], since: int
    ) -> list[SnapshotChange]:
        moves = self._moves(found)
        rows = []
        for path in sorted(found):
            old, (root, status) = self._files.get(path), found[path]
            if old is not None and status is not None and old.stamp == _stamp(status) and old.stamp[0] != JUST_NOW:
                continue
            before, lost = self._state(old), old.lost if old else ""
            if status is None:
                after = ABSENT
                self._forget(path)
            else:
                with ContentReader() as reader:
                    self._save(path, root, status, reader)
                if old is None:
                    if was_hidden(path, status.st_size, rules):
                        continue
                    moved = moves.get(path)
                    if moved is not None and moved.lost and moved.stamp[2] == status.st_size:
                        lost = moved.lost
                    elif moved is None and status.st_ctime_ns < since - TICK_NS:
                        lost = MOVED
                after = _file_state(root, path, self._scanner.limits.file)
            if (before.mode, before.digest) != (after.mode, after.digest) or (old is not None and old.lost):
                rows.append(SnapshotChange(Path(root), Path(path), before, after, lost))
        return rows

    def _moves(self, found: Mapping[str, FoundFile]) -> dict[str, FileSnapshot]:
        """The known files that new ones may have been, by the path of the new one: those with the same inode."""
        new = {path: status.st_ino for path, (_, status) in found.items() if status and path not in self._files}
        if new and self._inodes is None:
            self._inodes = {file.stamp[3]: file for file in self._files.values()}
        return {path: self._inodes[inode] for path, inode in new.items() if self._inodes and inode in self._inodes}

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
        root = next((root for root in self._scanner.roots if path.is_relative_to(root)), None)
        if root is not None and (name in self._files or len(self._files) < self._scanner.limits.files):
            with ContentReader() as reader:
                self._save(name, str(root), status, reader)

    def close(self) -> None:
        """Drop the snapshot."""
        self._files.clear()
        self._inodes = None
        self._scanner.close()
        self.ready = False
        self._baseline.close()

    def _forget(self, path: str) -> None:
        if self._pop(path):
            self._baseline.drop(path)

    def _pop(self, path: str) -> bool:
        file = self._files.pop(path, None)
        if file is not None and self._inodes is not None and self._inodes.get(file.stamp[3]) is file:
            del self._inodes[file.stamp[3]]
        return file is not None

    def _save(self, path: str, root: str, status: os.stat_result, reader: ContentReader) -> None:
        old, stamp = self._files.get(path), _stamp(status)
        if old is not None and old.stamp == stamp and stamp[0] != JUST_NOW:
            return
        self._pop(path)
        if self._baseline.end + status.st_size > self._scanner.limits.all:
            self._compact()
        data, lost = None, ""
        if status.st_size > self._scanner.limits.file:
            lost = f"it was larger than {self._scanner.limits.file // MEGABYTE} MB"
        elif self._baseline.end + status.st_size > self._scanner.limits.all:
            lost = f"the folder has more than the {self._scanner.limits.all // MEGABYTE} MB that are saved before a command"
        else:
            data = reader.read(root, path, most=self._scanner.limits.file)
            lost = "it could not be read" if data is None else ""
        file = FileSnapshot(root, stamp, status.st_mode, lost=lost)
        try:
            file = self._baseline.add(path, file, data or b"")
        except OSError as error:
            file = msgspec.structs.replace(file, lost=f"it could not be saved: {error.strerror}")
            file = self._baseline.add(path, file)
        self._files[path] = file
        if self._inodes is not None:
            self._inodes[file.stamp[3]] = file

    def _compact(self) -> None:
        """Remove contents that no file has any longer, if they are at least half of the baseline file."""
        if sum(file.size for file in self._files.values()) <= self._baseline.end // 2:
            self._files = self._baseline.compact(self._files) or self._files
            self._inodes = None

    def _state(self, old: FileSnapshot | None) -> FileState:
        if old is None:
            return ABSENT
        if old.lost:
            return FileState(old.mode, size=old.size)
        data = self._baseline.read(old)
        return FileState(old.mode, hashlib.sha256(data).hexdigest(), data, old.size)


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    """Numbers that change whenever the file does. The first is `JUST_NOW` for a file that changed within the last tick: it
    could change again without a new timestamp. The fourth is the inode."""
    changed = JUST_NOW if status.st_ctime_ns > now() - TICK_NS else status.st_mtime_ns
    return changed, status.st_ctime_ns, status.st_size, status.st_ino, status.st_mode


def _file_state(root: str, path: str, most: int) -> FileState:
    try:
        return file_state(Path(root), Path(path), most=most)
    except OSError:
        return ABSENT
