"""The compaction of a session's history that the user asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from friday_cli.core.protocol.errors import UsageError

if TYPE_CHECKING:
    from friday_cli.session.port import SessionPort


class Compaction:
    """At most one at a time. `on_change` is called when it begins and ends."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._task: asyncio.Task[tuple[int, int]] | None = None
        self._on_change = on_change

    @property
    def running(self) -> bool:
        """Whether the history is being compacted."""
        return self._task is not None

    def cancel(self) -> None:
        """Cancel it, if one runs."""
        if self._task is not None:
            self._task.cancel()

    async def run(self, session: SessionPort, instructions: str) -> tuple[int, int]:
        """Replace the history with a summary. Returns the tokens before and after. Raises UsageError, also when it is
        cancelled."""
        from friday_cli.session.commands import Compact

        self._task = task = asyncio.ensure_future(session.do(Compact(instructions)))
        self._on_change()
        try:
            await asyncio.wait([task])
        finally:
            self._task = None
            task.cancel()
            self._on_change()
        if task.cancelled():
            raise UsageError("Compaction stopped. The conversation is unchanged.")
        return task.result()
