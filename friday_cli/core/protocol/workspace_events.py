"""Events about files: worktrees of agents, and earlier contents that are kept."""

from __future__ import annotations

from typing import Literal

from .live_events import Event
from .receipt import FileChange, KeptFile


class WorktreeChanged(Event, frozen=True, tag="worktree"):
    """The state of an agent's git worktree: opened for its run; changed or unchanged at its end; then applied, discarded,
    or kept as a branch. `base` is its first commit, `files` the differences (`seen`: "new", "deleted", "binary")."""

    state: Literal["opened", "changed", "unchanged", "applied", "discarded", "kept"]
    branch: str
    folder: str
    base: str
    files: tuple[FileChange, ...] = ()


class Checkpoint(Event, frozen=True, tag="checkpoint"):
    """Files that a `tool` or a rewinding `person` is about to change, or a `command` has; earlier contents are kept."""

    files: tuple[KeptFile, ...]
    by: Literal["tool", "command", "person"] = "tool"
