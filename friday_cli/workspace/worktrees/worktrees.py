"""The worktrees of one session: created for isolated sub-agents, then applied, kept as a branch, or discarded."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from friday_cli.core.protocol.errors import ToolError, UsageError
from friday_cli.system.paths import text_of

from ..local import LocalWorkspace
from .apply import DIFF, MOST, Applied, commit_changes, describe, plan_apply
from .create import WorktreeCreator
from .git import Git, Repository, discover
from .git_trees import GitTrees
from .metadata import Worktree, WorktreeState, load_worktrees, remove_folder

ENDED: Mapping[WorktreeState, str] = {
    "unchanged": "nothing was changed in it, so it was removed",
    "applied": "it was already applied",
    "discarded": "it was discarded",
    "kept": "its work is on its branch",
}
"""What happened to a worktree that no longer exists, by its state."""


class Worktrees:
    """Creates worktrees below `folder` (created with mode 0700), of the repository that contains a workspace. `include` are
    patterns of ignored files to copy; git is found on the PATH of `environ`, not in `workspace`. Calls run one at a time. All may raise
    ToolError."""

    def __init__(
        self,
        folder: Path,
        *,
        session: str,
        include: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
        workspace: Sequence[Path] = (),
    ) -> None:
        self.folder = Path(os.path.realpath(folder))
        self.session = session
        self._include = tuple(include)
        self._environ = os.environ if environ is None else environ
        self._workspace = workspace
        self.all: list[Worktree] = []
        """Every worktree of this session, the newest last."""
        self._lock = asyncio.Lock()

    @cached_property
    def git(self) -> Git:
        return Git(self._environ, self._workspace)

    def newest_of(self, path: str) -> Worktree | None:
        """The newest worktree that belongs to the agent `path`."""
        return next((w for w in reversed(self.all) if w.path == path), None)

    def containing(self, workspace: object) -> Worktree | None:
        """The existing worktree that `workspace` is the inside of."""
        return next((w for w in self.all if w.open and w.workspace is workspace), None)

    async def create(self, base: LocalWorkspace, *, again: str = "") -> Worktree:
        """A new worktree on a new branch, with the working tree of `base` as it is. `again` is the name of a removed
        worktree whose folder is reused."""
        async with self._lock:
            worktree: Worktree | None = None
            try:
                if parent := self.containing(base):
                    top, git_dir, home = parent.folder, Path(parent.metadata.admin), parent.metadata.home
                else:
                    (top, git_dir), home = await discover(self.git, base.root), ""
                repository = await Repository.read(self.git, git_dir)
                creator = WorktreeCreator(self.git, self.folder, self.session, self._include)
                worktree = await creator.begin(base, top, repository, home=home, again=again)
                await creator.fill(worktree, top, repository, index=parent.index if parent else None)
                worktree.workspace = base.at(worktree.root, away=(top,))
            except BaseException as error:
                if worktree is not None:
                    removing = asyncio.ensure_future(self._remove(worktree, "discarded"))
                    while not removing.done():  # even if this is cancelled again
                        with contextlib.suppress(asyncio.CancelledError):
                            await asyncio.wait([removing])
                    removing.result()
                if isinstance(error, OSError):
                    raise ToolError(f"No worktree could be created: {error.strerror or error}.") from None
                raise
            self.all.append(worktree)
            return worktree

    def claim(self, workspace: object, path: str) -> Worktree | None:
        """Assign the worktree of `workspace` to the agent `path`; None if there is none, or it belongs to another agent."""
        found = self.containing(workspace)
        if found is None or found.path not in ("", path):
            return None
        found.save(agent=path)
        return found

    async def refresh(self, worktree: Worktree) -> None:
        """Find out what changed in a worktree. If nothing did, it is removed with its branch."""
        async with self._lock:
            if worktree.open and not await asyncio.to_thread(worktree.folder.is_dir):
                return await self._remove(worktree, "discarded")
            await self._refresh(worktree)
            if worktree.state == "unchanged":
                await self._remove(worktree, "unchanged")

    async def _refresh(self, worktree: Worktree) -> GitTrees:
        self._require(worktree)
        if not worktree.metadata.start:
            worktree.state = "unchanged"  # incomplete, so no agent has worked in it
            return await worktree.trees(self.git)
        if not await asyncio.to_thread(worktree.folder.is_dir):
            raise ToolError(
                f"The worktree of {worktree.path or worktree.metadata.name} cannot be used: its folder was deleted."
            )
        trees = await worktree.trees(self.git)
        worktree.end = await trees.snapshot(Path(worktree.metadata.admin) / "index")
        worktree.changes = tuple(await trees.changes(worktree.metadata.start, worktree.end))
        worktree.files = await trees.summary(worktree.metadata.start, worktree.end) if worktree.changes else ()
        worktree.text = await trees.patch(worktree.metadata.start, worktree.end, limit=DIFF) if worktree.changes else ""
        changed = worktree.changes or await self._tip(worktree) != worktree.metadata.base  # or committed
        worktree.state = "changed" if changed else "unchanged"
        return trees

    def _require(self, worktree: Worktree) -> None:
        if not worktree.open:
            whose = f"The worktree of {worktree.path or worktree.metadata.name}"
            raise ToolError(f"{whose} no longer exists: {ENDED[worktree.state]}.")

    async def _tip(self, worktree: Worktree) -> str:
        """The newest commit of its branch; the one it started from if the branch was deleted."""
        words = ("rev-parse", "-q", "--verify", f"refs/heads/{worktree.metadata.branch}^{{commit}}")
        code, out, _ = await self.git.run(*words, git_dir=Path(worktree.metadata.common))
        return out.decode().strip() if code == 0 else worktree.metadata.base

    async def diff(self, worktree: Worktree, *, limit: int = DIFF) -> str:
        """What changed in a worktree since it was created, as text of at most `limit` characters."""
        async with self._lock:
            trees = await self._refresh(worktree)
            return await trees.patch(worktree.metadata.start, worktree.end, limit=limit)

    def touched(self, worktree: Worktree, target: LocalWorkspace) -> tuple[str, ...]:
        """The labels (as in rules) of all paths that applying a worktree to `target` would change."""
        top = self._target(worktree, target)
        return tuple(text_of(target.label(top / change.path)) for change in worktree.changes[: MOST + 1])

    def _target(self, worktree: Worktree, target: LocalWorkspace) -> Path:
        """The folder of `target` that corresponds to the top of the worktree."""
        parent = self.containing(target)
        if parent is not None:
            return parent.folder
        within = Path(worktree.metadata.within)
        return target.root.parents[len(within.parts) - 1] if within.parts else target.root

    async def apply(
        self, worktree: Worktree, target: LocalWorkspace, *, allowed: Sequence[str] | None = None
    ) -> Applied:
        """Make the changes of a worktree in the files of `target`, all or none, and remove the worktree. `allowed` are the
        labels that may change (None: any). Raises ToolError, which names the conflicts."""
        async with self._lock:
            if target is worktree.workspace:
                raise ToolError("A worktree cannot be applied to itself.")
            trees = await self._refresh(worktree)
            if not worktree.changes:
                if worktree.state == "unchanged":
                    await self._remove(worktree, "unchanged")
                raise ToolError(f"Nothing changed in the worktree of {worktree.path or worktree.metadata.name}.")
            if allowed is not None and not set(self.touched(worktree, target)) <= set(allowed):
                raise ToolError("The worktree changed in the meantime, so nothing was applied.", hint="Try again.")
            top = self._target(worktree, target)
            found = await plan_apply(worktree, trees, target, top)
            applied = await describe(worktree, trees, target, top, found)
            await target.apply_writes(found.steps, agent=worktree.path)
            await self._remove(worktree, "applied")
            return applied

    async def reset(self, worktree: Worktree) -> None:
        """Bring the files and the branch of a worktree back to where they began. Ignored files stay. Raises ToolError."""
        async with self._lock:
            trees, metadata = await self._refresh(worktree), worktree.metadata
            with trees.repository.control(trees.top, trees.index, raw=True) as env:
                await self.git("read-tree", "--reset", "-u", metadata.start, cwd=trees.top, env=env)
            common = Path(metadata.common)
            await self.git("update-ref", f"refs/heads/{metadata.branch}", metadata.base, git_dir=common)
            worktree.state = "opened"

    async def discard(self, worktree: Worktree, *, keep_branch: bool = False) -> None:
        """Remove a worktree and its branch. With `keep_branch` its changes are committed on the branch, which is kept."""
        async with self._lock:
            self._require(worktree)
            if keep_branch:
                trees = await self._refresh(worktree)
                if worktree.metadata.start:
                    message = f"Work of {worktree.path or 'a sub-agent'} in Friday session {self.session[:8]}"
                    await commit_changes(self.git, worktree, trees, await self._tip(worktree), message)
            await self._remove(worktree, "kept" if keep_branch else "discarded")

    async def _remove(self, worktree: Worktree, state: WorktreeState) -> None:
        """Remove the folder, its registration in git and its metadata file; the branch too, unless the state is `kept`."""
        worktree.state = state
        if worktree.workspace is not None:
            await worktree.workspace.close()
            worktree.workspace = None
        metadata, common = worktree.metadata, Path(worktree.metadata.common)
        await asyncio.to_thread(remove_folder, worktree.folder)
        if await asyncio.to_thread(common.is_dir):
            await self.git.run("worktree", "remove", "--force", "--force", metadata.folder, git_dir=common)
            if state != "kept":
                await self.git.run("update-ref", "-d", f"refs/heads/{metadata.branch}", git_dir=common)
        for file in (worktree.index, self.folder / f"{metadata.name}.json"):
            file.unlink(missing_ok=True)

    async def load_remaining(self) -> list[Worktree]:
        """Load and refresh the worktrees that an earlier process of this session left. If a refresh fails, `problem` says
        why."""
        found = await asyncio.to_thread(lambda: list(load_worktrees(self.folder)))
        known = {worktree.metadata.name for worktree in self.all}
        fresh = [worktree for worktree in found if worktree.metadata.name not in known]
        for worktree in fresh:
            self.all.append(worktree)
            try:
                await self.refresh(worktree)
            except ToolError as error:
                worktree.state, worktree.problem = "changed", str(error)
        return fresh

    def workspace_in(self, worktree: Worktree, base: LocalWorkspace) -> LocalWorkspace:
        """The workspace inside a worktree; created from `base` if an earlier process created the worktree."""
        if worktree.workspace is None:
            try:
                worktree.workspace = base.at(worktree.root, away=(Path(worktree.metadata.top),))
            except UsageError as error:
                raise ToolError(f"The worktree of {worktree.path} cannot be used: {error}") from None
        return worktree.workspace

    async def close(self) -> None:
        """Wait for the running call, and remove the folder if no worktree is left in it."""
        async with self._lock:
            with contextlib.suppress(OSError):
                if not any(self.folder.glob("*.json")):
                    for path in [path for what in ("*.index*", "*.json.*", "git-*") for path in self.folder.glob(what)]:
                        remove_folder(path) if path.is_dir() else path.unlink()
                    self.folder.rmdir()
