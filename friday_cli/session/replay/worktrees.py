"""Worktrees of a replayed session: none is made, what changed in them is in the recording."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from pathlib import Path

import msgspec

from friday_cli.core.protocol.events import Envelope, WorktreeChanged
from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.worktrees.metadata import Worktree, WorktreeMetadata


class RecordedWorktrees:
    """Stands for `Worktrees`, from the recorded events of a session; in the replay all agents work in `base`."""

    def __init__(self, base: LocalWorkspace, envelopes: Sequence[Envelope]) -> None:
        self.session, self.all = "", list[Worktree]()
        self._base = base
        self._ends: dict[str, deque[WorktreeChanged]] = defaultdict(deque)
        for envelope in envelopes:
            if isinstance(envelope.event, WorktreeChanged) and envelope.event.state != "opened":
                self._ends[envelope.agent].append(envelope.event)

    def newest_of(self, path: str) -> Worktree | None:
        """As `Worktrees.newest_of`."""
        return next((made for made in reversed(self.all) if made.path == path), None)

    def containing(self, workspace: object) -> Worktree | None:
        """As `Worktrees.containing`."""
        return next((made for made in self.all if made.open and made.workspace is workspace), None)

    async def create(self, base: LocalWorkspace, *, again: str = "") -> Worktree:
        """A worktree that is only a name."""
        name = again or f"recorded-{len(self.all) + 1}"
        folder = str(self._base.root)
        metadata = WorktreeMetadata(
            "", name, f"friday/{name}", folder=folder, within="", top=folder, home=folder, common=""
        )
        made = Worktree(metadata, Path("/nowhere"), workspace=self._base.at(self._base.root))
        self.all.append(made)
        return made

    def claim(self, workspace: object, path: str) -> Worktree | None:
        """As `Worktrees.claim`."""
        found = self.containing(workspace)
        if found is None or found.path not in ("", path):
            return None
        found.metadata = msgspec.structs.replace(found.metadata, agent=path)
        return found

    async def refresh(self, worktree: Worktree) -> None:
        """Set the recorded state."""
        ends = self._ends[worktree.path]
        end = ends.popleft() if ends else None
        worktree.state = end.state if end is not None else "unchanged"
        worktree.files = end.files if end is not None else ()

    async def reset(self, worktree: Worktree) -> None:
        """No file was changed."""

    def touched(self, worktree: Worktree, target: LocalWorkspace) -> tuple[str, ...]:
        """The files that had changed, by the recording."""
        return tuple(file.path for file in worktree.files)

    async def discard(self, worktree: Worktree, *, keep_branch: bool = False) -> None:
        """As `Worktrees.discard`."""
        worktree.state = "kept" if keep_branch else "discarded"

    async def load_remaining(self) -> list[Worktree]:
        """Nothing is left on disk."""
        return []

    def workspace_in(self, worktree: Worktree, base: LocalWorkspace) -> LocalWorkspace:
        """As `Worktrees.workspace_in`."""
        return worktree.workspace or base

    async def close(self) -> None:
        """Nothing was made."""
