"""The symbols of agents and tool calls, for everything that draws them."""

from __future__ import annotations

from .items import AgentView, ToolStatus

AGENT_MARKS = {
    "queued": "·",
    "running": "▸",
    "waiting_child": "◦",
    "waiting_user": "?",
    "waiting_rate": "◌",
    "waiting_budget": "◔",
    "completed": "✓",
    "failed": "✗",
    "timeout": "⧖",
    "cancelled": "■",
    "interrupted": "!",
}
"""One symbol per status; it is always shown together with the status text."""
WARNED = "!"
"""The symbol of an agent that completed, but whose receipt has warnings."""
CALL_MARKS: dict[ToolStatus, str] = {
    "pending": "○",
    "waiting": "?",
    "running": "●",
    "ok": "✓",
    "error": "✗",
    "denied": "⊘",
    "cancelled": "■",
}
"""One symbol per status of a tool call."""


def agent_mark(agent: AgentView, *, running: str = AGENT_MARKS["running"]) -> str:
    """The symbol of an agent's status. Warnings replace only that of success. `running`: where a triangle has another meaning."""
    if agent.warned:
        return WARNED
    return running if agent.status == "running" else AGENT_MARKS[agent.status]
