"""Finds the files of a snapshot: all of them by a complete scan, or only those that may have changed since the last one."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from friday_cli.system import beneath, safe_files
from friday_cli.system.folder_watch import FolderWatch
from friday_cli.system.gitignore import indexed_files
from friday_cli.system.project_search import nearest_repository

from ..fs.change_detection import BUILD_FOLDERS, SCAN_CPU_S, SKIPPED, now
from .baseline import FileSnapshot
from .blobs import MEGABYTE
from .folder_rules import FolderRules, rules_of

LINKED = 500
"""With more files that have several names than this a complete scan is faster than asking for each."""
TOUCHED = 100_000
"""Paths that are remembered as changed, for receipts."""
EARLY = 2_000
"""From so many files in git's index on, the first scan begins before a command needs it."""
_SLICE = 256
"""Files between two looks at the clock."""


class SnapshotLimits(msgspec.Struct, frozen=True):
    """The size of a snapshot: bytes of one file and of all, number of files, seconds of one scan."""

    file: int = 10 * MEGABYTE
    all: int = 200 * MEGABYTE
    files: int = 20_000
    seconds: float = 3.0


class FoundFile(NamedTuple):
    """A file or link below `root`; `status` is None if a file that was known does not exist any longer."""

    root: str
    status: os.stat_result | None


