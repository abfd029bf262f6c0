"""The differences that agents made to files, one for each agent and file, from the saved content to the current one."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from itertools import groupby
from typing import Literal

import msgspec

from friday_cli.core.protocol.receipt import KeptFile
from friday_cli.core.text.diff import difference

from .blobs import Blobs
from .file_history import FileHistory, RecordedChange, is_original, is_result
from .file_state import ABSENT, FileState, decode_path, file_state, text_of
from .restore_plan import WritableFolders


class FileDiff(msgspec.Struct, frozen=True):
    """The changes of one agent to one file that were neither accepted nor undone. `key` identifies the file for `put_back`
    and `accept`. `by` tells whether a file tool or a command made them. `diff` is a unified diff without header, limited in
    length; `remark` says why there is none ("binary", ...). `newest` is True if no other agent changed the file later,
    `yours` if its content is a different one by now."""

    agent: str
    path: str
    key: str
    kind: Literal["made", "changed", "deleted"]
    added: int = 0
    removed: int = 0
    diff: str = ""
    remark: str = ""
    by: tuple[Literal["tool", "command", "person"], ...] = ()
    newest: bool = True
    yours: bool = False


def pending_changes(history: FileHistory) -> dict[str, list[RecordedChange]]:
    """The changes of each file that were neither accepted nor undone, by file key."""
    found = {key: _pending(changes, history.accepted.get(key, 0)) for key, changes in history.files.items()}
    return {key: changes for key, changes in found.items() if changes}


def _pending(changes: Sequence[RecordedChange], accepted: int) -> list[RecordedChange]:
    pending: list[RecordedChange] = []
    undone: dict[tuple[str, int], list[RecordedChange]] = {}
    for change in changes:
        kept = change.kept
        if change.seq <= accepted:
            continue
        if change.by != "person":
            pending = [*pending, change]
            continue
        target = next((i for i, c in enumerate(pending) if is_original(kept.after, kept.new_mode, c.kept)), None)
        redone = undone.pop((kept.after, stat.S_IFMT(kept.new_mode)), None)
        if target is not None:
            undone[kept.before, stat.S_IFMT(kept.mode)] = pending
            pending = pending[:target]
        elif redone is not None:
            pending = redone
    return pending


def by_agent(changes: Sequence[RecordedChange]) -> list[list[RecordedChange]]:
    """The changes of one file, consecutive changes of the same agent grouped."""
    return [list(group) for _, group in groupby(changes, key=lambda change: change.agent)]


def review(history: FileHistory, folders: WritableFolders, blobs: Blobs, *, most: int) -> list[FileDiff]:
    """One row for each agent and file, ordered by agent path. A file that cannot be read gets a remark. Blocks."""
    rows: list[FileDiff] = []
    for key, changes in pending_changes(history).items():
        current = _current_state(folders, changes[-1].kept, most)
        first = changes[0].kept
        undone = current is not None and current.has_content(first.mode, first.before) and current.mode == first.mode
        if undone and not first.lost:
            continue
        groups = by_agent(changes)
        for at, group in enumerate(groups):
            newest = at + 1 == len(groups)
            after = current if newest else _state_before(groups[at + 1][0].kept, blobs)
            rows.append(_row(key, group, _state_before(group[0].kept, blobs), after, newest))
    return sorted(_merged(rows), key=lambda row: ([int(n) for n in row.agent.split(".")[1:]], row.path))


def _current_state(folders: WritableFolders, kept: KeptFile, most: int) -> FileState | None:
    path = decode_path(folders.root, kept)
    root = folders.root_of(path)
    try:
        return None if root is None else file_state(root, path, most=most)
    except OSError:
        return None


def _state_before(kept: KeptFile, blobs: Blobs) -> FileState | None:
    """The state of a file before a change; None if its content is not stored."""
    if not kept.mode:
        return ABSENT
    data = None if kept.lost else blobs.get(kept.before)
    return None if data is None else FileState(kept.mode, kept.before, data, len(data))


def _row(
    key: str, changes: Sequence[RecordedChange], before: FileState | None, after: FileState | None, newest: bool
) -> FileDiff:
    first, last = changes[0].kept, changes[-1].kept
    yours = newest and after is not None and not is_result(after.digest, after.mode, last)
    diff, added, removed, remark = _compare(before, after)
    kind: Literal["made", "changed", "deleted"] = (
        "deleted" if not last.new_mode else "changed" if first.mode else "made"
    )
    by = tuple(dict.fromkeys(change.by for change in changes))
    return FileDiff(
        changes[0].agent,
        first.path,
        key,
        kind,
        added=added,
        removed=removed,
        diff=diff,
        remark=remark,
        by=by,
        newest=newest,
        yours=yours,
    )


def _compare(before: FileState | None, after: FileState | None) -> tuple[str, int, int, str]:
    """The diff, lines added and removed, and a remark if there is no diff."""
    if before is None or after is None:
        return "", 0, 0, "its earlier content is not stored"
    sides = [text_of(s.data) if s.data is not None else "" if not s.mode else None for s in (before, after)]
    if sides[0] is None or sides[1] is None:
        large = any(s.mode and s.data is None for s in (before, after))
        return "", 0, 0, "too large to show" if large else "binary"
    if before.has_content(after.mode, after.digest) and before.mode != after.mode:
        return "", 0, 0, f"permissions {stat.S_IMODE(before.mode):o} -> {stat.S_IMODE(after.mode):o}"
    return *difference(sides[0], sides[1]), ""


def _merged(rows: Sequence[FileDiff]) -> list[FileDiff]:
    """The rows, with those of the same agent and file merged into one."""
    found: dict[tuple[str, str], FileDiff] = {}
    for row in rows:
        old = found.get((row.agent, row.key))
        if old is not None:
            remark = row.remark or old.remark
            row = msgspec.structs.replace(
                row,
                kind="made" if old.kind == "made" else row.kind,
                added=old.added + row.added,
                removed=old.removed + row.removed,
                diff=old.diff + row.diff,
                remark=remark,
                by=tuple(dict.fromkeys((*old.by, *row.by))),
            )
        found[row.agent, row.key] = row
    return list(found.values())
