"""Events about files: worktrees of agents, earlier contents that are kept, rewinds, checks and reviews of changes."""

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


class Checked(Event, frozen=True, tag="checked"):
    """The check of a ladder ran on the work of a model. Where it failed, the next model reads the rest."""

    passed: bool
    how: str
    """How the command ended, in words."""
    output: str = ""
    changes: str = ""
    """What the model had changed, as a diff."""


class Rewound(Event, frozen=True, tag="rewound"):
    """A person rewound to the state right before event number `to`. The later events stay in the log. `undo`: that event
    is an earlier rewind, which is undone. The files were restored after event number `since`."""

    to: int
    what: Literal["files", "conversation", "both"]
    undo: bool = False
    since: int = 0


class Reviewed(Event, frozen=True, tag="reviewed"):
    """A person accepted the changes of the agents to these files so far."""

    paths: tuple[str, ...]
