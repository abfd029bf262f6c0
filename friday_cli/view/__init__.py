"""What a person sees of a session, as a pure fold of its events; used by every face, `sessions show` and tests."""

from __future__ import annotations

from friday_cli.core.figures import cost, seconds, tokens

from .items import AgentView, Ask, Denial, Flow, Item, Note, Reply, Said, ToolRun, worktree_words
from .state import State
from .tree import agent_line, doing, render_tree, status_words

__all__ = [
    "AgentView", "Ask", "Denial", "Flow", "Item", "Note", "Reply", "Said", "State", "ToolRun",
    "agent_line", "cost", "doing", "render_tree", "seconds", "status_words", "tokens",
    "worktree_words",
]  # fmt: skip
