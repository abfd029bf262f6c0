"""Stands between a workspace and its files: nothing is changed before a keeper, where there is one, knows what was there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from ..fs.transaction import FileContent
from ..process.command import RunningCommand
from .recorder import CheckpointRecorder, PendingChange


class WriteHook:
    """`above` gives the root that a path lies below. Without a `keeper` nothing is kept."""

    def __init__(self, above: Callable[[Path], Path | None]) -> None:
        self.keeper: CheckpointRecorder | None = None
        self._above = above
        self._changing = asyncio.Lock()

    @asynccontextmanager
    async def changing(self, agent: str, changes: Sequence[tuple[Path, FileContent | None]]) -> AsyncIterator[None]:
        """What these files hold is kept before the block changes them; one such change at a time."""
        if self.keeper is None:
            yield
            return
        async with self._changing:
            coming = [PendingChange(root, path, new) for path, new in changes if (root := self._above(path))]
            kept = await self.keeper.before(agent, coming)
            try:
                yield
            except Exception:
                await self.keeper.undone(agent, kept)
                raise
            await self.keeper.wrote(coming)

    async def begins(self, commands: Iterable[RunningCommand]) -> None:
        """A command is about to run, while `commands` may be running: what is there now is what it will find."""
        if self.keeper is not None:
            running = (command.process for command in commands if command.process.running)
            await self.keeper.begins(next((process.agent for process in running), ""))

    async def ended(self, agent: str) -> None:
        """A command of `agent` ran."""
        if self.keeper is not None:
            await self.keeper.ended(agent)

    async def close(self) -> None:
        """Nothing runs any more."""
        if self.keeper is not None:
            await self.keeper.close()
