"""What the delegation tools need of a session: limits on new agents, workspaces, summaries of long results."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from friday_cli.config.settings import DelegationSettings
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.workspace import Workspace
from friday_cli.core.subagents.node import AgentSummary, SubagentTask
from friday_cli.core.subagents.tree import SubagentTree

from .isolation import WorktreeIsolation
from .spawn_limits import SpawnLimiter
from .worktree_changes import WorktreeChanges


class SessionDelegation:
    """Implements `DelegationHost` for an agent of `tree`."""

    def __init__(
        self,
        tree: SubagentTree,
        isolation: WorktreeIsolation,
        changes: WorktreeChanges,
        limiter: SpawnLimiter,
        settings: DelegationSettings,
    ) -> None:
        self._tree = tree
        self._isolation = isolation
        self._limiter = limiter
        self._settings = settings
        self.worktree_report = changes.report
        self.pending_note = changes.pending_note

    def allow_spawn(self, path: str, call_id: str, specs: Sequence[SubagentTask]) -> AbstractAsyncContextManager[None]:
        return self._limiter.allow(self._tree, path, call_id, specs)

    async def create_workspace(self, path: str) -> Workspace:
        return await self._isolation.create(self._tree.node(path).agent)

    async def cancel_workspace(self, workspace: Workspace) -> None:
        await self._isolation.cancel(workspace)

    async def summarize(self, path: str, known: AgentSummary) -> str | None:
        """A summary by a sub-agent; None if the settings want the beginning and end of the result, or it failed."""
        if self._settings.long_results != "summary":
            return None
        task = (
            "Summarize this result of a sub-agent for the agent that gave it the task. Keep all figures, paths and sources.\n"
            f"The task was:\n{known.task}\n\nThe result:\n{known.end.text if known.end else ''}"
        )
        try:
            node = self._tree.spawn(path, SubagentTask("summarizer", task, self_contained=True))
        except ToolError:
            return None
        await self._tree.wait(path, [node])
        return node.outcome.text if node.outcome.status == "completed" else None
