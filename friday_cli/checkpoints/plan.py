"""What has to be done so that files hold again what they held, and what stands in the way."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from ..core.errors import ToolError
from ..core.receipt import FileChange, Kept
from ..machine.landing import FILE, LINK, PROGRAM, Content, Step, content
from ..tools.files.change import difference
from .blobs import MEGABYTE, Blobs
from .ledger import Change, broken, follows
from .sight import NOTHING, Sight, look, place

COMPARED = 1_000_000
"""Bytes of a file up to which its changed lines are counted and shown."""


class Folders(Protocol):
    """Where files may be put: a workspace."""

    root: Path

    def above(self, path: Path) -> Path | None:
        """The root that `path` lies below, None where it may not be written."""
        ...


class Conflict(msgspec.Struct, frozen=True):
    """A file that is not what the agents left, and why."""

    path: str
    reason: str


class Plan(msgspec.Struct, frozen=True):
    """`steps` bring `files` back. `conflicts` are left alone unless they were to be overwritten; `lost` cannot be brought
    back at all."""

    steps: tuple[Step, ...] = ()
    files: tuple[FileChange, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    lost: tuple[Conflict, ...] = ()


def plan(wanted: Sequence[list[Change]], folders: Folders, blobs: Blobs, *, most: int, force: bool = False) -> Plan:
    """How each file gets what it held before the first of its changes. With `force` over what others changed since, too.

    Nothing is changed yet. Blocks.
    """
    made: dict[str, Step] = {}
    conflicts: list[Conflict] = []
    lost: list[Conflict] = []
    for changes in sorted(wanted, key=lambda c: c[0].kept.mode != 0):  # what goes comes first: a folder may go with it
        first = changes[0].kept
        try:
            step = _step(
                changes, folders, blobs, most, force, {step.path for step in made.values() if step.new is None}
            )
        except _Lost as error:
            lost.append(Conflict(first.path, str(error)))
        except _Changed as error:
            conflicts.append(Conflict(first.path, str(error)))
        except (OSError, ToolError) as error:
            words = error.message.rstrip(".") if isinstance(error, ToolError) else str(error.strerror)
            lost.append(Conflict(first.path, words))
        else:
            if step is not None:
                made[first.path] = step
    rows = sorted(made.items(), key=lambda item: (item[1].new is not None, -len(item[1].path.parts), item[0]))
    files = tuple(row(name, step.old, step.new) for name, step in rows)
    return Plan(tuple(step for _, step in rows), files, tuple(conflicts), tuple(lost))


class _Lost(Exception):
    """Why a file cannot be brought back."""


class _Changed(Exception):
    """Why a file is not overwritten unasked."""


def _step(
    changes: list[Change], folders: Folders, blobs: Blobs, most: int, force: bool, gone: Collection[Path]
) -> Step | None:
    first, last = changes[0].kept, changes[-1]
    path = place(folders.root, first)
    root = folders.above(path)
    if root is None:
        raise _Lost("it lies outside the folders of this session")
    sight = look(root, path, most=most)
    if sight.kind == stat.S_IFDIR and _empties(path, gone):
        sight = NOTHING
    if sight.kind in (0, stat.S_IFREG, stat.S_IFLNK):
        if sight.holds(first.mode, first.before) and _rights(sight.mode) == _rights(first.mode) and not first.lost:
            return None
    else:
        raise _Lost("a folder is in its place" if sight.kind == stat.S_IFDIR else "it is no file any more")
    if first.lost:
        raise _Lost(first.lost)
    if not force:
        _require_unchanged(changes, last, sight, most)
    here = content(root, path) if sight.mode else None
    if here is not None:
        here = msgspec.structs.replace(here, rights=_rights(sight.mode) if here.mode != LINK else None)
    return Step(path, here, _before(first, blobs))


def _empties(folder: Path, gone: Collection[Path]) -> bool:
    """Whether nothing would be in a folder without these files, and something is now."""
    found = [Path(where, name) for where, _, names in os.walk(folder) for name in names]
    links = [
        Path(where, name) for where, names, _ in os.walk(folder) for name in names if Path(where, name).is_symlink()
    ]
    return bool(found) and all(path in gone for path in (*found, *links))


def _require_unchanged(changes: list[Change], last: Change, sight: Sight, most: int) -> None:
    left = follows(sight.digest, sight.mode, last.kept)
    if not left and not (not last.sure and follows(sight.digest, sight.mode, last.kept, before=True)):
        raise _Changed("it was deleted since" if not sight.mode else "it was changed since")
    if broken(changes):
        raise _Changed("somebody else changed it between two changes of the agents")
    if sight.names > 1:
        raise _Changed("it has several names (hard links), of which only this one would change")
    if sight.kind == stat.S_IFREG and sight.size > most:
        raise _Changed(f"it is larger than {most // MEGABYTE} MB, so this could not be taken back")


def _before(kept: Kept, blobs: Blobs) -> Content | None:
    if not kept.mode:
        return None
    data = blobs.get(kept.before)
    if data is None:
        raise _Lost("what it held is not kept any more")
    if stat.S_ISLNK(kept.mode):
        return Content(LINK, data)
    return Content(PROGRAM if kept.mode & stat.S_IXUSR else FILE, data, stat.S_IMODE(kept.mode))


def _rights(mode: int) -> int:
    return 0 if stat.S_ISLNK(mode) else stat.S_IMODE(mode)


def row(path: str, old: Content | None, new: Content | None) -> FileChange:
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
