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

__all__ = [
    "CALL_MARKS", "AgentView", "Item", "MessageItem", "NoteItem", "PendingAsk", "ResultItem", "SessionView", "TextStream", "ToolRun",
    "agent_mark", "count_findings", "finding_text", "not_started", "worktree_text",
]  # fmt: skip
