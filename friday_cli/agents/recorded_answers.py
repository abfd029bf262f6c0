"""What answers in a replayed session in place of models, tools, hooks and people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from friday_cli.core.agent.agent import Hooks
from friday_cli.core.protocol.events import Envelope
from friday_cli.core.protocol.provider import Provider
from friday_cli.core.protocol.tool import Tool
from friday_cli.llm.models import ModelChoice
from friday_cli.workspace.local import LocalWorkspace

if TYPE_CHECKING:
    from friday_cli.workspace.worktrees.worktrees import Worktrees


class RecordedAnswers(Protocol):
    """The answers of a recording. `history` are the events before the part that is replayed. `runs_hooks`: the hooks of today run,
    else `hooks` has what they said."""

    history: Sequence[Envelope]
    runs_hooks: bool

    def choice(self, name: str) -> ModelChoice:
        """The model with a full name as the recording has it."""

    def provider(self, choice: ModelChoice) -> Provider:
        """What answers for a model."""

    def tools(self, tools: dict[str, Tool]) -> dict[str, Tool]:
        """What answers for the tools of an agent."""

    def hooks(self) -> Hooks | None:
        """What answers for the hooks of the session; None if none ran."""

    def worktrees(self, base: LocalWorkspace) -> Worktrees:
        """What stands for the worktrees of sub-agents: nothing is written."""
