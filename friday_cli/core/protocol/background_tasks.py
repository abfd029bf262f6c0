"""Tasks that run beside what started them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class BackgroundTasks(set[asyncio.Task[Any]]):
    """Keeps tasks until they end, which the event loop does not do."""

    def start(self, work: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
        task = asyncio.create_task(work, name=name)
        self.add(task)
        task.add_done_callback(self.discard)
        return task

    async def end(self) -> None:
        """Cancel all and wait for their ends."""
        for task in self:
            task.cancel()
        await asyncio.gather(*self, return_exceptions=True)
