"""Whether an agent works or waits: that decides whether it holds a run slot, whether its clock runs, and its status.

A run slot is given up while everything the agent does waits for a child, a person or a rate limit, so nesting
cannot deadlock; it is taken back before the agent works again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ..eventlog.log import Log
from ..protocol.events import StatusChanged
from ..protocol.run_result import Status
from .budget import Clock


class RunSlot:
    """The slot, clock and status of one agent. `slots` is None for the root, which needs no slot."""

    def __init__(self, path: str, *, log: Log, slots: asyncio.Semaphore | None) -> None:
        self.path = path
        self.clock = Clock()
        self.status: Status = "queued" if slots else "running"
        self._log = log
        self._slots = slots
        self._strands = 1
        self._waits: list[tuple[Status, str]] = []
        self._held = False
        self._extra = False
        self._taking = asyncio.Lock()

    @property
    def can_run(self) -> bool:
        """Whether it holds a place to run, or would not have to wait for one."""
        return self._held or self._slots is None or self._extra or not self._slots.locked()

    async def start(self) -> None:
        """Wait for a slot and start the clock."""
        self._extra = False
        await self._take()

    def end(self) -> None:
        """Nothing of the agent works any more."""
        self._release()

    def start_parallel(self, strands: int) -> None:
        """The agent now does so many things at once, in place of the one."""
        self._strands = strands

    def parallel_done(self) -> None:
        """One of the forked strands ended; the last one leaves the agent working on one."""
        self._strands -= 1
        if self._strands > 0 and len(self._waits) >= self._strands:
            self._release()

    async def resume_single(self, *, hurry: bool = False) -> None:
        """Back to one strand that works; in a `hurry` beyond the slots where none is free."""
        self._strands = 1
        self._extra = hurry and not self._held and self._slots is not None and self._slots.locked()
        await self._take()

    @asynccontextmanager
    async def waiting(self, status: Status, detail: str = "", *, resume: bool = True) -> AsyncIterator[None]:
        """What happens inside waits.

        Without `resume` no slot is taken at the end: there is nothing left to do before `join`.
        """
        entry = (status, detail)
        self._waits.append(entry)
        if len(self._waits) >= self._strands:
            self._release()
        stopped = False
        try:
            await self.show()
            yield
        except asyncio.CancelledError:
            stopped = True
            raise
        finally:
            self._waits.remove(entry)
            if resume and not stopped:  # whoever is being stopped needs no slot
                await self._take()

    async def _take(self) -> None:
        async with self._taking:
            if not self._held:
                if self._slots is not None and not self._extra:
                    if self._slots.locked():
                        await self._say("queued", "")
                    await self._slots.acquire()
                self._held = True
                self.clock.start()
        await self.show()

    def _release(self) -> None:
        if self._held:
            self._held = False
            self.clock.stop()
            if self._slots is not None and not self._extra:
                self._slots.release()

    async def show(self) -> None:
        """Let people see how the agent stands."""
        if self._held or not self._waits:
            await self._say("running", "")
        else:
            await self._say(*self._waits[-1])

    async def _say(self, status: Status, detail: str) -> None:
        if status != self.status:
            self.status = status
            await self._log.emit(self.path, StatusChanged(status, detail))
