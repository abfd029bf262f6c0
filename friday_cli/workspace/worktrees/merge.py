"""Bringing the changes of one tree into the files of another folder: looked through first, then all or nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from friday_cli.core.protocol.errors import ToolError

from ..fs.transaction import LINK, FileContent, FileWrite, read_content
from .git_trees import NOTHING, GitTrees, TreeChange, shown


class MergePlan(msgspec.Struct, frozen=True):
    """What is to be done in a folder so that it has the changes, too.

    `merged` are the files that changed there as well, elsewhere in the file; `there` those that hold the change
    already; `conflicts` has the path and the reason of each change that cannot be made.
    """

    steps: tuple[FileWrite, ...]
    merged: tuple[str, ...]
    there: tuple[str, ...]
    conflicts: tuple[tuple[str, str], ...]


async def plan(trees: GitTrees, changes: Sequence[TreeChange], top: Path) -> MergePlan:
    """How `changes` of `trees` are brought into the folder `top`, whose files may have changed meanwhile.

    Nothing is changed yet. Raises ToolError.
    """
    ids = [oid for c in changes for mode, oid in ((c.old_mode, c.old), (c.new_mode, c.new)) if mode != NOTHING]
    looked = _MergeCheck(trees, top, changes, await trees.contents(ids))
    for change in sorted(changes, key=lambda c: (c.new_mode != NOTHING, -c.path.count("/"), c.path)):
        await looked.at(change)
    return MergePlan(tuple(looked.steps), tuple(looked.merged), tuple(looked.there), tuple(looked.conflicts))


class _MergeConflict(Exception):
    """Why a change cannot be made."""


class _MergeCheck:
    def __init__(self, trees: GitTrees, top: Path, changes: Sequence[TreeChange], contents: dict[str, bytes]) -> None:
        self.trees, self.top, self.contents = trees, top, contents
        self.goes = {c.path for c in changes if c.new_mode == NOTHING}
        self.steps: list[FileWrite] = []
        self.merged: list[str] = []
        self.there: list[str] = []
        self.conflicts: list[tuple[str, str]] = []

    async def at(self, change: TreeChange) -> None:
        path = self.top / change.path
        old, new = self._content(change.old_mode, change.old), self._content(change.new_mode, change.new)
        try:
            here = await asyncio.to_thread(self._here, change, path)
            if here == new:
                self.there.append(shown(change.path))
                return
            if here is not None and new is not None and not self.trees.repository.keeps_modes:
                old, new = _with_mode(old, here), _with_mode(new, here)
            if here != old:
                new = await self._both(old, new, here)
                self.merged.append(shown(change.path))
        except _MergeConflict as conflict:
            self.conflicts.append((shown(change.path), str(conflict)))
            return
        if here != new:
            self.steps.append(FileWrite(path, here, new))

    def _content(self, mode: int, oid: str) -> FileContent | None:
        return None if mode == NOTHING else FileContent(mode, self.contents[oid])

    def _here(self, change: TreeChange, path: Path) -> FileContent | None:
        try:
            return read_content(self.top, path)
        except NotADirectoryError:
            self._below_a_file(change)
            return None
        except ToolError as error:
            if path.is_dir() and not path.is_symlink() and self._empties(path):
                return None
            raise _MergeConflict(error.message.rstrip(".")) from None
        except OSError as error:
            raise _MergeConflict(str(error.strerror)) from None

    def _below_a_file(self, change: TreeChange) -> None:
        """Nothing is at a path that leads through a file; it can be made where the same changes remove that file."""
        above = Path(change.path).parents
        if not any(str(folder) in self.goes for folder in above):
            raise _MergeConflict("a folder above it is a file or a link here")

    def _empties(self, folder: Path) -> bool:
        """Whether the same changes remove all that is in `folder`, and there is something."""
        if not any(Path(name).is_relative_to(folder.relative_to(self.top)) for name in self.goes):
            return False
        for where, folders, files in os.walk(folder):
            names = [*files, *(name for name in folders if os.path.islink(os.path.join(where, name)))]
            if any(os.path.relpath(os.path.join(where, name), self.top) not in self.goes for name in names):
                return False
        return True

    async def _both(self, old: FileContent | None, new: FileContent | None, here: FileContent | None) -> FileContent:
        """What a path holds when it changed on both sides."""
        if here is None:
            raise _MergeConflict("it was deleted here, and changed in the worktree")
        if new is None:
            raise _MergeConflict("it was changed here, and deleted in the worktree")
        if old is None:
            raise _MergeConflict("it was made here as well, with other content")
        if LINK in (old.mode, new.mode, here.mode):
            raise _MergeConflict("it changed here as well, and a link cannot be merged")
        mode = new.mode if here.mode == old.mode else here.mode
        if here.data == old.data:
            return FileContent(mode, new.data)
        if new.data == old.data:
            return FileContent(mode, here.data)
        data = await self.trees.merged(here.data, old.data, new.data)
        if data is None:
            both = b"\0" in here.data + new.data
            raise _MergeConflict(f"it changed here as well, {'and is no text' if both else 'in the same place'}")
        return FileContent(mode, data)


def _with_mode(content_: FileContent | None, like: FileContent) -> FileContent | None:
    """A file with the mode of `like`, where the repository does not tell who may run a file."""
    if content_ is None or LINK in (content_.mode, like.mode):
        return content_
    return FileContent(like.mode, content_.data)
