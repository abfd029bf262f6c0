"""What agents made of files, one difference by agent and file: from what was kept to what is there now."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from typing import Literal

import msgspec

from friday_cli.core.protocol.receipt import KeptFile
from friday_cli.core.text.diff import difference

from .blobs import Blobs
from .file_history import FileHistory, RecordedChange, follows, same
from .file_state import NOTHING, FileState, file_state, place
from .restore_plan import WritableFolders, text_of


class FileDiff(msgspec.Struct, frozen=True):
    """What one agent did to one file and nobody accepted or took back yet.

    `key` names the file to `put_back` and `accept`. `by` says how it is known: by a file tool, or seen after a command.
    `diff` is unified, without its head, its length limited; `remark` says why there is none ("binary", "not kept", ...).
    `newest` tells that nobody changed the file after this agent, `yours` that it holds something else by now.
    """

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


def standing(ledger: FileHistory) -> dict[str, list[RecordedChange]]:
    """The changes of each file that were neither accepted nor taken back, by its key."""
    found = {key: _standing(changes, ledger.accepted.get(key, 0)) for key, changes in ledger.files.items()}
    return {key: changes for key, changes in found.items() if changes}


def _standing(changes: Sequence[RecordedChange], accepted: int) -> list[RecordedChange]:
    left: list[RecordedChange] = []
    undone: dict[tuple[str, int], list[RecordedChange]] = {}
    for change in changes:
        kept = change.kept
        if change.seq <= accepted:
            continue
        if change.by != "person":
            left = [*left, change]
            continue
        back = next((i for i, c in enumerate(left) if follows(kept.after, kept.new_mode, c.kept, before=True)), None)
        again = undone.pop((kept.after, stat.S_IFMT(kept.new_mode)), None)
        if back is not None:
            undone[kept.before, stat.S_IFMT(kept.mode)] = left
            left = left[:back]
        elif again is not None:
            left = again
    return left


def strands(changes: Sequence[RecordedChange]) -> list[list[RecordedChange]]:
    """Changes of one file, those of the same agent in a row together."""
    found: list[list[RecordedChange]] = []
    for change in changes:
        if found and found[-1][-1].agent == change.agent:
            found[-1].append(change)
        else:
            found.append([change])
    return found


def review(ledger: FileHistory, folders: WritableFolders, blobs: Blobs, *, most: int) -> list[FileDiff]:
    """One row for each agent and file, agents in the order of their paths. Blocks; what cannot be read is a remark."""
    rows: list[FileDiff] = []
    for key, changes in standing(ledger).items():
        here = _here(folders, changes[-1].kept, most)
        first = changes[0].kept
        if here is not None and here.holds(first.mode, first.before) and here.mode == first.mode and not first.lost:
            continue  # all of it is gone again
        found = strands(changes)
        for at, strand in enumerate(found):
            newest = at + 1 == len(found)
            after = here if newest else _kept(found[at + 1][0].kept, blobs)
            rows.append(_row(key, strand, _kept(strand[0].kept, blobs), after, newest))
    return sorted(_joined(rows), key=lambda row: ([int(n) for n in row.agent.split(".")[1:]], row.path))


def _here(folders: WritableFolders, kept: KeptFile, most: int) -> FileState | None:
    path = place(folders.root, kept)
    root = folders.above(path)
    try:
        return None if root is None else file_state(root, path, most=most)
    except OSError:
        return None


def _kept(kept: KeptFile, blobs: Blobs) -> FileState | None:
    """What a file held before a change; None where that is not known any more."""
    if not kept.mode:
        return NOTHING
    data = None if kept.lost else blobs.get(kept.before)
    return None if data is None else FileState(kept.mode, kept.before, data, len(data))


def _row(
    key: str, strand: Sequence[RecordedChange], before: FileState | None, after: FileState | None, newest: bool
) -> FileDiff:
    first, last = strand[0].kept, strand[-1].kept
    kind: Literal["made", "changed", "deleted"] = "changed" if first.mode else "made"
    if not last.new_mode:
        kind = "deleted"
    yours = newest and after is not None and not follows(after.digest, after.mode, last)
    diff, added, removed, remark = _compared(before, after)
    by = tuple(dict.fromkeys(change.by for change in strand))
    return FileDiff(
        strand[0].agent, first.path, key, kind, added, removed, diff, remark, by, newest=newest, yours=yours
    )


def _compared(before: FileState | None, after: FileState | None) -> tuple[str, int, int, str]:
    """The difference with its figures, or a remark on why there is none."""
    if before is None or after is None:
        return "", 0, 0, "what it held is not kept"
    sides = [text_of(s.data) if s.data is not None else "" if not s.mode else None for s in (before, after)]
    if sides[0] is None or sides[1] is None:
        large = any(s.mode and s.data is None for s in (before, after))
        return "", 0, 0, "too large to be shown" if large else "binary"
    if same(before.digest, before.mode, after.digest, after.mode) and before.mode != after.mode:
        return "", 0, 0, f"rights {stat.S_IMODE(before.mode):o} -> {stat.S_IMODE(after.mode):o}"
    return *difference(sides[0], sides[1]), ""


def _joined(rows: Sequence[FileDiff]) -> list[FileDiff]:
    """The rows, with all that one agent did to one file in one of them."""
    found: dict[tuple[str, str], FileDiff] = {}
    for row in rows:
        old = found.get((row.agent, row.key))
        if old is not None:
            remark = row.remark or old.remark
            row = msgspec.structs.replace(
                row, kind="made" if old.kind == "made" else row.kind, added=old.added + row.added,
                removed=old.removed + row.removed, diff=old.diff + row.diff, remark=remark,
                by=tuple(dict.fromkeys((*old.by, *row.by))),
            )  # fmt: skip
        found[row.agent, row.key] = row
    return list(found.values())
