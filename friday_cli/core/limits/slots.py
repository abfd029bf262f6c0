"""The run slot of an agent, its clock and its status, which depend on whether it works or waits. An agent releases its
run slot while all it does waits for a child, a person or a rate limit, so nested agents cannot deadlock. It acquires a
slot again before it resumes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ..eventlog.log import Log
from ..protocol.events import StatusChanged
from ..protocol.run_result import Status
from .clock import Clock


class RunSlot:
    """The slot, clock and status of one agent. `slots` is None for the root, which needs no slot."""

    def __init__(self, path: str, *, log: Log, slots: asyncio.Semaphore | None) -> None:
        self.path = path
        self.clock = Clock()
        self.status: Status = "queued" if slots else "running"
        self._log = log
        self._slots = slots
        self._parallel = 1
        self._waits: list[tuple[Status, str]] = []
        self._held = False
        self._extra = False
        self._taking = asyncio.Lock()

    @property
    def can_run(self) -> bool:
        """Whether it holds a slot or can acquire one without waiting."""
        return self._held or self._slots is None or self._extra or not self._slots.locked()

    async def start(self) -> None:
        """Wait for a slot and start the clock."""
        self._extra = False
        await self._take()

    def start_parallel(self, count: int) -> None:
        """The agent now does `count` things in parallel."""
        self._parallel = count

    def parallel_done(self) -> None:
        """One of the parallel things ended."""
        self._parallel -= 1
        if self._parallel > 0 and len(self._waits) >= self._parallel:
            self.release()

    async def resume_single(self, *, hurry: bool = False) -> None:
        """Do one thing again. With `hurry` the agent does not wait for a slot: it runs beyond the limit when none is free."""
        self._parallel = 1
        self._extra = hurry and not self._held and self._slots is not None and self._slots.locked()
        await self._take()

    @asynccontextmanager
    async def waiting(self, status: Status, detail: str = "", *, resume: bool = True) -> AsyncIterator[None]:
        """Wait for something inside the context. `detail` says for what. Without `resume` no slot is acquired at the
        end; `resume_single` must follow."""
        entry = (status, detail)
        self._waits.append(entry)
        if len(self._waits) >= self._parallel:
            self.release()
        stopped = False
        try:
            await self.show()
            yield
        except asyncio.CancelledError:
            stopped = True
            raise
        finally:
            self._waits.remove(entry)
            if resume and not stopped:  # a cancelled agent needs no slot
                await self._take()

    async def _take(self) -> None:
        async with self._taking:
            if not self._held:
                if self._slots is not None and not self._extra:
                    if self._slots.locked():
                        await self._set_status("queued", "")
                    await self._slots.acquire()
                self._held = True
                self.clock.start()
        await self.show()

    def release(self) -> None:
        """Stop the clock and release the slot, if it is held."""
        if self._held:
            self._held = False
            self.clock.stop()
            if self._slots is not None and not self._extra:
                self._slots.release()

    async def show(self) -> None:
        """Report the status of the agent."""
        if self._held or not self._waits:
            await self._set_status("running", "")
        else:
            await self._set_status(*self._waits[-1])

    async def _set_status(self, status: Status, detail: str) -> None:
        if status != self.status:
            self.status = status
            await self._log.emit(self.path, StatusChanged(status, detail))
