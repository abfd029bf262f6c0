"""Runs around every change of a workspace's files, so that the recorder can save their content first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from ..fs.transaction import FileContent
from ..process.command import RunningCommand
from .recorder import CheckpointRecorder, PendingChange


class WriteHook:
    """`root_of` returns the root that contains a path. Without a `recorder` nothing is saved."""

    def __init__(self, root_of: Callable[[Path], Path | None], recorder: CheckpointRecorder | None = None) -> None:
        self.recorder = recorder
        self._root_of = root_of
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def changing(self, agent: str, changes: Sequence[tuple[Path, FileContent | None]]) -> AsyncIterator[None]:
        """Save the content of these files before the block changes them; one block at a time."""
        if self.recorder is None:
            yield
            return
        async with self._lock:
            pending = [PendingChange(root, path, new) for path, new in changes if (root := self._root_of(path))]
            kept = await self.recorder.save_before(agent, pending)
            try:
                yield
            except Exception:
                await self.recorder.changes_failed(agent, kept)
                raise
            await self.recorder.changes_made(pending)

    async def command_started(self, commands: Iterable[RunningCommand]) -> None:
        """Call before a command starts; `commands` are those that may be running already."""
        if self.recorder is not None:
            running = (command.process for command in commands if command.process.running)
            await self.recorder.command_started(next((process.agent for process in running), ""))

    async def command_ended(self, agent: str) -> None:
        """Call after a command of `agent` ended."""
        if self.recorder is not None:
            await self.recorder.command_ended(agent)

    async def close(self) -> None:
        """Call when no command runs and none will start."""
        if self.recorder is not None:
            await self.recorder.close()
