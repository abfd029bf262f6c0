"""The sandbox of commands: what they may write, read and connect to. `detect` finds out which sandbox works on this
machine, `policy` makes the plan of a command, and the process supervisor carries it out. The modules that the supervisor
imports use the standard library only."""

from __future__ import annotations

from typing import Literal

SandboxKind = Literal["bubblewrap", "landlock", "seatbelt", "none"]


def inside(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
