"""Messages with which widgets ask for what they cannot do themselves. The app has them done by its parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from textual.message import Message

if TYPE_CHECKING:
    from friday_cli.core.permissions.approvals import ApprovalAnswer

AgentAction = Literal["cancel", "abort", "write", "take_over", "background", "copy_result", "decide_worktree"]


class ChatRequest(Message):
    """The user wants something that another part of the chat does."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._sender = None  # Textual passes no message further up than the one whose handler made it


@dataclass
class AgentRequest(ChatRequest):
    """The user wants to do something to the agent at `path`."""

    path: str
    action: AgentAction


@dataclass
class AskAnswered(ChatRequest):
    """The user answered an ask."""

    ask_id: str
    answer: ApprovalAnswer | str


@dataclass
class ExplanationWanted(ChatRequest):
    """The user wants to know what a permission request is about."""

    ask_id: str


@dataclass
class EditorWanted(ChatRequest):
    """The user wants to change a command of several lines before it runs."""

    ask_id: str
    command: str
