"""Git worktrees for agents that work apart: made of the working tree as it is, brought back whole or not at all."""

from __future__ import annotations

from .card import Card, Worktree
from .left import Found, Left, Own, look_through
from .worktrees import Applied, Worktrees

__all__ = ["Applied", "Card", "Found", "Left", "Own", "Worktree", "Worktrees", "look_through"]
