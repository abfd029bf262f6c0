"""Git worktrees for isolated agents: created from the working tree as it is, applied completely or not at all."""

from __future__ import annotations

from .apply import Applied
from .metadata import Worktree, WorktreeMetadata
from .orphans import LockSession, OrphanScan, OrphanWorktree, scan_orphans
from .worktrees import Worktrees

__all__ = [
    "Applied",
    "LockSession",
    "OrphanScan",
    "OrphanWorktree",
    "Worktree",
    "WorktreeMetadata",
    "Worktrees",
    "scan_orphans",
]
