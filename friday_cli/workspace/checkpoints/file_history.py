"""Folds the event log into the history of each file: every recorded change, in order."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Literal

import msgspec

from friday_cli.core.protocol.events import Checkpoint, Envelope, Reviewed, Rewound, ToolFinished, WorktreeChanged
from friday_cli.core.protocol.receipt import KeptFile


class RecordedChange(msgspec.Struct):
    """One change of one file, at time `at` (epoch seconds). `agent` made it ("" for the user, by a rewind or a restore).
    `confirmed` is False while it may not have happened: the process may have died between recording and writing."""

    seq: int
    at: float
    agent: str
    by: Literal["tool", "command", "person"]
    kept: KeptFile
    confirmed: bool = True


class FileHistory:
    """The changes of each file by its key (`key_of`). `accepted` maps keys to the event number up to which the user has
    accepted the changes."""

    def __init__(self, envelopes: Iterable[Envelope]) -> None:
        self.files: dict[str, list[RecordedChange]] = {}
        self.accepted: dict[str, int] = {}
        self._unconfirmed: dict[str, list[RecordedChange]] = {}
        for envelope in envelopes:
            event, agent = envelope.event, envelope.agent
            if isinstance(event, Checkpoint):
                self._add(envelope, event)
            elif isinstance(event, ToolFinished):
                if event.status != "cancelled":
                    self._confirm(agent)
            elif isinstance(event, WorktreeChanged):
                self._confirm(agent)
            elif isinstance(event, Rewound):
                self._confirm("")
            elif isinstance(event, Reviewed):
                self.accepted.update(dict.fromkeys(event.paths, envelope.seq or 0))

    def since(self, seq: int) -> Mapping[str, list[RecordedChange]]:
        """The files with changes after event number `seq`, with these changes."""
        found = {key: [c for c in changes if c.seq > seq] for key, changes in self.files.items()}
        return {key: changes for key, changes in found.items() if changes}

    def _add(self, envelope: Envelope, event: Checkpoint) -> None:
        agent = "" if event.by == "person" else envelope.agent
        for kept in event.files:
            changes = self.files.setdefault(key_of(kept), [])
            last = changes[-1] if changes else None
            unchanged = (kept.before, kept.mode) == (kept.after, kept.new_mode)
            if last is not None and not last.confirmed and _was_not_made(last.kept, kept, unchanged):
                changes.pop()
            if unchanged:
                continue
            change = RecordedChange(envelope.seq or 0, envelope.at, agent, event.by, kept, event.by == "command")
            changes.append(change)
            if not change.confirmed:
                self._unconfirmed.setdefault(agent, []).append(change)

    def _confirm(self, agent: str) -> None:
        for change in self._unconfirmed.pop(agent, ()):
            change.confirmed = True


def key_of(kept: KeptFile) -> str:
    """The key of a file, unique within its session."""
    return f"\0{kept.raw}" if kept.raw else kept.path


def is_result(digest: str, mode: int, kept: KeptFile) -> bool:
    """Whether a file has the content and the kind that the change `kept` wrote."""
    return digest == kept.after and stat.S_IFMT(mode) == stat.S_IFMT(kept.new_mode)


def is_original(digest: str, mode: int, kept: KeptFile) -> bool:
    """Whether a file has the content and the kind that the change `kept` replaced."""
    return digest == kept.before and stat.S_IFMT(mode) == stat.S_IFMT(kept.mode)


def _was_not_made(change: KeptFile, following: KeptFile, unchanged: bool) -> bool:
    """Whether a change was not made, judged by what the `following` one found."""
    return is_original(following.before, following.mode, change) and (
        unchanged or not is_result(following.before, following.mode, change)
    )


def interrupted(changes: list[RecordedChange]) -> bool:
    """Whether the file was changed by something else between two of these changes."""
    return any(not is_result(b.kept.before, b.kept.mode, a.kept) for a, b in pairwise(changes))
