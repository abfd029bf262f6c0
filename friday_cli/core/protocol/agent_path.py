"""Paths of agents: an agent's position in the tree is its path."""

from __future__ import annotations

PERSON = "person"
"""Stands for an agent's path where the user typed a command."""


def parent_of(path: str) -> str:
    """The path of the parent of an agent, "" for the root: `a.2.1` -> `a.2`."""
    return path.rpartition(".")[0]


def depth_of(path: str) -> int:
    """The depth of an agent in the tree; that of the root `a` is 0."""
    return path.count(".")


def is_under(path: str, top: str) -> bool:
    """Whether `path` is `top` or one of its descendants."""
    return path == top or path.startswith(top + ".")
