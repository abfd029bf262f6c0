"""Worktrees for a scene: real rules of who works where and what becomes of it, over copies that are only names."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from friday_cli.core.eventlog.replay import AgentRecord
from friday_cli.core.protocol.agent_path import is_under
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.events import Envelope, WorktreeChanged
from friday_cli.core.protocol.receipt import FileChange
from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.worktrees.apply import Applied
from friday_cli.workspace.worktrees.metadata import Worktree, WorktreeMetadata
from friday_cli.workspace.worktrees.worktrees import Worktrees
from tests.fuzz.random_actions import Machine

if TYPE_CHECKING:
    from tests.fuzz.scenario import Scene

LEGAL = {
    "": {"opened", "changed", "unchanged", "discarded"},  # who never came to work leaves only the end
    "opened": {"opened", "changed", "unchanged", "discarded", "applied", "kept"},
    "changed": {"opened", "changed", "unchanged", "applied", "discarded", "kept"},
    **{end: {"opened", "changed", "unchanged", "discarded"} for end in ("unchanged", "applied", "discarded", "kept")},
}
"""How the worktree of an agent may stand after it stood so."""
CHANGED = (FileChange("x", 1, 0, "h"),)


class FakeWorktree(Machine):
    """The inside of a worktree."""


class Named(Worktree):
    """A worktree without a disk. `worked` tells that something was changed in it."""

    worked: bool = False

    def save(self, **fields: Any) -> None:
        self.metadata = WorktreeMetadata(
            **{**{name: getattr(self.metadata, name) for name in WorktreeMetadata.__struct_fields__}, **fields}
        )


class FakeWorktrees(Worktrees):
    """Makes worktrees of nothing. Each step takes a moment, and git sometimes fails."""

    def __init__(self, scene: Scene, records: Mapping[str, AgentRecord]) -> None:
        super().__init__(Path("/worktrees/fuzz"), session="fuzz", environ={})
        self._scene = scene
        self._rng = random.Random(f"{scene.seed}:{scene.since}:worktrees")
        self._left = [
            self._made(record.worktree, path)
            for path, record in records.items()
            if record.worktree and record.worktree.state in ("opened", "changed") and self._rng.random() < 0.8
        ]

    def _made(self, event: WorktreeChanged, path: str) -> Named:
        card = WorktreeMetadata(
            self.session, Path(event.folder).name, event.branch, event.folder, "", "/ws", "/ws", "", path
        )
        return Named(card, self.folder, worked=self._rng.random() < 0.6)

    async def _moment(self) -> None:
        await asyncio.sleep(self._rng.choice([0.0, 0.01, 0.1, 0.3]))
        if self._rng.random() < 0.06:
            raise ToolError("git failed")

    async def create(self, base: LocalWorkspace, *, again: str = "") -> Worktree:
        async with self._lock:
            await self._moment()
            number = f"{self._scene.since}-{len(self.all)}"
            name = again or number
            if any(w.open and w.metadata.name == name for w in self.all):
                self._scene.broken.append(f"the worktree {name} is made a second time")
            card = WorktreeMetadata(
                self.session, name, f"friday/{name}", f"/worktrees/fuzz/{name}", "", "/ws", "/ws", ""
            )
            made = Named(card, self.folder, workspace=FakeWorktree(self._scene), worked=self._rng.random() < 0.6)
            self.all.append(made)
            self._scene.reached["worktrees"] += 1
            return made

    def workspace_in(self, worktree: Worktree, base: LocalWorkspace) -> LocalWorkspace:
        if worktree.workspace is None:
            worktree.workspace = FakeWorktree(self._scene)
        return worktree.workspace

    async def refresh(self, worktree: Worktree) -> None:
        async with self._lock:
            await self._refresh(worktree)
            if worktree.state == "unchanged":
                self._gone(worktree, "unchanged")

    async def _refresh(self, worktree: Worktree) -> Any:
        self._require(worktree)
        await self._moment()
        if self._rng.random() < 0.02:
            raise RuntimeError("a defect of the worktrees")
        assert isinstance(worktree, Named)
        worktree.state = "changed" if worktree.worked else "unchanged"
        worktree.files = CHANGED if worktree.worked else ()

    def touched(self, worktree: Worktree, target: LocalWorkspace) -> tuple[str, ...]:
        return tuple(row.path for row in worktree.files)

    async def apply(
        self, worktree: Worktree, target: LocalWorkspace, *, allowed: Sequence[str] | None = None
    ) -> Applied:
        async with self._lock:
            await self._refresh(worktree)
            if worktree.state == "unchanged":
                self._gone(worktree, "unchanged")
            if not worktree.files or self._rng.random() < 0.2:
                raise ToolError("Nothing was applied.")
            self._gone(worktree, "applied")
            return Applied(CHANGED, (), ())

    async def discard(self, worktree: Worktree, *, keep_branch: bool = False) -> None:
        async with self._lock:
            self._require(worktree)
            if worktree.path:
                await self._moment()
            self._gone(worktree, "kept" if keep_branch else "discarded")

    def _gone(self, worktree: Worktree, state: Any) -> None:
        """The folder is removed; no agent may be working in it."""
        living = [n.path for n in self._scene.bench.tree.running("a") if n.agent.workspace is worktree.workspace]
        if worktree.path and living:
            self._scene.broken.append(f"{living} work in the worktree of {worktree.path}, which is {state}")
        worktree.state, worktree.workspace = state, None
        self._scene.reached[f"worktrees {state}"] += 1

    async def load_remaining(self) -> list[Worktree]:
        self.all += self._left
        for worktree in self._left:
            try:
                await self.refresh(worktree)
            except (ToolError, RuntimeError) as error:
                worktree.state, worktree.problem = "changed", str(error)
        return [*self._left]

    async def close(self) -> None:
        async with self._lock:
            return


def check_worktrees(scene: Scene, log: Sequence[Envelope]) -> list[str]:
    """Every worktree is somebody's, is looked at when he ends, and stands as the log tells."""
    faults = []
    told: dict[str, str] = {}
    for envelope in log:
        if isinstance(event := envelope.event, WorktreeChanged):
            if event.state not in LEGAL[before := told.get(envelope.agent, "")]:
                faults.append(f"the worktree of {envelope.agent} was {before} and is {event.state}")
            told[envelope.agent] = event.state
    if scene.copies is None:
        return faults + ([f"worktrees where there are none: {told}"] if told else [])
    for worktree in scene.copies.all:
        if worktree.open and not worktree.path:
            faults.append(f"the worktree {worktree.metadata.name} is nobody's")
        if worktree.state == "opened" and worktree.path:
            faults.append(f"{worktree.path} has ended, and nobody looked at its worktree")
        if scene.copies.newest_of(worktree.path) is worktree and not scene.journal.broken:
            stands = told.get(worktree.path, "")
            if worktree.path and stands != worktree.state:
                faults.append(f"the worktree of {worktree.path} is {worktree.state}, and the log says {stands!r}")
    return faults


def inside(scene: Scene, path: str) -> list[str]:
    """What is wrong with where an agent works: a worktree that is gone, or none where one above it works in one."""
    if scene.copies is None:
        return []
    workspace = scene.bench.agents[path].workspace
    here = next((w for w in scene.copies.all if w.workspace is workspace), None)
    if isinstance(workspace, FakeWorktree) and here is None:
        return [f"{path} works in a worktree that is gone"]
    if here is not None and not is_under(path, here.path):
        return [f"{path} works in the worktree of {here.path}"]
    return []
