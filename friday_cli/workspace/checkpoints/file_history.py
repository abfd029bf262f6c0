"""The fold of a log into what happened to each file: every change that was kept, in order."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Literal

import msgspec

from friday_cli.core.protocol.events import Checkpoint, Envelope, Reviewed, Rewound, ToolFinished, WorktreeChanged
from friday_cli.core.protocol.receipt import KeptFile


class RecordedChange(msgspec.Struct):
    """One change of one file. `agent` made it ("" for the person, who rewound or put back); `sure` is False as long as it
    may not have happened, because the process died between keeping and writing."""

    seq: int
    at: float
    agent: str
    by: Literal["tool", "command", "person"]
    kept: KeptFile
    sure: bool = True


class FileHistory:
    """The changes of each file by its key, which is what the log calls it; `accepted` has the number up to which a person
    has seen what happened to a file."""

    def __init__(self, envelopes: Iterable[Envelope]) -> None:
        self.files: dict[str, list[RecordedChange]] = {}
        self.accepted: dict[str, int] = {}
        self._open: dict[str, list[RecordedChange]] = {}
        for envelope in envelopes:
            event, agent = envelope.event, envelope.agent
            if isinstance(event, Checkpoint):
                self._take(envelope, event)
            elif isinstance(event, ToolFinished):
                if event.status != "cancelled":
                    self._settle(agent)
            elif isinstance(event, WorktreeChanged):
                self._settle(agent)
            elif isinstance(event, Rewound):
                self._settle("")
            elif isinstance(event, Reviewed):
                self.accepted.update(dict.fromkeys(event.paths, envelope.seq or 0))

    def since(self, seq: int) -> Mapping[str, list[RecordedChange]]:
        """The changes of each file after event number `seq`, where there are any."""
        found = {key: [c for c in changes if c.seq > seq] for key, changes in self.files.items()}
        return {key: changes for key, changes in found.items() if changes}

    def _take(self, envelope: Envelope, event: Checkpoint) -> None:
        agent = "" if event.by == "person" else envelope.agent
        for kept in event.files:
            changes = self.files.setdefault(key_of(kept), [])
            last = changes[-1] if changes else None
            void = (kept.before, kept.mode) == (kept.after, kept.new_mode)
            if last is not None and not last.sure and _never(kept, last.kept, void):
                changes.pop()
            if void:
                continue
            change = RecordedChange(envelope.seq or 0, envelope.at, agent, event.by, kept, event.by == "command")
            changes.append(change)
            if not change.sure:
                self._open.setdefault(agent, []).append(change)

    def _settle(self, agent: str) -> None:
        for change in self._open.pop(agent, ()):
            change.sure = True


def key_of(kept: KeptFile) -> str:
    """What tells a file from the others of a session."""
    return f"\0{kept.raw}" if kept.raw else kept.path


def same(digest: str, mode: int, other: str, other_mode: int) -> bool:
    """Whether two contents are the same, of the same kind of file."""
    return digest == other and stat.S_IFMT(mode) == stat.S_IFMT(other_mode)


def follows(digest: str, mode: int, kept: KeptFile, *, before: bool = False) -> bool:
    """Whether a content is the one that a change left, or with `before` the one that it found."""
    if before:
        return same(digest, mode, kept.before, kept.mode)
    return same(digest, mode, kept.after, kept.new_mode)


def _never(kept: KeptFile, last: KeptFile, void: bool) -> bool:
    """Whether nothing came of the change `last`, as the one after it tells."""
    found_first = follows(kept.before, kept.mode, last, before=True)
    return found_first and (void or not follows(kept.before, kept.mode, last))


def broken(changes: list[RecordedChange]) -> bool:
    """Whether somebody else changed the file between two of its changes."""
    return any(not follows(b.kept.before, b.kept.mode, a.kept) for a, b in pairwise(changes))
