"""The changes in the worktrees of ended sub-agents: report them, apply them, or discard them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from friday_cli.core.agent.agent import Services
from friday_cli.core.permissions.rule import RuleInput
from friday_cli.core.protocol.agent_path import is_under
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.tool import ToolContext
from friday_cli.core.protocol.workspace import Workspace, whole
from friday_cli.core.subagents.tree import SubagentTree
from friday_cli.core.text.untrusted import neutralize, neutralize_line
from friday_cli.core.tool_catalog import APPLY_DELEGATION, DISCARD_DELEGATION, READ_FILE
from friday_cli.workspace.local import LocalWorkspace

from .isolation import WorktreeIsolation, local_workspace, worktree_events

if TYPE_CHECKING:
    from friday_cli.workspace.worktrees.apply import Applied
    from friday_cli.workspace.worktrees.metadata import Worktree

LISTED = 60
"""Changed files named in a report."""


class WorktreeChanges:
    """Implements `WorktreeHost` for the tools of an agent of `tree`, and does the same for a person."""

    def __init__(self, tree: SubagentTree, isolation: WorktreeIsolation, services: Services) -> None:
        self._tree = tree
        self._isolation = isolation
        self._services = services
        self._touched: dict[str, tuple[str, ...]] = {}
        """What `touched` returned last, by path: only these files may be changed by the call that it was asked for."""

    def report(self, path: str) -> str:
        """What an ended agent changed in its worktree, for its parent's model; "" if it has none."""
        made = self._isolation.of(path)
        if made is None:
            return ""
        about = f"Worktree (branch {made.metadata.branch}):"
        if made.state == "unchanged":
            return f"{about} nothing was changed in it; it is removed."
        if made.state in ("applied", "discarded", "kept"):
            return f"{about} {made.state}."
        if below := [node.path for node in self._tree.running(path)]:
            return f"{about} still in use by {', '.join(below)}."
        if made.problem:
            return f"{about} its changes could not be determined: {made.problem}"
        lines = [f"{about} {len(made.files)} files changed. They are NOT in your files yet:"]
        lines += [
            f"- {neutralize_line(row.path)} +{row.added} -{row.removed}{f' ({row.seen})' if row.seen else ''}"
            for row in made.files[:LISTED]
        ]
        if len(made.files) > LISTED:
            lines.append(f"- and {len(made.files) - LISTED} more")
        lines.append(
            f"{APPLY_DELEGATION}(id={path!r}) applies them, {DISCARD_DELEGATION}(id={path!r}) deletes them "
            "(keep_branch=true: keeps them on the branch)."
        )
        if hidden := self._withheld(made):
            lines.append(
                f"The difference is not shown: a rule denies reading {neutralize_line(hidden)}, or asks first."
            )
        else:
            lines += ["The difference:", made.text]
        return neutralize("\n".join(lines))

    def _withheld(self, made: Worktree) -> str:
        """A changed file of a worktree whose content a rule keeps from the agent that waits for it, "" for none."""
        reader, above = self._tree.root, made.path.rpartition(".")[0]
        while above:
            with suppress(KeyError):
                reader = self._tree.node(above).agent
                break
            above = above.rpartition(".")[0]
        labels = self._isolation.worktrees.touched(made, local_workspace(reader.workspace))
        return min(reader.rules.withheld(RuleInput(READ_FILE, "read"), labels), default="")

    def pending_note(self, path: str) -> str:
        """Tells that changes in an agent's worktree wait for a decision; "" if none do."""
        made = self._isolation.of(path)
        waits = made is not None and made.state == "changed" and not self._tree.running(path)
        return f"its changes wait in its worktree: {APPLY_DELEGATION} or {DISCARD_DELEGATION}" if waits else ""

    def notes(self, path: str) -> list[str]:
        """One line for each agent below `path` whose changes wait for a decision."""
        below = [w.path for w in self._isolation.all() if w.path != path and is_under(w.path, path)]
        return [f"{p}: {note}" for p in dict.fromkeys(below) if (note := self.pending_note(p))]

    # ---- for tools ----------------------------------------------------------------------

    def touched(self, path: str, workspace: Workspace) -> Sequence[str]:
        """Every path that applying the changes of the agent `path` would change, as rules name it."""
        made, workspace = self._isolation.of(path), whole(workspace)
        if made is None or not made.open or not isinstance(workspace, LocalWorkspace):
            return ()
        self._touched[path] = self._isolation.worktrees.touched(made, workspace)
        return self._touched[path]

    async def apply(self, ctx: ToolContext, path: str) -> Applied:
        """Apply the changes of a descendant of the caller to the caller's files. Raises ToolError."""
        self._idle_worktree(path, by=ctx.agent)
        target = local_workspace(ctx.workspace)
        allowed = self._touched.get(path, ())
        return await self._apply(path, target, allowed)

    async def discard(self, ctx: ToolContext, path: str, *, keep_branch: bool) -> str:
        """Remove the worktree of a descendant of the caller; returns what happened to its changes. Raises ToolError."""
        self._idle_worktree(path, by=ctx.agent)
        return await self._discard(path, keep_branch)

    # ---- for a person -------------------------------------------------------------------

    async def apply_for_person(self, path: str) -> Applied:
        """Apply the changes of an agent to the files of the session. Raises ToolError."""
        return await self._apply(path, self._isolation.main, None)

    async def discard_for_person(self, path: str, *, keep_branch: bool) -> str:
        """Remove the worktree of an agent; returns what happened to its changes. Raises ToolError."""
        return await self._discard(path, keep_branch)

    # ---- steps --------------------------------------------------------------------------

    def _idle_worktree(self, path: str, *, by: str = "") -> Worktree:
        """The worktree of an agent. Raises ToolError if there is none below `by`, or agents still run in it."""
        made = self._isolation.of(path)
        if made is None or (by and (not is_under(path, by) or path == by)):
            raise ToolError(f"{path} has no worktree{' that belongs to you' if by else ''}.")
        if below := [node.path for node in self._tree.running(path)]:
            raise ToolError(
                f"{', '.join(below)} still works in that worktree.", hint="Wait until it has ended, or cancel it."
            )
        return made

    async def _apply(self, path: str, target: LocalWorkspace, allowed: Sequence[str] | None) -> Applied:
        async with self._tree.resumer.lock, self._isolation.lock:
            made = self._idle_worktree(path)  # its agent may have been resumed while a person was asked
            before = made.state
            try:
                return await self._isolation.worktrees.apply(made, target, allowed=allowed)
            finally:
                if made.state != before:
                    await self._services.log.emit(made.path, *worktree_events(made))

    async def _discard(self, path: str, keep_branch: bool) -> str:
        async with self._tree.resumer.lock, self._isolation.lock:
            made = self._idle_worktree(path)
            await self._isolation.worktrees.discard(made, keep_branch=keep_branch)
            if (hooks := self._services.hooks) is not None:
                await hooks.worktree("WorktreeRemove", self._tree.root, made.metadata.name, made.metadata.folder)
            await self._services.log.emit(made.path, *worktree_events(made))
        if keep_branch:
            return f"The changes of {made.path} are on the branch {made.metadata.branch}; its worktree was removed."
        return f"The worktree of {made.path}, its branch and its changes were removed."
