"""Checks a suite without a model: each task must fail before, and pass with its reference, each time."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path

import msgspec

from friday_cli.config import Settings
from friday_cli.core.protocol.errors import FridayError
from friday_cli.core.text.sanitize import sanitize
from friday_cli.workspace.worktrees.git import Git

from .commands import CHECK_S, NOT_STARTED, ConfinedCommands
from .start import TaskStart
from .suite import Suite, Task

SHOWN = 300
"""Characters of a command's output that are shown."""


class TaskCheck(msgspec.Struct, frozen=True):
    """What was found of a `task`: how often its check failed `before` and passed `after` the reference, of `times`; `problem` if that is
    not right; `seconds` of one check; `started`: whether its program could be run."""

    task: Task
    before: int
    after: int
    times: int
    seconds: float = 0.0
    problem: str = ""
    started: bool = True


async def check_suite(
    suite: Suite,
    settings: Settings,
    env: Mapping[str, str],
    place: Path,
    *,
    times: int = 3,
    begun: Callable[[str], object],
) -> AsyncGenerator[TaskCheck, None]:
    """Check each task `times`, in the folder `place`; the results come in the order of the tasks. `begun` gets the name of each when its
    check begins. Raises FridayError where nothing can be run."""
    room = asyncio.Semaphore(min(4, os.cpu_count() or 1))
    commands = await ConfinedCommands.open(suite, place, settings, env)
    git = Git(env, (Path(os.getcwd()),))

    async def check(task: Task) -> TaskCheck:
        async with room:
            begun(task.name)
            return await _check(task, suite, place / task.name, commands, git, times)

    checks = [asyncio.create_task(check(task)) for task in suite.tasks]
    try:
        for running in checks:
            yield await running
    finally:
        for running in checks:
            running.cancel()
        await asyncio.gather(*checks, return_exceptions=True)
        await commands.close()


async def _check(task: Task, suite: Suite, folder: Path, commands: ConfinedCommands, git: Git, times: int) -> TaskCheck:
    counts, slowest, problem, runs = {"before": 0, "after": 0}, 0.0, "", True
    try:
        start = await TaskStart.make(task, suite, folder / "start", commands, git)
        for number in range(times):
            for when in ("before", "after"):
                copy = folder / f"{when}-{number}"
                await start.copy(copy)
                if when == "after":
                    await start.solve(copy)
                await asyncio.to_thread(start.put_hidden, copy)
                began = asyncio.get_running_loop().time()
                failed = await commands.first_failure(task.checks, copy, CHECK_S)
                slowest = max(slowest, asyncio.get_running_loop().time() - began)
                await asyncio.to_thread(shutil.rmtree, copy, ignore_errors=True)
                started = failed is None or failed[1].exit_code not in NOT_STARTED
                runs = runs and started
                counts[when] += (failed is not None and started) if when == "before" else failed is None
                if failed and (when == "after" or not started) and not problem:
                    problem = f"`{failed[0]}` {failed[1].how}: {sanitize(failed[1].output).strip()[-SHOWN:]}"
    except FridayError as error:
        problem = str(error)
    if not problem and counts["before"] < times:
        problem = "the check passes before anything is done"
    return TaskCheck(task, counts["before"], counts["after"], times, slowest, problem, started=runs)
