"""The view of a session, computed from its events only; used by all frontends, `sessions show` and exports."""

from __future__ import annotations

from .items import (
    AgentView,
    Item,
    MessageItem,
    NoteItem,
    PendingAsk,
    ResultItem,
    TextStream,
    ToolRun,
    count_findings,
    finding_text,
    not_started,
    worktree_text,
)  # fmt: skip
from .state import SessionView
from .tree import (
    activity_text,
    agent_line,
    batch_progress,
    glyph,
    network_wait,
    render_tree,
    shown_children,
    status_text,
)

__all__ = [
    "AgentView", "Item", "MessageItem", "NoteItem", "PendingAsk", "ResultItem", "SessionView", "TextStream", "ToolRun",
    "activity_text", "agent_line", "batch_progress", "count_findings", "finding_text", "glyph", "network_wait", "not_started", "render_tree",
    "shown_children", "status_text", "worktree_text",
]  # fmt: skip
