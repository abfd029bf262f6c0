"""The clock of a replay: seconds in which nothing happens pass faster, or at once."""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class ReplayLoop(asyncio.SelectorEventLoop):
    """An event loop whose `time` is that of the replay. While nothing is ready and no thread or child process works, `speed` seconds
    pass in one real second; None: they pass at once."""

    def __init__(self, speed: float | None = None) -> None:
        self.speed = speed
        self._now = 0.0
        self._threads = 0
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self._now

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        future = super().run_in_executor(executor, func, *args)
        self._threads += 1
        future.add_done_callback(self._thread_done)
        return future

    def _thread_done(self, future: object) -> None:
        self._threads -= 1

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Wait for the threads: a limit of `timeout` seconds (Python 3.12 and newer) would pass at once."""
        await super().shutdown_default_executor()

    def pass_time(self, select: Callable[[float | None], Any], timeout: float | None, *, busy: bool) -> Any:
        """Wait `timeout` seconds of the replay, or until `select` returns something."""
        if self.speed is None and not (busy or self._threads) and timeout is not None:
            self._now += timeout
            return []
        scale = 1.0 if busy or self._threads or self.speed is None else self.speed
        begun = time.monotonic()
        ready = select(None if timeout is None else timeout / scale)
        passed = (time.monotonic() - begun) * scale
        self._now += passed if timeout is None or ready else timeout
        return ready


class _Selector(selectors.DefaultSelector):
    def __init__(self, loop: ReplayLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        if (ready := super().select(0)) or (timeout is not None and timeout <= 0):
            return ready
        busy = len(self.get_map()) > 1  # more than what wakes the loop: a child process, for instance
        return self._loop.pass_time(super().select, timeout, busy=busy)


def run(main: Coroutine[Any, Any, T], speed: float | None = None) -> T:
    """Run `main` with the clock of a replay."""
    with asyncio.Runner(loop_factory=lambda: ReplayLoop(speed)) as runner:
        return runner.run(main)
