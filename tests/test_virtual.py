"""The virtual clock of tests: it jumps, keeps the order of timers, and detects deadlocks."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.virtual import Stuck, run


def test_hours_pass_in_no_time_and_timers_ring_in_order() -> None:
    async def main() -> list[float]:
        loop, rung = asyncio.get_running_loop(), []

        async def ring(after: float) -> None:
            await asyncio.sleep(after)
            rung.append(loop.time())

        await asyncio.gather(*(ring(s) for s in (7200.0, 0.5, 36.0)))
        return rung

    begun = time.process_time()
    assert run(main()) == [0.5, 36.0, 7200.0]
    assert time.process_time() - begun < 5


def test_a_deadlock_is_an_error_that_names_who_waits() -> None:
    async def waits_for_ever() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Stuck, match="waits_for_ever"):
        run(waits_for_ever())


def test_running_in_circles_is_an_error() -> None:
    async def turns() -> None:
        while True:  # noqa: ASYNC110 - that is the point
            await asyncio.sleep(0)

    with pytest.raises(Stuck):
        run(turns())
