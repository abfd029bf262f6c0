"""Memory over long streaming: `python -m tests.benchmarks.tui.steady children|hour` prints it in the beginning and at the end.

The real app over a real session, whose log is given the events of agents; only the models are left out, and the waiting.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from friday_cli.core.eventlog.log import Log
from friday_cli.core.protocol.events import AgentFinished, AgentStarted, MessageAdded, TextDelta
from friday_cli.core.protocol.messages import Message, Text, user
from friday_cli.frontends.tui.app import FridayApp
from friday_cli.session.open_context import Options
from tests.benchmarks.oneshot import MESSAGES
from tests.benchmarks.standin import prose

WARM = 0.2
"""The part after which caches are full and the beginning is measured."""
AT_ONCE = 25
"""Events between two breaths."""


async def reply(log: Log, path: str, turn: int, tokens: int) -> None:
    """One reply, token by token."""
    words, at = prose(tokens), 0
    for number, word in enumerate(words):
        log.live(path, TextDelta(turn, 1, at, word))
        at += len(word)
        if number % AT_ONCE == 0:
            await asyncio.sleep(0.001)
    await log.emit(path, MessageAdded(Message("assistant", (Text("".join(words)),))))


async def children(log: Log) -> AsyncIterator[float]:
    """Fifty children, one after the other, 2,000 events each; gives the part that is done."""
    await log.emit("a", AgentStarted(1, "friday", "a long task", MESSAGES), MessageAdded(user("a long task")))
    for number in range(1, 51):
        path = f"a.{number}"
        await log.emit(path, AgentStarted(1, "researcher", f"part {number}", MESSAGES, "a", f"call-{number}"))
        for turn in range(1, 11):
            await reply(log, path, turn, 200)
        await log.emit(path, AgentFinished(1, "completed", "done", f"found {number}"))
        yield number / 50


async def hour(log: Log) -> AsyncIterator[float]:
    """Replies of 600 tokens for as many events as 50 a second are in an hour."""
    await log.emit("a", AgentStarted(1, "friday", "a long task", MESSAGES), MessageAdded(user("a long task")))
    for number in range(1, 301):
        await reply(log, "a", number, 600)
        yield number / 300


async def main(what: str) -> None:
    cwd = Path.cwd()
    app = FridayApp(lambda: Options(cwd, model="demo", attended=True), cwd=cwd)
    async with app.run_test(size=(120, 40)) as pilot:
        while app.controller.session is None:
            await pilot.pause(0.05)
        first = 0.0
        async for done in {"children": children, "hour": hour}[what](app.controller.session._log):
            if not first and done >= WARM:
                await asyncio.sleep(0.5)
                first = memory()
        await asyncio.sleep(0.5)
        print(json.dumps({"first": first, "last": memory()}))
        await app.controller.close()
        app.exit(0)


def memory() -> float:
    """MB in use when nothing is left to collect."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
