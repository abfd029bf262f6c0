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
)
from .marks import CALL_MARKS, agent_mark
from .state import SessionView
from .tree import (
    AgentRow,
    activity_text,
    agent_line,
    batch_progress,
    cap_wait,
    network_wait,
    render_tree,
    shown_children,
    status_text,
)

__all__ = [
    "CALL_MARKS", "AgentRow", "AgentView", "Item", "MessageItem", "NoteItem", "PendingAsk", "ResultItem", "SessionView", "TextStream", "ToolRun",
    "activity_text", "agent_line", "agent_mark", "batch_progress", "cap_wait", "count_findings", "finding_text", "network_wait", "not_started", "render_tree",
    "shown_children", "status_text", "worktree_text",
]  # fmt: skip
