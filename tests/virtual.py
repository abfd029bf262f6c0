"""An event loop whose clock jumps to the next timer as soon as nothing is ready: hours pass in milliseconds."""

from __future__ import annotations

import asyncio
import functools
import io
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

MOST_S = 1_000_000.0
"""Virtual seconds after which a test counts as deadlocked."""
MOST_ROUNDS = 50_000
"""Rounds of the loop without time passing, after which a test counts as an endless loop."""


class Stuck(Exception):
    """A deadlock or an endless loop. The text has the stack of each task."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """`time()` is virtual seconds from 0. It does not advance while a thread of `to_thread` runs; sockets are not awaited."""

    def __init__(self) -> None:
        self._virtual = 0.0
        self.threads = 0
        self._rounds = 0
        super().__init__(_Jump(self))

    def time(self) -> float:
        return self._virtual

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        future = super().run_in_executor(executor, func, *args)
        self.threads += 1
        future.add_done_callback(self._thread_done)
        return future

    def _thread_done(self, future: object) -> None:
        self.threads -= 1

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Join the threads without the clock."""
        if self._default_executor is not None:  # type: ignore[attr-defined]
            self._default_executor.shutdown(wait=True)  # type: ignore[attr-defined]

    def jump(self, seconds: float | None) -> None:
        """Advance the clock by the time that asyncio would have slept."""
        self._rounds = 0 if seconds else self._rounds + 1
        if seconds is None or self._virtual > MOST_S or self._rounds > MOST_ROUNDS:
            self._rounds = 0
            raise Stuck(f"at {self._virtual:.3f} s\n{_stacks(self)}")
        self._virtual += seconds


class _Jump(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        if ready := super().select(0):
            return ready
        if self._loop.threads and (timeout is None or timeout > 0):
            return super().select(None)  # a thread that ends wakes the loop
        self._loop.jump(timeout if timeout is None else max(0.0, timeout))
        return []


def _stacks(loop: asyncio.AbstractEventLoop) -> str:
    out = io.StringIO()
    for task in asyncio.all_tasks(loop):
        out.write(f"{task.get_name()}:\n")
        task.print_stack(limit=6, file=out)
    return out.getvalue()


def run(main: Coroutine[Any, Any, T], *, eager: bool = False) -> T:
    """Run `main` on a loop of its own with a virtual clock. With `eager`, tasks begin when they are made, as in the chat
    (Textual); Python 3.12 or newer."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        if eager:
            runner.get_loop().set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]
        return runner.run(main)


def virtual(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test function that runs on a virtual clock."""

    @functools.wraps(test)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        run(test(*args, **kwargs))

    return wrapper
