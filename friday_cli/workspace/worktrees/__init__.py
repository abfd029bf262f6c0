"""Git worktrees for agents that work apart: made of the working tree as it is, brought back whole or not at all."""

from __future__ import annotations

from .metadata import Worktree, WorktreeMetadata
from .orphans import OrphanScan, OrphanWorktree, Own, look_through
from .worktrees import Applied, Worktrees

__all__ = [
    "Applied",
    "OrphanScan",
    "OrphanWorktree",
    "Own",
    "Worktree",
    "WorktreeMetadata",
    "Worktrees",
    "look_through",
]
