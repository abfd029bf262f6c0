"""Plans how files get their earlier content back, and finds the conflicts."""

from __future__ import annotations

import stat
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec

from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.receipt import FileChange, KeptFile, RestoreConflict
from friday_cli.core.text.diff import difference
from friday_cli.system.safe_files import remove_unfinished

from ..fs.transaction import (
    FILE,
    LINK,
    PROGRAM,
    FileContent,
    FileWrite,
    apply_atomically,
    leaves_empty,
    read_content,
    remove_empty_folders,
)
from .blobs import MEGABYTE, Blobs
from .file_history import RecordedChange, interrupted, is_original, is_result
from .file_state import ABSENT, FileState, decode_path, file_state, text_of


class WritableFolders(Protocol):
    """The folders in which files may be restored: a workspace."""

    root: Path

    def root_of(self, path: Path) -> Path | None:
        """The root that contains `path`, None if it may not be written."""
        ...


class RestorePlan(msgspec.Struct, frozen=True):
    """`steps` restore `files`. `conflicts` are not touched unless they are forced; `lost` cannot be restored."""

    steps: tuple[FileWrite, ...] = ()
    files: tuple[FileChange, ...] = ()
    conflicts: tuple[RestoreConflict, ...] = ()
    lost: tuple[RestoreConflict, ...] = ()


def plan(
    wanted: Sequence[list[RecordedChange]], folders: WritableFolders, blobs: Blobs, *, most: int, force: bool = False
) -> RestorePlan:
    """Plan to give each file the content it had before the first of its changes. `force` overwrites later changes of
    others; without it they are conflicts. Files above `most` bytes are left as they are, because they cannot be saved
    first. Changes nothing. Blocks."""
    planned: dict[str, FileWrite] = {}
    conflicts: list[RestoreConflict] = []
    lost: list[RestoreConflict] = []
    for changes in sorted(wanted, key=lambda c: c[0].kept.mode != 0):  # deletions first: they may free a folder's name
        first = changes[0].kept
        try:
            deleted = {step.path for step in planned.values() if step.new is None}
            step = _step(changes, folders, deleted, blobs, most, force=force)
        except _ContentLost as error:
            lost.append(RestoreConflict(first.path, str(error)))
        except _ChangedSince as error:
            conflicts.append(RestoreConflict(first.path, str(error)))
        except (OSError, ToolError) as error:
            reason = error.message.rstrip(".") if isinstance(error, ToolError) else str(error.strerror)
            lost.append(RestoreConflict(first.path, reason))
        else:
            if step is not None:
                planned[first.path] = step
    rows = sorted(planned.items(), key=lambda item: (item[1].new is not None, -len(item[1].path.parts), item[0]))
    files = tuple(row(name, step.old, step.new) for name, step in rows)
    return RestorePlan(tuple(step for _, step in rows), files, tuple(conflicts), tuple(lost))


def undo_unfinished_rewind(
    kept: Sequence[KeptFile], folders: WritableFolders, blobs: Blobs, *, most: int
) -> tuple[RestoreConflict, ...]:
    """Give files that a rewind may have changed, before its process was killed, the content they had before it. One after
    the other, so that it can be repeated after another kill. Returns the files that were left as they are. Blocks."""
    failed = []
    for file in reversed(kept):
        change = RecordedChange(0, 0.0, "", "person", file, confirmed=False)
        path = decode_path(folders.root, file)
        root = folders.root_of(path)
        try:
            if root is not None:
                with suppress(OSError):  # its folder does not exist
                    remove_unfinished(root, path)
                if not file.mode:
                    remove_empty_folders(root, path.parent)
            step = _step([change], folders, (), blobs, most, force=False)
            if step is not None and root is not None:
                apply_atomically([(root, step)])
        except (_ContentLost, _ChangedSince) as error:
            failed.append(RestoreConflict(file.path, str(error)))
        except (OSError, ToolError) as error:
            reason = error.message.rstrip(".") if isinstance(error, ToolError) else str(error.strerror)
            failed.append(RestoreConflict(file.path, reason))
    return tuple(failed)


class _ContentLost(Exception):
    """Why a file cannot be restored."""


class _ChangedSince(Exception):
    """Why a file is not overwritten without confirmation."""


def _step(
    changes: list[RecordedChange],
    folders: WritableFolders,
    deleted: Collection[Path],
    blobs: Blobs,
    most: int,
    *,
    force: bool,
) -> FileWrite | None:
    """The write that restores a file, None if it is restored already. A folder that `deleted` leaves empty counts as
    absent. Unless `force` is set, the file must not have changed since. In any case its content must be savable."""
    first = changes[0].kept
    path = decode_path(folders.root, first)
    root = folders.root_of(path)
    if root is None:
        raise _ContentLost("it lies outside the folders of this session")
    state = file_state(root, path, most=most)
    if state.kind == stat.S_IFDIR and leaves_empty(path, deleted):
        state = ABSENT
    if state.kind not in (0, stat.S_IFREG, stat.S_IFLNK):
        raise _ContentLost("a folder has its name" if state.kind == stat.S_IFDIR else "it is no longer a file")
    if first.lost:
        raise _ContentLost(first.lost)
    if state.has_content(first.mode, first.before) and _permissions(state.mode) == _permissions(first.mode):
        return None
    if state.kind == stat.S_IFREG and state.size > most:
        raise _ContentLost(f"it is larger than {most // MEGABYTE} MB, so its current content cannot be saved")
    if not force:
        _require_unchanged(changes, state)
    current = read_content(root, path) if state.mode else None
    if current is not None and current.mode != LINK:
        current = msgspec.structs.replace(current, rights=_permissions(state.mode))
    return FileWrite(path, current, _content_before(first, blobs))


def _require_unchanged(changes: list[RecordedChange], state: FileState) -> None:
    """Raise _ChangedSince unless the file has the content that the last change left."""
    last = changes[-1]
    not_made = not last.confirmed and is_original(state.digest, state.mode, last.kept)
    if not is_result(state.digest, state.mode, last.kept) and not not_made:
        raise _ChangedSince("it was deleted since" if not state.mode else "it was changed since")
    if interrupted(changes):
        raise _ChangedSince("it was changed by something else between two changes of the agents")
    if state.hard_links > 1:
        raise _ChangedSince("it has several names (hard links), and only this one would change")


def _content_before(kept: KeptFile, blobs: Blobs) -> FileContent | None:
    if not kept.mode:
        return None
    data = blobs.get(kept.before)
    if data is None:
        raise _ContentLost("its earlier content is no longer stored")
    if stat.S_ISLNK(kept.mode):
        return FileContent(LINK, data)
    return FileContent(PROGRAM if kept.mode & stat.S_IXUSR else FILE, data, stat.S_IMODE(kept.mode))


def _permissions(mode: int) -> int:
    return 0 if stat.S_ISLNK(mode) else stat.S_IMODE(mode)


def row(path: str, old: FileContent | None, new: FileContent | None) -> FileChange:
    """The effect of a step on a file, with line counts if it is text that can be compared."""
    before, after = text_of(old.data if old else b""), text_of(new.data if new else b"")
    added = removed = 0
    if before is not None and after is not None:
        _, added, removed = difference(before, after)
    seen = "restored" if old is None else "deleted" if new is None else ""
    if before is None or after is None:
        seen = f"{seen}, binary".lstrip(", ")
    return FileChange(path, added, removed, seen=seen)
