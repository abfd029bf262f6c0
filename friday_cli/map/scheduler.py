"""Starts the work of items: at most so many at once, each after its cap was reserved, and none after a reason to stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import msgspec
from msgspec.structs import replace

from friday_cli.core.limits.budget import Budget, Reservation
from friday_cli.core.protocol.background_tasks import BackgroundTasks
from friday_cli.core.protocol.errors import StoreError

from .caps import Cap
from .charges import ItemRow
from .engine import ItemResult, ItemTask, ItemWorker
from .job import MapJob
from .store import MapStore

WARM_S = 30.0
"""Seconds that the others wait for the first item, which writes the shared prefix to the service's cache."""

TICK_S = 1.0
"""Seconds after which progress is shown again: its time goes on."""


class Progress(msgspec.Struct):
    """The items that ended in this process, and what they used: `active_s` their agents, `took_s` with worktree and check. `begun` is loop time. `trouble`:
    what the service does instead of answering, "" while it answers."""

    done: int = 0
    failed: int = 0
    waiting: int = 0
    running: int = 0
    cost: float = 0.0
    tokens: int = 0
    active_s: float = 0.0
    took_s: float = 0.0
    begun: float = 0.0
    trouble: str = ""

    @property
    def ended(self) -> int:
        return self.done + self.failed + self.waiting


class Scheduler:
    """Runs work of a batch. `budget` is what the batch may still spend of its cap. `reason` says why nothing starts any more, "" while work
    may start. `changed` is called after each start and end, and each `TICK_S` while work runs; `trouble` gives that of `Progress`."""

    def __init__(
        self,
        job: MapJob,
        store: MapStore,
        engine: ItemWorker,
        budget: Budget,
        *,
        changed: Callable[[Progress], None],
        trouble: Callable[[], str] = str,
    ) -> None:
        self.reason = ""
        self.progress = Progress(begun=asyncio.get_running_loop().time())
        self._job, self._store, self._engine, self._budget = job, store, engine, budget
        self._batch, self._changed, self._trouble = job.id, changed, trouble
        self._warm = False
        self._running = BackgroundTasks()
        self._unwritten: list[ItemRow] = []
        """The ends of items that could not be stored."""
        self._defect: Exception | None = None

    def hide_progress(self) -> None:
        """The work that follows is not that of items: it is not shown as their progress."""
        self._changed = lambda progress: None

    def use(self, budget: Budget) -> None:
        """Let the work that follows reserve from another budget. It waits for no cache to be written."""
        self._budget, self._warm = budget, True

    def stop(self, reason: str) -> None:
        """Start no further items. The first reason is kept."""
        self.reason = self.reason or reason

    async def run(self, works: AsyncIterator[ItemTask], *, most: int | None = None) -> None:
        """Run `works` until they or the budget end, `most` of them. Returns when all that were started have ended; a defect of
        one is raised then."""
        ticking = asyncio.create_task(self._tick())
        try:
            count = 0
            async for work in works:
                cap = await self._room(work)
                if self.reason:
                    return
                work = replace(work, cap=cap)
                if not await self._start(work):
                    continue  # one that another batch runs stays as it is
                count += 1
                if not self._warm:
                    self._warm = True
                    await asyncio.wait(self._running, timeout=WARM_S)
                if count == most:
                    return
        finally:
            try:
                await self._ended()
            finally:
                ticking.cancel()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self.progress.trouble = self._trouble()
            self._changed(self.progress)

    async def _room(self, work: ItemTask) -> Cap:
        """Wait until an item may start, or nothing may. Returns the cap that it can have."""
        while not self.reason:
            free = self._budget.free
            if work.cap.fits(free) or (work.least.fits(free) and not self._running):
                if len(self._running) < self._job.parallel:
                    return work.cap.within(free)
            elif not self._running:
                self.stop(f"the cap of {self._job.cap.text()} has no room for another item ({work.least.text()})")
                break
            await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
        return Cap()

    async def _start(self, work: ItemTask) -> bool:
        held = Reservation(work.cap.amounts)
        self._budget.hold(held, 1)
        try:
            claimed = await self._store.claim(
                work.key, batch=self._batch, session=self._engine.session, reserved=Cap() if work.rounds else work.cap
            )
        except BaseException:
            self._budget.hold(held, -1)
            raise
        if claimed != "claimed":
            self._budget.hold(held, -1)
            if claimed == "cancelled":
                self.stop("it was cancelled")
            return False
        self._running.start(self._work(work, held), name=f"item {work.key[:12]}")
        self.progress.running += 1
        self._changed(self.progress)
        return True

    async def _work(self, work: ItemTask, held: Reservation) -> None:
        begun = asyncio.get_running_loop().time()
        try:
            done = await self._engine.run(work)
        except Exception as error:
            # a defect: what it cost is not known, so the item's start stays in the store, and its cap reserved
            self.stop(f"{type(error).__name__}: {error}")
            self._defect = self._defect or error
            self.progress.running -= 1
            return
        self.progress.took_s += asyncio.get_running_loop().time() - begun
        if done.stop:
            self.stop(done.error)
        self._budget.settle(held, done.tokens, done.cost)
        await self._finish(self._row(work, done))
        progress = self.progress
        progress.done += done.state == "done"
        progress.failed += done.state == "failed"
        progress.waiting += done.state == "waiting"
        progress.running -= 1
        progress.cost += done.cost
        progress.tokens += done.tokens
        progress.active_s += done.active_s
        self._changed(progress)

    async def _finish(self, row: ItemRow) -> None:
        """Store the end of an item. If that fails, nothing starts any more, and the end is stored with the last one if it can be: the
        item's start stays in the store, from which a later process charges it."""
        try:
            await self._store.finish(row, self._batch)
        except StoreError as error:
            self.stop(str(error))
            self._unwritten.append(row)

    async def _ended(self) -> None:
        while self._running:
            await asyncio.wait(self._running)
        unwritten, self._unwritten = self._unwritten, []
        for row in unwritten:
            await self._finish(row)
        if self._defect is not None:
            raise self._defect

    def _row(self, work: ItemTask, done: ItemResult) -> ItemRow:
        if work.rounds and done.state == "waiting":  # its next try reads the same replies
            done = replace(done, cost=0.0, tokens=0)
        return ItemRow(
            work.key,
            done.state,
            session=self._engine.session,
            agent=done.agent,
            cost=done.cost,
            tokens=done.tokens,
            active_s=done.active_s,
            result=done.result,
            error=done.error,
            receipt=done.receipt,
            branch=done.branch,
            charged=not work.rounds,
        )
