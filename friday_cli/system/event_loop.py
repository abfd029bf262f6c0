"""Runs the event loop of a program, also where the system starts no more threads (`ulimit -u`)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from friday_cli.core.protocol.errors import is_process_limit

CLOSE_S = 5.0
"""Seconds that threads are waited for at the end of the event loop."""
T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, with `Threads`. `asyncio` ends them from one more thread; without it the result is returned all the same."""
    results: list[T] = []

    async def main() -> None:
        asyncio.get_running_loop().set_default_executor(Threads())
        results.append(await work)

    try:
        asyncio.run(main())
    except RuntimeError as error:
        if not (results and is_process_limit(error)):
            raise
    return results[0]


class Threads(ThreadPoolExecutor):
    """The threads of `asyncio.to_thread`, for which the end of the loop waits `CLOSE_S` seconds only. One is started at once: it does
    the work of all where the system starts no more later, so that what was begun is ended, saved and shown."""

    def __init__(self) -> None:
        super().__init__(32, "asyncio")
        self.submit(int)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait=False, cancel_futures=cancel_futures)
        until = time.monotonic() + CLOSE_S
        for thread in self._threads if wait else ():
            thread.join(max(0.0, until - time.monotonic()))

    def _adjust_thread_count(self) -> None:
        try:
            super()._adjust_thread_count()
        except RuntimeError:
            if not self._threads:
                raise
