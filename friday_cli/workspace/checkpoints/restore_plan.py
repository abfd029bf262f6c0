"""What has to be done so that files hold again what they held, and what stands in the way."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.receipt import FileChange, KeptFile
from friday_cli.core.text.diff import difference

from ..fs.transaction import FILE, LINK, PROGRAM, FileContent, FileWrite, read_content
from .blobs import MEGABYTE, Blobs
from .file_history import RecordedChange, broken, follows
from .file_state import NOTHING, FileState, file_state, place

COMPARED = 1_000_000
"""Bytes of a file up to which its changed lines are counted and shown."""


class WritableFolders(Protocol):
    """Where files may be put: a workspace."""

    root: Path

    def above(self, path: Path) -> Path | None:
        """The root that `path` lies below, None where it may not be written."""
        ...


class RestoreConflict(msgspec.Struct, frozen=True):
    """A file that is not what the agents left, and why."""

    path: str
    reason: str


class RestorePlan(msgspec.Struct, frozen=True):
    """`steps` bring `files` back. `conflicts` are left alone unless they were to be overwritten; `lost` cannot be brought
    back at all."""

    steps: tuple[FileWrite, ...] = ()
    files: tuple[FileChange, ...] = ()
    conflicts: tuple[RestoreConflict, ...] = ()
    lost: tuple[RestoreConflict, ...] = ()


def plan(
    wanted: Sequence[list[RecordedChange]], folders: WritableFolders, blobs: Blobs, *, most: int, force: bool = False
) -> RestorePlan:
    """How each file gets what it held before the first of its changes. With `force` over what others changed since, too.

    Nothing is changed yet. Blocks.
    """
    made: dict[str, FileWrite] = {}
    conflicts: list[RestoreConflict] = []
    lost: list[RestoreConflict] = []
    for changes in sorted(wanted, key=lambda c: c[0].kept.mode != 0):  # what goes comes first: a folder may go with it
        first = changes[0].kept
        try:
            step = _step(
                changes, folders, blobs, most, force, {step.path for step in made.values() if step.new is None}
            )
        except _ContentLost as error:
            lost.append(RestoreConflict(first.path, str(error)))
        except _ChangedSince as error:
            conflicts.append(RestoreConflict(first.path, str(error)))
        except (OSError, ToolError) as error:
            words = error.message.rstrip(".") if isinstance(error, ToolError) else str(error.strerror)
            lost.append(RestoreConflict(first.path, words))
        else:
            if step is not None:
                made[first.path] = step
    rows = sorted(made.items(), key=lambda item: (item[1].new is not None, -len(item[1].path.parts), item[0]))
    files = tuple(row(name, step.old, step.new) for name, step in rows)
    return RestorePlan(tuple(step for _, step in rows), files, tuple(conflicts), tuple(lost))


class _ContentLost(Exception):
    """Why a file cannot be brought back."""


class _ChangedSince(Exception):
    """Why a file is not overwritten unasked."""


def _step(
    changes: list[RecordedChange],
    folders: WritableFolders,
    blobs: Blobs,
    most: int,
    force: bool,
    gone: Collection[Path],
) -> FileWrite | None:
    first, last = changes[0].kept, changes[-1]
    path = place(folders.root, first)
    root = folders.above(path)
    if root is None:
        raise _ContentLost("it lies outside the folders of this session")
    sight = file_state(root, path, most=most)
    if sight.kind == stat.S_IFDIR and _empties(path, gone):
        sight = NOTHING
    if sight.kind in (0, stat.S_IFREG, stat.S_IFLNK):
        if sight.holds(first.mode, first.before) and _rights(sight.mode) == _rights(first.mode) and not first.lost:
            return None
    else:
        raise _ContentLost("a folder is in its place" if sight.kind == stat.S_IFDIR else "it is no file any more")
    if first.lost:
        raise _ContentLost(first.lost)
    if not force:
        _require_unchanged(changes, last, sight, most)
    here = read_content(root, path) if sight.mode else None
    if here is not None:
        here = msgspec.structs.replace(here, rights=_rights(sight.mode) if here.mode != LINK else None)
    return FileWrite(path, here, _before(first, blobs))


def _empties(folder: Path, gone: Collection[Path]) -> bool:
    """Whether nothing would be in a folder without these files, and something is now."""
    found = [Path(where, name) for where, _, names in os.walk(folder) for name in names]
    links = [
        Path(where, name) for where, names, _ in os.walk(folder) for name in names if Path(where, name).is_symlink()
    ]
    return bool(found) and all(path in gone for path in (*found, *links))


def _require_unchanged(changes: list[RecordedChange], last: RecordedChange, sight: FileState, most: int) -> None:
    left = follows(sight.digest, sight.mode, last.kept)
    if not left and not (not last.sure and follows(sight.digest, sight.mode, last.kept, before=True)):
        raise _ChangedSince("it was deleted since" if not sight.mode else "it was changed since")
    if broken(changes):
        raise _ChangedSince("somebody else changed it between two changes of the agents")
    if sight.names > 1:
        raise _ChangedSince("it has several names (hard links), of which only this one would change")
    if sight.kind == stat.S_IFREG and sight.size > most:
        raise _ChangedSince(f"it is larger than {most // MEGABYTE} MB, so this could not be taken back")


def _before(kept: KeptFile, blobs: Blobs) -> FileContent | None:
    if not kept.mode:
        return None
    data = blobs.get(kept.before)
    if data is None:
        raise _ContentLost("what it held is not kept any more")
    if stat.S_ISLNK(kept.mode):
        return FileContent(LINK, data)
    return FileContent(PROGRAM if kept.mode & stat.S_IXUSR else FILE, data, stat.S_IMODE(kept.mode))


def _rights(mode: int) -> int:
    return 0 if stat.S_ISLNK(mode) else stat.S_IMODE(mode)


def row(path: str, old: FileContent | None, new: FileContent | None) -> FileChange:
    """What a step does to a file, in figures where it is a text that can be compared."""
    before, after = text_of(old.data if old else b""), text_of(new.data if new else b"")
    added = removed = 0
    if before is not None and after is not None:
        _, added, removed = difference(before, after)
    seen = "comes back" if old is None else "goes" if new is None else ""
    if before is None or after is None:
        seen = f"{seen}, binary".lstrip(", ")
    return FileChange(path, added, removed, seen=seen)


def text_of(data: bytes) -> str | None:
    """Bytes as a text that can be compared; None for what is none, or is large."""
    if len(data) > COMPARED or b"\0" in data:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None
