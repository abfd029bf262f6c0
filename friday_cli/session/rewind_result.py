"""What a rewind restores and what it did, as data."""

from __future__ import annotations

from typing import Literal

import msgspec

from friday_cli.core.protocol.receipt import FileChange, RestoreConflict

What = Literal["files", "conversation", "both"]
"""What a rewind restores."""
Resolve = Literal["ask", "overwrite", "leave"]
"""What to do with files that were changed after the agents' last change: change nothing at all and report them, restore them
too (their current content is kept), or leave them as they are."""


class RewindPoint(msgspec.Struct, frozen=True):
    """A message of the person. `number` counts from 1 in the current conversation; a rewind restores the state right before
    event `seq`. `at`: Unix seconds. `files`: files that agents and their commands changed since, as far as recorded."""

    number: int
    seq: int
    text: str
    at: float
    files: tuple[str, ...] = ()


class RewindResult(msgspec.Struct, frozen=True):
    """The result of a rewind, or of a dry run if not `done`. `point`: the message it goes back to; None if it undoes a rewind.

    `files`: restored files (`seen` says "restored" or "deleted" for a file that was deleted or created). `conflicts`: files
    that were changed after the agents' last change; with any of them nothing is done until a person decides. `lost`: files
    that cannot be restored, with the reason.
    """

    what: What
    done: bool
    point: RewindPoint | None = None
    files: tuple[FileChange, ...] = ()
    conflicts: tuple[RestoreConflict, ...] = ()
    lost: tuple[RestoreConflict, ...] = ()
