"""What `Scheduler` does where the work of an item ends in a defect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from friday_cli.core.limits.budget import Budget
from friday_cli.map.caps import Cap
from friday_cli.map.engine import ItemResult, ItemTask
from friday_cli.map.job import MapJob
from friday_cli.map.scheduler import Scheduler
from tests.map.simulation import NoStore


class _Engine:
    """The second item ends in a defect while the third one works."""

    session = "s"

    def __init__(self) -> None:
        self.failed = asyncio.Event()
        self.ran: list[str] = []

    async def run(self, work: ItemTask) -> ItemResult:
        self.ran.append(work.key)
        if work.key == "1":
            self.failed.set()
            raise RuntimeError("can't start new thread")
        if work.key == "2":
            await self.failed.wait()
            await asyncio.sleep(0)
        return ItemResult("done", cost=0.01)


async def test_a_defect_ends_the_batch_after_what_runs_is_stored_and_its_cap_stays_reserved() -> None:
    async def works() -> AsyncIterator[ItemTask]:
        for number in range(20):
            yield ItemTask(str(number), "worker", "", Cap(0.1), Cap(0.1))

    store, engine, budget = NoStore(), _Engine(), Budget("batch", cost=1.0)
    job = MapJob("", "worker", "list", "", "", 1.0, parallel=2)
    scheduler = Scheduler(job, store, engine, budget, changed=lambda progress: None)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="new thread"):
        await scheduler.run(works())
    assert "new thread" in scheduler.reason
    assert store.states == {"done": len(engine.ran) - 1}
    assert len(engine.ran) < 5
    assert scheduler.progress.running == 0
    assert budget.free.cost == pytest.approx(1.0 - 0.1 - 0.01 * (len(engine.ran) - 1))
