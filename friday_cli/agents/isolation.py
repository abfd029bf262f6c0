"""Sub-agents isolated in git worktrees: creates and restores their worktrees, and looks for changes when a run ends."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from friday_cli.core.agent.agent import Agent, Services
from friday_cli.core.protocol.agent_path import parent_of
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.events import AnyEvent, Notice, WorktreeChanged
from friday_cli.core.protocol.workspace import Workspace, whole
from friday_cli.core.subagents.run import finish_despite_cancel
from friday_cli.core.subagents.tree import SubagentTree
from friday_cli.system.project_search import repository_top
from friday_cli.workspace.local import LocalWorkspace

from .system_prompt import Environment

if TYPE_CHECKING:
    from friday_cli.core.eventlog.replay import AgentRecord
    from friday_cli.workspace.worktrees.metadata import Worktree
    from friday_cli.workspace.worktrees.orphans import LockSession
    from friday_cli.workspace.worktrees.worktrees import Worktrees

log = logging.getLogger(__name__)


class WorktreeIsolation:
    """Ties worktrees to agents. `folder` contains the worktrees of the session; `make` is called with it when the first
    worktree is needed. `lock` is held while a worktree changes its state."""

    def __init__(self, folder: Path, make: Callable[[Path], Worktrees], services: Services) -> None:
        self.lock = asyncio.Lock()
        self._folder = Path(os.path.realpath(folder))
        self._make = make
        self._made: Worktrees | None = None
        self._possible: bool | None = None
        self._services = services
        self._cleanup: asyncio.Task[None] | None = None

    @property
    def possible(self) -> bool:
        """Whether the session is in a git repository, or has worktrees. Read once, so that a tool list does not change."""
        if self._possible is None:
            root = self._services.workspace.root
            self._possible = self._folder.exists() or repository_top(root) is not None
        return self._possible

    @property
    def worktrees(self) -> Worktrees:
        """The worktrees of the session, made on first use."""
        if self._made is None:
            self._made = self._make(self._folder)
        return self._made

    def of(self, path: str) -> Worktree | None:
        """The worktree of an agent, None if it has none."""
        return self._made.newest_of(path) if self._made else None

    def all(self) -> list[Worktree]:
        """All worktrees of the session."""
        return list(self._made.all) if self._made else []

    def _worktree_of(self, workspace: Workspace) -> Worktree | None:
        return self._made.containing(workspace) if self._made else None

    @property
    def main(self) -> LocalWorkspace:
        """The workspace of the session. Raises ToolError if it cannot have worktrees."""
        return local_workspace(self._services.workspace)

    # ---- before a run -----------------------------------------------------------------

    async def create(self, parent: Agent, *, again: str = "") -> LocalWorkspace:
        """A worktree for a new child of `parent`, with the parent's current files; `again`: the name of a removed one to
        create again. Raises ToolError."""
        if not self.possible:
            raise ToolError("Worktrees need a git repository, and there was none when this session was opened.")
        made = await self.worktrees.create(local_workspace(parent.workspace), again=again)
        assert made.workspace is not None
        if (hooks := self._services.hooks) is not None:
            await hooks.worktree("WorktreeCreate", parent, made.metadata.name, made.metadata.folder)
        return made.workspace

    async def reset(self, path: str) -> None:
        """Bring the worktree of an agent back to its start. Raises ToolError, also if it has none."""
        async with self.lock:
            if (found := self.of(path)) is None:
                raise ToolError(f"{path} has no worktree, so its files cannot be brought back to their start.")
            await self.worktrees.reset(found)

    async def cancel(self, workspace: Workspace) -> None:
        """Remove a worktree whose child was not started, even if the calling task is being cancelled."""
        found = self._worktree_of(workspace)
        if found is not None and not found.path:
            await finish_despite_cancel(self.worktrees.discard(found))

    async def workspace_for_resume(self, parent: Agent, path: str) -> LocalWorkspace | None:
        """Where an ended agent resumes: its worktree, or a new one if that is gone; None: the workspace of its parent."""
        async with self.lock:
            own = self.of(path)
            if own is None:
                return None
            if own.open:
                return self.worktrees.workspace_in(own, self.main)
            return await self.create(parent, again=own.metadata.name)

    def assign(self, workspace: Workspace, path: str) -> list[AnyEvent]:
        """Record that the agent `path` owns the worktree `workspace`, if it is one, and return the events that say so."""
        made = self._made.claim(workspace, path) if self._made else None
        if made is None:
            return []
        made.state = "opened"
        return [made.event, *(Notice(f"Worktree of {path}: {text}", "warning") for text in made.notes)]

    def environment_for(self, workspace: Workspace, environment: Environment) -> Environment:
        """`environment` as an agent finds it that works in `workspace`."""
        inside = self._worktree_of(workspace)
        if inside is None:
            return environment
        main = str(Path(inside.metadata.top) / inside.metadata.within)
        return msgspec.structs.replace(
            environment, folder=str(workspace.root), branch=inside.metadata.branch, folders=(), copy_of=main
        )

    # ---- after a run --------------------------------------------------------------------

    async def run_ended(self, tree: SubagentTree, path: str) -> None:
        """Compare the worktrees that the agent `path` worked in or below, unless other agents still run there. Never
        raises."""
        while path:
            inside = self.of(path)
            if inside is not None:
                await self._update_state(tree, inside)
            path = parent_of(path)

    async def _update_state(self, tree: SubagentTree, inside: Worktree) -> None:
        async with self.lock:
            if inside.state != "opened" or tree.running(inside.path):
                return
            try:
                await self.worktrees.refresh(inside)
                inside.problem = ""
            except ToolError as error:
                inside.state, inside.problem = "changed", str(error)
            except Exception as error:
                log.exception("worktree of %s", inside.path)
                inside.state, inside.problem = "changed", f"{type(error).__name__}: {error}"
            await self._services.log.emit(inside.path, *worktree_events(inside))
        if inside.event.state == "unchanged" and (hooks := self._services.hooks) is not None:
            await hooks.worktree("WorktreeRemove", tree.root, inside.metadata.name, inside.metadata.folder)

    async def restore(self, records: Mapping[str, AgentRecord]) -> None:
        """Take over the worktrees that an earlier process of this session left."""
        left = await self.worktrees.load_remaining() if await asyncio.to_thread(self._folder.is_dir) else []
        found = {worktree.path: worktree for worktree in left}
        for path, worktree in found.items():
            known = records.get(path)
            if known is not None and known.worktree != worktree.event:
                await self._services.log.emit(path, *worktree_events(worktree))
        for path, record in records.items():
            if record.worktree is not None and path not in found:
                removed = _removed_worktree(path, record.worktree, self.worktrees)
                self.worktrees.all.append(removed)
                if removed.state != record.worktree.state:  # removed by another program
                    await self._services.log.emit(path, *worktree_events(removed))

    def start_cleanup(self, own: LockSession, environ: Mapping[str, str]) -> None:
        """Start a task that removes unchanged worktrees of dead processes and tells the person about the others here."""
        if self._folder.parent.is_dir():
            self._cleanup = asyncio.create_task(self._clean_up(own, environ), name="worktrees of dead processes")

    async def _clean_up(self, own: LockSession, environ: Mapping[str, str]) -> None:
        from friday_cli.workspace.worktrees.orphans import scan_orphans

        folder = str(self.main.root)
        found = await scan_orphans(self._folder.parent, own, environ, skip=self._folder.name)
        if mine := [left.worktree for left in found.left if not left.in_use and left.worktree.metadata.home == folder]:
            names = ", ".join(worktree.metadata.name for worktree in mine[:5]) + (" ..." if len(mine) > 5 else "")
            text = f"Earlier sessions left changes of sub-agents that were not applied: {names}. See `friday worktrees list`."
            await self._services.log.emit("a", Notice(text, "warning"))

    async def close(self) -> None:
        """Cancel the cleanup and wait until no worktree is being changed."""
        if self._cleanup is not None:
            self._cleanup.cancel()
            await asyncio.wait([self._cleanup])
        async with self.lock:
            if self._made is not None:
                await self._made.close()


def local_workspace(workspace: Workspace) -> LocalWorkspace:
    """`workspace` if it can have worktrees. Raises ToolError if it cannot."""
    workspace = whole(workspace)
    if not isinstance(workspace, LocalWorkspace):
        raise ToolError("This workspace cannot have worktrees.")
    return workspace


def worktree_events(worktree: Worktree) -> list[AnyEvent]:
    """The events that record the current state of a worktree."""
    events: list[AnyEvent] = [worktree.event]
    if worktree.problem:
        events.append(Notice(f"The worktree {worktree.folder} could not be compared: {worktree.problem}", "warning"))
    return events


def _removed_worktree(path: str, event: WorktreeChanged, worktrees: Worktrees) -> Worktree:
    """A worktree that does not exist any longer, as the log has it."""
    from friday_cli.workspace.worktrees.metadata import Worktree, WorktreeMetadata

    card = WorktreeMetadata(
        session=worktrees.session,
        name=Path(event.folder).name,
        branch=event.branch,
        folder=event.folder,
        within="",
        top="",
        home="",
        common="",
        agent=path,
        base=event.base,
    )
    state = event.state if event.state not in ("opened", "changed") else "discarded"
    return Worktree(card, worktrees.folder, state, files=event.files)
