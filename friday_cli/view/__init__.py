"""The view of a session, computed from its events only; used by all frontends, `sessions show` and exports."""

from __future__ import annotations

from .items import AgentView, Item, MessageItem, NoteItem, PendingAsk, TextStream, ToolRun, worktree_text
from .state import SessionView
from .tree import activity_text, agent_line, render_tree, status_text

__all__ = [
    "AgentView", "Item", "MessageItem", "NoteItem", "PendingAsk", "SessionView", "TextStream", "ToolRun", "activity_text",
    "agent_line", "render_tree", "status_text", "worktree_text",
]  # fmt: skip
