"""Stopping tasks."""

from __future__ import annotations

import asyncio


def stop(task: asyncio.Task[object]) -> None:
    """Cancel a task, at most once, so that a second stop cannot interrupt its clean-up. Tasks are cancelled only here."""
    if not task.done() and not task.cancelling():
        task.cancel()


def being_stopped() -> bool:
    """Whether the current task was cancelled, also when it caught that."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
