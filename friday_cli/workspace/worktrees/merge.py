"""Plans how the changes between two git trees are made in the files of another folder."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from friday_cli.core.protocol.errors import ToolError
from friday_cli.system.paths import text_of

from ..fs.transaction import LINK, FileContent, FileWrite, leaves_empty, read_content
from .git_trees import ABSENT, GitTrees, TreeChange


async def plan(trees: GitTrees, changes: Sequence[TreeChange], top: Path) -> MergePlan:
    """Plan to make `changes` of `trees` in the folder `top`, whose files may have changed meanwhile. Changes nothing. Raises
    ToolError."""
    ids = [oid for c in changes for mode, oid in ((c.old_mode, c.old), (c.new_mode, c.new)) if mode != ABSENT]
    found = MergePlan(trees, top, changes, await trees.contents(ids))
    for change in sorted(changes, key=lambda c: (c.new_mode != ABSENT, -c.path.count("/"), c.path)):
        await found.add(change)
    return found


class _MergeConflict(Exception):
    """Why a change cannot be made."""


class MergePlan:
    """The writes (`steps`) that make the changes in a folder. `merged` are files that also changed there, in other places;
    `conflicts` has path and reason of each change that cannot be made."""

    def __init__(self, trees: GitTrees, top: Path, changes: Sequence[TreeChange], contents: dict[str, bytes]) -> None:
        self.trees, self.top, self.contents = trees, top, contents
        self.deleted = {top / c.path for c in changes if c.new_mode == ABSENT}
        self.steps: list[FileWrite] = []
        self.merged: list[str] = []
        self.conflicts: list[tuple[str, str]] = []

    async def add(self, change: TreeChange) -> None:
        """Plan one change, or add it to the conflicts."""
        path = self.top / change.path
        old, new = self._content(change.old_mode, change.old), self._content(change.new_mode, change.new)
        try:
            current = await asyncio.to_thread(self._current, path)
            if current == new:
                return
            if current is not None and new is not None and not self.trees.repository.tracks_modes:
                old, new = _with_mode(old, current), _with_mode(new, current)
            if current != old:
                new = await self._merge(old, new, current)
                self.merged.append(text_of(change.path))
        except _MergeConflict as conflict:
            self.conflicts.append((text_of(change.path), str(conflict)))
            return
        if current != new:
            self.steps.append(FileWrite(path, current, new))

    def _content(self, mode: int, oid: str) -> FileContent | None:
        return None if mode == ABSENT else FileContent(mode, self.contents[oid])

    def _current(self, path: Path) -> FileContent | None:
        try:
            return read_content(self.top, path)
        except NotADirectoryError:  # one of its folders is a file or a link here; the same changes may delete that file
            if self.deleted.isdisjoint(path.parents):
                raise _MergeConflict("a folder above it is a file or a link here") from None
            return None
        except ToolError as error:
            if path.is_dir() and not path.is_symlink() and leaves_empty(path, self.deleted):
                return None
            raise _MergeConflict(error.message.rstrip(".")) from None
        except OSError as error:
            raise _MergeConflict(str(error.strerror)) from None

    async def _merge(
        self, old: FileContent | None, new: FileContent | None, current: FileContent | None
    ) -> FileContent:
        """The content of a path that changed on both sides. Raises _MergeConflict."""
        if current is None:
            raise _MergeConflict("it was deleted here, and changed in the worktree")
        if new is None:
            raise _MergeConflict("it was changed here, and deleted in the worktree")
        if old is None:
            raise _MergeConflict("it was created here as well, with different content")
        if LINK in (old.mode, new.mode, current.mode):
            raise _MergeConflict("it changed here as well, and a link cannot be merged")
        mode = new.mode if current.mode == old.mode else current.mode
        if current.data == old.data:
            return FileContent(mode, new.data)
        if new.data == old.data:
            return FileContent(mode, current.data)
        data = await self.trees.merge_text(current.data, old.data, new.data)
        if data is None:
            binary = b"\0" in current.data + new.data
            raise _MergeConflict(f"it changed here as well, {'and is not text' if binary else 'in the same place'}")
        return FileContent(mode, data)


def _with_mode(content: FileContent | None, like: FileContent) -> FileContent | None:
    """A file with the mode of `like`, for a repository that does not track executable bits."""
    if content is None or LINK in (content.mode, like.mode):
        return content
    return FileContent(like.mode, content.data)
