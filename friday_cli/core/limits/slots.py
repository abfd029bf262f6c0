"""The run slot of an agent, its clocks and its status, which depend on whether it works or waits. Only an agent whose tools
work on this machine needs a slot: not while it waits for the reply of a model. It releases the slot while all its calls
wait for a child, a person or a rate limit, so nested agents cannot deadlock, and acquires one again before they resume."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ..eventlog.log import Log
from ..protocol.run_result import Status
from ..protocol.waiting import CapReached, StatusChanged, WaitReason
from .clock import Clock


class RunSlot:
    """The slot, clocks and status of one agent. `slots` is None for the root, which needs no slot.

    `clock` is the active time of the agent. `subtree_clock` also runs while that of a sub-agent runs that the agent waits
    for. The root has one clock for both.
    """

    def __init__(self, path: str, *, log: Log, slots: asyncio.Semaphore | None) -> None:
        self.path = path
        self.clock = Clock()
        self.subtree_clock = Clock() if slots else self.clock
        self._clocks = {self.clock, self.subtree_clock}
        self.status: Status = "queued" if slots else "running"
        self._log = log
        self._slots = slots
        self._parallel = 1
        self._waits: list[StatusChanged] = []
        self._active = self._needed = self._held = False
        self._taking = asyncio.Lock()

    async def start(self) -> None:
        """Start the clocks."""
        await self.resume_single()

    async def start_parallel(self, count: int, *, on_machine: bool) -> None:
        """The agent now does `count` things in parallel. Waits for a slot if one of them works on this machine."""
        self._parallel = count
        self._needed = on_machine
        await self._resume()

    def parallel_done(self) -> None:
        """One of the parallel things ended."""
        self._parallel -= 1
        if self._parallel > 0 and len(self._waits) >= self._parallel:
            self.release()

    async def resume_single(self) -> None:
        """Do one thing again that needs no slot, such as a request to the model."""
        self._parallel = 1
        self._needed = False
        self._release_slot()
        await self._resume()

    @asynccontextmanager
    async def waiting(
        self,
        status: Status,
        reason: WaitReason | None = None,
        *,
        wait_s: float | None = None,
        agents: tuple[str, ...] = (),
        cap: CapReached | None = None,
        resume: bool = True,
    ) -> AsyncIterator[None]:
        """Wait for something inside the context; `StatusChanged` has the meaning of what it is for. Without `resume` it is not
        ended: a call of `resume_single` must follow."""
        entry = StatusChanged(status, reason, wait_s, agents, cap=cap)
        self._waits.append(entry)
        if len(self._waits) >= self._parallel:
            self.release()
        stopped = False
        try:
            self.show()
            yield
        except asyncio.CancelledError:
            stopped = True
            raise
        finally:
            self._waits.remove(entry)
            if resume and not stopped:  # a cancelled agent needs no slot
                await self._resume()

    async def _resume(self) -> None:
        async with self._taking:
            if self._needed and not self._held and self._slots is not None:
                if self._slots.locked():
                    self._stop_clocks()
                    self._report(StatusChanged("queued"))
                await self._slots.acquire()
                self._held = True
            if not self._active:
                self._active = True
                for clock in self._clocks:
                    clock.start()
        self.show()

    def release(self) -> None:
        """Stop the clocks and release the slot, if it is held."""
        self._stop_clocks()
        self._release_slot()

    def _stop_clocks(self) -> None:
        if self._active:
            self._active = False
            for clock in self._clocks:
                clock.stop()

    def _release_slot(self) -> None:
        if self._held:
            self._held = False
            assert self._slots is not None
            self._slots.release()

    def silence(self) -> None:
        """Cancel the alarms of the clocks."""
        for clock in self._clocks:
            clock.silence()

    def show(self) -> None:
        """Report the status of the agent."""
        if self._active or not self._waits:
            self._report(StatusChanged("running"))
        else:
            self._report(self._waits[-1])

    def _report(self, change: StatusChanged) -> None:
        if change.status != self.status:
            self.status = change.status
            self._log.emit_soon(self.path, change)
