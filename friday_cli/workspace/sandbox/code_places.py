"""Finds the files from which programs run code later in a folder, its packages and the repositories in it, whether git ignores them or not."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from friday_cli.core.permissions.runs_later import deeper_names, is_protected

FOLDERS, ENTRIES = 2_000, 20_000
"""Folders that are looked at, the nearest first, and the names that are read of each."""
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
    """The places in the folder `root`. A folder that did not change since the last time is not read again."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._known: dict[str, _Folder] = {}
        self._left_out: set[str] = set()

    def find(self) -> Iterator[str]:
        """Paths of files and folders, the nearest to the top first. `.git` and `.friday` at the top are left out. Blocks."""
        waiting, seen = deque([self._root]), dict[str, _Folder]()
        while waiting:
            path = waiting.popleft()
            if path not in self._known and (len(seen) >= FOLDERS or path in self._left_out):
                self._left_out.add(path)  # also later, or what it has would look new when others are removed
                continue
            try:
                found = self._look(path)
            except OSError:
                continue  # removed since, or not readable
            seen[path] = found
            waiting.extend(found.folders)
            yield from found.places
        self._known = seen

    def _look(self, path: str) -> _Folder:
        changed = os.lstat(path).st_ctime_ns
        known = self._known.get(path)
        if known is not None and known.changed == changed:
            return known
        folders: list[str] = []
        places: list[str] = []
        with os.scandir(path) as entries:
            for entry in islice(entries, ENTRIES):
                if is_protected(entry.name):
                    if path != self._root or entry.name not in (".git", ".friday"):
                        git = entry.name == ".git" and entry.is_dir(follow_symlinks=False)
                        places += [f"{entry.path}/{name}" for name in _GIT] if git else [entry.path]
                    continue
                places += [f"{entry.path}/{rest}" for rest in deeper_names().get(entry.name.lower(), ())]
                if entry.name not in _CLOSED and entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
        changed = changed if changed < time.time_ns() - SETTLED_NS else -1  # it may change again without a later time
        return _Folder(changed, tuple(sorted(folders)), tuple(sorted(places)))
