from __future__ import annotations

import asyncio
import threading
import time

import pytest

from friday_cli.system import event_loop


def test_all_work_is_done_by_the_first_thread_where_no_more_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def slow() -> int:
        time.sleep(0.01)
        return 1

    async def work() -> list[int]:
        await asyncio.to_thread(int)
        monkeypatch.setattr(threading.Thread, "start", refuses)
        return await asyncio.gather(*(asyncio.to_thread(slow) for _ in range(3)))

    assert event_loop.run(work()) == [1, 1, 1]


def test_a_defect_of_the_work_is_not_taken_for_the_end_of_the_loop() -> None:
    async def work() -> None:
        raise RuntimeError("can't start new thread")

    with pytest.raises(RuntimeError):
        event_loop.run(work())
