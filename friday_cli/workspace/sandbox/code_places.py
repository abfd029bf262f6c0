"""Finds the files from which programs run code later in a folder, its packages and the repositories in it, whether git ignores them or not."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from friday_cli.core.permissions.runs_later import deeper_names, protected_names
from friday_cli.system.folder_watch import FolderWatch

FOLDERS, ENTRIES = 2_000, 20_000
"""Folders that are looked at, the nearest first, and the names that are read of each."""
WATCHED_FROM = 200
"""With fewer folders their change times are asked for: a user's programs may have 128 watches in all."""
SETTLED_NS = 2_000_000_000
"""The age in nanoseconds from which on a change time is that of the last change: file systems have coarse clocks."""
_GIT = ("hooks", "config", "config.worktree", "info", "modules", "commondir", "gitdir")
"""Parts of a git folder that name programs which git runs, or where git finds such names."""
_CLOSED = frozenset(("node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox", ".mypy_cache", ".ruff_cache"))
"""Folders that are not entered."""


class _Folder(NamedTuple):
    """What a folder has: its change time in nanoseconds, which no program can set (-1: to be read again), folders to enter, and places."""

    changed: int
    folders: tuple[str, ...]
    places: tuple[str, ...]


class CodePlaces:
    """The places in the folder `root`. A folder that did not change since the last time is not read again; where there are many,
    the kernel tells which did, otherwise each is asked for its change time."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._known: dict[str, _Folder] = {}
        self._places: tuple[str, ...] = ()
        self._left_out: set[str] = set()
        self._watch: FolderWatch | None = None
        self._lock = threading.Lock()

    def __del__(self) -> None:
        self._end_watch()

    def find(self) -> tuple[str, ...]:
        """Paths of files and folders, the nearest to the top first. `.git` and `.friday` at the top are left out. Blocks."""
        with self._lock:
            changed = self._changed_folders()
            if changed is None or not all(map(self._is_as_before, changed)):
                self._places = self._walk(changed)
            return self._places

    def _changed_folders(self) -> set[str] | None:
        """The known folders in which something happened since the last time; None where nobody can tell."""
        if self._watch is None:
            return None
        self._watch.read()
        made_again = self._watch.folders & self._known.keys()  # what is in them is not watched
        if self._watch.missed or made_again:
            self._end_watch()
            return None
        changed = {os.path.dirname(path) for path in self._watch.files | self._watch.folders}
        self._watch.files.clear()
        self._watch.folders.clear()
        return changed & self._known.keys()

    def _is_as_before(self, path: str) -> bool:
        """Whether a known folder has the same folders and places as before."""
        before = self._known[path]
        try:
            found = self._known[path] = self._look(path)
        except OSError:
            return False
        return (found.folders, found.places) == (before.folders, before.places)

    def _walk(self, changed: set[str] | None, *, watched: bool = False) -> tuple[str, ...]:
        """The places, from the top. Of folders that are known only those that `changed` are looked at; None: all. Where there are
        many, it begins again once they are `watched`, if they can be."""
        if watched:
            with suppress(OSError):  # not on this system, or too many programs watch already
                self._watch = FolderWatch([Path(self._root)])
        waiting, seen, places = deque([self._root]), dict[str, _Folder](), list[str]()
        while waiting:
            path = waiting.popleft()
            found = self._known.get(path)
            if found is None and (len(seen) >= FOLDERS or path in self._left_out):
                self._left_out.add(path)  # also later, or what it has would look new when others are removed
                continue
            if found is None or changed is None or path in changed:
                try:
                    found = self._look(path)
                except OSError:
                    continue  # removed since, or not readable
            seen[path] = found
            if changed is None and not watched and len(seen) > WATCHED_FROM:
                self._known |= seen
                return self._walk(None, watched=True)
            waiting.extend(found.folders)
            places += found.places
        self._known = seen
        return tuple(places)

    def _look(self, path: str) -> _Folder:
        if self._watch is not None:
            try:
                self._watch.add(path)  # before it is read, so that no change is missed
            except OSError:  # as many as may be watched
                self._end_watch()
        changed = os.lstat(path).st_ctime_ns
        known = self._known.get(path)
        if known is not None and known.changed == changed:
            return known
        folders: list[str] = []
        places: list[str] = []
        (names, matches), deeper = protected_names(), deeper_names()
        with os.scandir(path) as entries:
            for entry in islice(entries, ENTRIES):
                name = entry.name
                lower = name.lower()
                if lower in names or matches(lower):
                    if path != self._root or name not in (".git", ".friday"):
                        git = name == ".git" and entry.is_dir(follow_symlinks=False)
                        places += [f"{entry.path}/{part}" for part in _GIT] if git else [entry.path]
                    continue
                if lower in deeper:
                    places += [f"{entry.path}/{rest}" for rest in deeper[lower]]
                if entry.is_dir(follow_symlinks=False) and name not in _CLOSED:
                    folders.append(entry.path)
        changed = changed if changed < time.time_ns() - SETTLED_NS else -1  # it may change again without a later time
        return _Folder(changed, tuple(sorted(folders)), tuple(sorted(places)))

    def _end_watch(self) -> None:
        if self._watch is not None:
            self._watch.close()
        self._watch = None