class FolderScanner:
    """Scans `roots`. Every call blocks. Files that cannot be read are skipped. `problem` says why scans were given up, ""
    while they work; `rules` has the ignore rules of each folder at the last scan, which began at `scanned_at` (nanoseconds)."""

    def __init__(self, roots: Sequence[Path], limits: SnapshotLimits) -> None:
        self.roots = [
            root for root in roots if not any(root != other and root.is_relative_to(other) for other in roots)
        ]
        self.limits = limits
        self.problem = ""
        self.rules: dict[str, FolderRules] = {}
        self.scanned_at = 0
        self._watch: FolderWatch | None = None
        self._watchable = True
        self._linked: set[str] = set()
        """Files with several names: the watch does not report a write through a name elsewhere."""
        self._touched = TouchedPaths()
        self._rule_files: tuple[str, ...] = ()
        self._rules_before: object = None

    def changed(self, known: Mapping[str, FileSnapshot]) -> dict[str, FoundFile] | None:
        """The files that may have changed since the last scan, by path; `known` is what that scan found. None if there are too
        many files, or if it takes too long: nothing is scanned from then on."""
        watch, scanned_at = self._watch, now()
        if watch is None or not known:
            return self.complete(known)
        watch.read()
        if watch.missed or len(self._linked) > LINKED or self._rules_now() != self._rules_before:
            return self.complete(known)
        files, folders = watch.files, watch.folders
        watch.files, watch.folders = set(), set()
        found: dict[str, FoundFile] = {}
        try:
            for folder in sorted(folders):
                found |= self._changed_folder(folder)
        except OSError:
            return self.complete(known)
        for path in (files | self._linked) - found.keys():
            if (file := self._one(path, known)) is not None:
                found[path] = file
        self._remember_linked(found)
        self._touched.add(files | found.keys())
        if len(known) + len(found) > self.limits.files and len(known.keys() | found.keys()) > self.limits.files:
            self._give_up(_large(self.limits))
            return None
        self.scanned_at = scanned_at
        return found

    def takes_long(self) -> bool:
        """Whether git's indexes have enough files for a complete scan to take long."""
        return sum(map(indexed_files, self.roots)) >= EARLY

    def complete(
        self, known: Mapping[str, FileSnapshot], wanted: Callable[[], bool] = lambda: True
    ) -> dict[str, FoundFile] | None:
        """As `changed`, with all files. None also if `wanted` became False meanwhile."""
        if not known and not self.problem:
            self.problem = _too_large(self.roots, self.limits)
        if self.problem:
            return None
        self.scanned_at, self.rules, self._linked = now(), {}, set()
        self._start_watch()
        found = self._all_files(known, self.rules, self._watch, wanted)
        if found is None:
            return None
        self._remember_linked(found)
        self._rule_files = tuple({file for rules in self.rules.values() if rules.level for file in rules.level.files()})
        self._rules_before = self._rules_now()
        return found

    def unwatched(self, known: Mapping[str, FileSnapshot], wanted: Callable[[], bool]) -> dict[str, FoundFile] | None:
        """All files except those that the next `changed` finds anyway: among them are files whose changes the kernel did
        not report. None if `wanted` became False meanwhile, or if the next `changed` is complete."""
        if self._watch is None:
            return {}
        found = self._all_files(known, {}, None, wanted)
        if found is None:
            return {} if self.problem else None
        self._watch.read()
        if self._watch.missed:
            return None
        files, folders = self._watch.files, tuple(f"{folder}/" for folder in self._watch.folders)
        self._remember_linked(found)
        return {path: file for path, file in found.items() if path not in files and not path.startswith(folders)}

    def touched_since(self, start: int) -> list[str] | None:
        """The paths that changed since a time (nanoseconds), those of ignored folders included; None if that is not known."""
        return self._touched.since(start)

    def close(self) -> None:
        """Forget everything."""
        self.rules, self._linked = {}, set()
        self._touched = TouchedPaths()
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def _give_up(self, why: str) -> None:
        self.close()
        self.problem = why

    def _start_watch(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        self._touched = TouchedPaths()
        if self._watchable:
            try:
                self._watch = FolderWatch(self.roots)
            except (OSError, ValueError):
                self._watchable = False

    def _stop_watch(self) -> None:
        """Scan completely from now on."""
        if self._watch is not None:
            self._watch.close()
        self._watch, self._watchable = None, False

    def _all_files(
        self,
        known: Mapping[str, FileSnapshot],
        rules: dict[str, FolderRules],
        watch: FolderWatch | None,
        wanted: Callable[[], bool],
    ) -> dict[str, FoundFile] | None:
        deadline = time.monotonic() + self.limits.seconds
        found: dict[str, FoundFile] = {}
        ignored: list[str] = []
        for root in self.roots:
            top = str(root)
            for count, (path, status) in enumerate(self._files(top, rules_of(root), rules, ignored, watch)):
                found[path] = FoundFile(top, status)
                if len(found) > self.limits.files:
                    self._give_up(_large(self.limits))
                    return None
                if count % _SLICE == 0:
                    if not wanted():
                        return None
                    if time.monotonic() > deadline:
                        self._give_up(_slow(self.limits))
                        return None
        for path in known.keys() - found.keys():  # deleted, or hidden by a new ignore rule
            found[path] = FoundFile(known[path].root, _status(known[path].root, path))
        if watch is not None and self._watch is not None and self._watch_ignored(ignored) is not None:
            self._touched.complete_from = now()
        return found

    def _files(
        self,
        root: str,
        top: FolderRules,
        seen: dict[str, FolderRules],
        ignored: list[str],
        watch: FolderWatch | None,
    ) -> Iterator[tuple[str, os.stat_result]]:
        """The files and links below a folder that a snapshot includes, in no order. `seen` gets the rules of each folder,
        `ignored` the subfolders that the ignore rules skip."""
        waiting = [(root, top)]
        while waiting:
            folder, rules = waiting.pop()
            seen[folder], within = rules, folder.rstrip("/")
            if watch is not None and self._watch is watch:
                try:
                    watch.add(folder)  # before it is read: what changes later is reported
                except OSError:
                    self._stop_watch()
            try:
                with beneath.listed(folder) as entries:
                    for entry in entries:
                        path = f"{within}/{entry.name}"
                        if entry.is_dir(follow_symlinks=False):
                            if not rules.skips(path, entry.name):
                                waiting.append((path, rules.below(path)))
                            elif entry.name not in SKIPPED and entry.name not in BUILD_FOLDERS:
                                ignored.append(path)
                            continue
                        status = entry.stat(follow_symlinks=False)
                        if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
                            continue
                        if not rules.hides(path, status.st_size):
                            yield path, status
            except OSError:
                continue  # removed since, or not readable

    def _watch_ignored(self, folders: Iterable[str]) -> list[str] | None:
        """Watch ignored folders, for receipts; returns the files in them. None if that takes too long: receipts then need
        a scan."""
        waiting, files = list(folders), []
        deadline = time.thread_time() + SCAN_CPU_S
        while waiting:
            if self._watch is None or time.thread_time() > deadline:
                return None
            folder = waiting.pop()
            try:
                self._watch.add(folder)
            except OSError:
                self._stop_watch()
                return None
            with contextlib.suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    if not entry.is_dir(follow_symlinks=False):
                        files.append(entry.path)
                    elif entry.name not in SKIPPED and entry.name not in BUILD_FOLDERS:
                        waiting.append(entry.path)
        return files

    def _changed_folder(self, folder: str) -> dict[str, FoundFile]:
        """The files of a subfolder that was created or removed. Raises OSError if it cannot be watched."""
        for name in [name for name in self.rules if name == folder or name.startswith(f"{folder}/")]:
            del self.rules[name]
        if not os.path.isdir(folder) or os.path.islink(folder):
            return {}
        above, name = self.rules.get(os.path.dirname(folder)), os.path.basename(folder)
        found: dict[str, FoundFile] = {}
        ignored: list[str] = []
        if above is not None and not above.skips(folder, name):
            root = self._root_of(folder)
            inside = self._files(folder, above.below(folder), self.rules, ignored, self._watch)
            found = {path: FoundFile(root, status) for path, status in inside}
        elif name not in SKIPPED and name not in BUILD_FOLDERS:
            ignored.append(folder)
        if (files := self._watch_ignored(ignored)) is None:
            self._touched.complete_from = None
        else:
            self._touched.add(files)
        if self._watch is None:
            raise OSError("the folder cannot be watched")
        return found

    def _one(self, path: str, known: Mapping[str, FileSnapshot]) -> FoundFile | None:
        """A file that may have changed; None if a snapshot does not include it."""
        root = known[path].root if path in known else self._root_of(path)
        status = _status(root, path)
        if path in known:
            return FoundFile(root, status)
        rules = self.rules.get(os.path.dirname(path))
        return None if status is None or rules is None or rules.hides(path, status.st_size) else FoundFile(root, status)

    def _root_of(self, path: str) -> str:
        return next(str(root) for root in self.roots if path.startswith(f"{str(root).rstrip('/')}/"))

    def _remember_linked(self, found: Mapping[str, FoundFile]) -> None:
        self._linked -= found.keys()
        self._linked.update([path for path, (_, status) in found.items() if status is not None and status.st_nlink > 1])

    def _rules_now(self) -> object:
        """Something that changes with the ignore rules outside of the watched folders."""
        tops = [nearest_repository(root) for root in self.roots]
        return tops, [_stamp(file) for file in self._rule_files]


class TouchedPaths:
    """When changes of paths were reported. `complete_from`: since when (nanoseconds) it has everything that a scan of
    `change_detection` would find; None: it has not."""

    def __init__(self) -> None:
        self.complete_from: int | None = None
        self._reported_at: dict[str, int] = {}

    def add(self, paths: Iterable[str]) -> None:
        """These paths changed until now."""
        at = now()
        if len(self._reported_at) > TOUCHED:
            self._reported_at.clear()
            self.complete_from = self.complete_from and at
        self._reported_at.update(dict.fromkeys(paths, at))

    def since(self, start: int) -> list[str] | None:
        """The paths that changed since a time; None if that is not known."""
        if self.complete_from is None or self.complete_from > start:
            return None
        return [path for path, at in self._reported_at.items() if at >= start]


def _too_large(roots: Sequence[Path], limits: SnapshotLimits) -> str:
    """Why folders whose git indexes name too many files have no snapshot, "" if they may have one. The files are counted without
    their status and a watch of each folder, which is four times as fast; large files that the rules ignore count here."""
    if sum(map(indexed_files, roots)) <= limits.files:
        return ""
    waiting = [(str(root), rules_of(root)) for root in roots]
    count, deadline = 0, time.monotonic() + limits.seconds
    while waiting and time.monotonic() < deadline:
        folder, rules = waiting.pop()
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    count += 1
                    if count > limits.files:
                        return _large(limits)
                elif not rules.skips(entry.path, entry.name):
                    waiting.append((entry.path, rules.below(entry.path)))
    return _slow(limits) if waiting else ""


def _large(limits: SnapshotLimits) -> str:
    return f"the folder has more than {limits.files:,} files"


def _slow(limits: SnapshotLimits) -> str:
    return f"scanning the folder takes longer than {limits.seconds:g} s"


def _stamp(path: str) -> tuple[int, ...]:
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


def _status(root: str, path: str) -> os.stat_result | None:
    """The status of a file or link below `root`; None if it does not exist. No link in the path is followed."""
    try:
        with safe_files.open_parent(Path(root), Path(path)) as folder:
            status = os.stat(os.path.basename(path), dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode) else None
