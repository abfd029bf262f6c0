"""A shell command with its process and its output."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable

from ..fs import change_detection
from ..sandbox import denial_detection, tamper_check
from ..sandbox.plan import SandboxPlan
from .client import Process
from .output import LiveOutput, OutputCapture


class RunningCommand:
    """A command from its start to its end; `id` is set for one in the background.

    `shared` tells whether a command of another agent ran at the same time. `plan` is how it is confined, `before` what
    its sandbox should keep as it is.
    """

    def __init__(
        self,
        process: Process,
        text: str,
        capture: OutputCapture,
        live: LiveOutput | None,
        plan: SandboxPlan | None = None,
        before: tamper_check.Looked | None = None,
    ) -> None:
        self.plan, self.before = plan, before
        self.process, self.text, self.capture = process, text, capture
        self.id = ""
        self.begun = time.monotonic()
        self.stamp = change_detection.now()
        self.shared = False
        self.killed = False
        self.told = False
        self.news = asyncio.Event()
        self._live = live
        self._reading = asyncio.create_task(process.pump(self._take))
        self._finished: asyncio.Task[None] | None = None

    @property
    def exit_code(self) -> int | None:
        return shell_code(self.process.exit_code)

    def blocked(self, output: str) -> str:
        """What its sandbox seems to have refused it, "" where nothing points to that."""
        return denial_detection.blocked(output, self.plan) if self.plan is not None and self.exit_code else ""

    def _take(self, data: bytes) -> Awaitable[None] | None:
        if self._live is not None:
            self._live.feed(data)
        self.news.set()
        if self.capture.wants_disk(data):
            return asyncio.to_thread(self.capture.feed, data)
        self.capture.feed(data)
        return None

    async def finish(self) -> None:
        """End what still runs and take the rest of the output. Goes on to the end even where the waiter is cancelled."""
        if self._finished is None:
            self._finished = asyncio.create_task(self._finish())
        await asyncio.shield(self._finished)

    async def _finish(self) -> None:
        await self.process.end()
        await self._reading
        if self._live is not None:
            self._live.flush()
        self.capture.close()
        self.news.set()


def shell_code(code: int | None) -> int | None:
    """An exit code as a shell gives it: 128 + N for signal N."""
    return code if code is None or code >= 0 else 128 - code
