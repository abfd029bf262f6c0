"""What a person sees of a session, as a pure fold of its events; used by every face, `sessions show` and tests."""

from __future__ import annotations

from .items import (
    AgentView,
    DeniedCall,
    Item,
    MessageItem,
    NoteItem,
    PendingAsk,
    ReplyItem,
    TextStream,
    ToolRun,
    worktree_words,
)
from .state import SessionView
from .tree import agent_line, doing, render_tree, status_words

__all__ = [
    "AgentView",
    "DeniedCall",
    "Item",
    "MessageItem",
    "NoteItem",
    "PendingAsk",
    "ReplyItem",
    "SessionView",
    "TextStream",
    "ToolRun",
    "agent_line",
    "doing",
    "render_tree",
    "status_words",
    "worktree_words",
]  # fmt: skip
