from __future__ import annotations

import asyncio

import pytest

from friday_cli.llm.transport.idle_timeout import SUSPENDED_S, IdleTimeout, StreamIdle
from tests.virtual import virtual


@virtual
async def test_silence_ends_the_wait_and_only_that() -> None:
    watch = IdleTimeout(0.02, 10)
    with pytest.raises(StreamIdle) as caught, watch.waiting():
        await asyncio.Event().wait()
    assert (caught.value.what, caught.value.seconds) == ("bytes", 0.02)
    watch.close()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)


@virtual
async def test_bytes_without_events_end_it_too() -> None:
    watch = IdleTimeout(0.02, 0.05)

    async def drip() -> None:
        while True:
            with watch.waiting():
                await asyncio.sleep(0.005)

    with pytest.raises(StreamIdle) as caught:
        await drip()
    assert caught.value.what == "events"
    watch.close()


@virtual
async def test_events_keep_it_alive() -> None:
    watch = IdleTimeout(10, 0.05)
    for _ in range(30):
        with watch.waiting():
            await asyncio.sleep(0.005)
        watch.event()
    watch.close()


@virtual
async def test_a_slow_reader_is_not_a_silent_service() -> None:
    watch = IdleTimeout(0.05, 0.05)
    with watch.waiting():
        await asyncio.sleep(0)
    await asyncio.sleep(0.1)
    with watch.waiting():
        await asyncio.sleep(0.01)
    watch.close()


@virtual
async def test_a_cancel_from_outside_stays_a_cancel() -> None:
    async def wait() -> None:
        watch = IdleTimeout(10, 10)
        try:
            with watch.waiting():
                await asyncio.Event().wait()
        finally:
            watch.close()

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@virtual
async def test_time_the_process_slept_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    offset, real = 0.0, loop.time
    monkeypatch.setattr(loop, "time", lambda: real() + offset)
    watch = IdleTimeout(60, 60)
    arrived = asyncio.Event()

    async def wait() -> str:
        with watch.waiting():
            await arrived.wait()
        return "read"

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    offset = 60 + SUSPENDED_S + 600  # as after SIGSTOP and SIGCONT: the timer is long overdue, the bytes are there
    for _ in range(5):
        await asyncio.sleep(0)
    arrived.set()
    assert await task == "read"
    watch.close()
