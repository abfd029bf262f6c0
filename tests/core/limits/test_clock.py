"""Active time: it runs while there is a reason to, and follows those who are waited for."""

from __future__ import annotations

import asyncio

import pytest

from friday_cli.core.limits.clock import LATE_S, TICK_S, Clock
from tests.virtual import VirtualLoop


async def held_up(seconds: float) -> None:
    """Like SIGSTOP and SIGCONT for a process: the time of the system continues and nothing runs."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.jump(seconds)


async def test_time_in_which_the_process_was_stopped_does_not_count() -> None:
    clock = Clock()
    clock.start()
    await asyncio.sleep(3.5)
    await held_up(600)
    assert 3.5 <= clock.elapsed <= 3.5 + TICK_S, "before any timer has rung"
    await asyncio.sleep(2)
    assert 5.5 <= clock.elapsed <= 5.5 + TICK_S
    await held_up(600)
    clock.stop()
    assert 5.5 <= clock.elapsed <= 5.5 + 2 * TICK_S


async def test_an_alarm_that_was_due_while_the_process_was_stopped_waits_for_its_time() -> None:
    clock, rung = Clock(), asyncio.Event()
    clock.start()
    clock.alarm(20, rung.set)
    await asyncio.sleep(10)
    await held_up(600)
    await asyncio.sleep(5)
    assert not rung.is_set()
    await asyncio.sleep(6)
    assert rung.is_set()


async def test_a_loop_that_is_only_busy_loses_no_time() -> None:
    clock = Clock()
    clock.start()
    for _ in range(10):
        await held_up(TICK_S + LATE_S / 2)
        await asyncio.sleep(0.5)
    assert clock.elapsed == pytest.approx(10 * (TICK_S + LATE_S / 2 + 0.5))


async def test_a_clock_started_twice_counts_once() -> None:
    clock = Clock()
    clock.start()
    await asyncio.sleep(2)
    clock.start()
    await asyncio.sleep(2)
    clock.stop()
    await asyncio.sleep(2)
    clock.stop()
    assert not clock.running
    assert clock.elapsed == 6


async def test_an_agent_that_waits_for_children_is_active_while_one_of_them_is() -> None:
    parent, one, two = Clock(), Clock(), Clock()
    with parent.following(one), parent.following(two):
        await asyncio.sleep(10)
        assert parent.elapsed == 0, "both children wait themselves"
        one.start()
        await asyncio.sleep(2)
        two.start()
        await asyncio.sleep(2)
        one.stop()
        await asyncio.sleep(2)
        two.stop()
        await asyncio.sleep(50)
        assert parent.elapsed == 6
        one.start()
    assert not parent.running, "what the child does afterwards is its own"
    await asyncio.sleep(5)
    assert (parent.elapsed, one.elapsed) == (6, 9)


async def test_the_alarm_rings_once_after_so_many_active_seconds() -> None:
    loop = asyncio.get_running_loop()
    rung: list[float] = []
    clock = Clock()
    clock.alarm(10, lambda: rung.append(loop.time()))
    await asyncio.sleep(30)
    assert rung == [], "it does not run"
    clock.start()
    await asyncio.sleep(6)
    clock.stop()
    await asyncio.sleep(100)
    clock.start()
    await asyncio.sleep(50)
    assert rung == [pytest.approx(140)]


async def test_a_silenced_alarm_does_not_ring_and_a_late_one_rings_at_once() -> None:
    rung: list[str] = []
    clock = Clock()
    clock.start()
    clock.alarm(5, lambda: rung.append("silenced"))
    await asyncio.sleep(1)
    clock.silence()
    await asyncio.sleep(10)
    clock.alarm(3, lambda: rung.append("late"))
    await asyncio.sleep(0.001)
    assert rung == ["late"]


async def test_a_parents_alarm_rings_in_the_time_of_its_child() -> None:
    loop = asyncio.get_running_loop()
    rung: list[float] = []
    parent, child = Clock(), Clock()
    parent.alarm(4, lambda: rung.append(loop.time()))
    with parent.following(child):
        await asyncio.sleep(20)
        child.start()
        await asyncio.sleep(20)
    assert rung == [pytest.approx(24)]
