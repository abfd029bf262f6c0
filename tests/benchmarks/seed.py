"""Writes long sessions for `history`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from friday_cli.core.protocol.events import (
    SCHEMA,
    AgentFinished,
    AgentStarted,
    Envelope,
    MessageAdded,
    Prefix,
    SessionStarted,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from friday_cli.core.protocol.messages import Message, Text, ToolCall, ToolResult, Usage, user
from friday_cli.store.store import Store
from tests.benchmarks.oneshot import MESSAGES

CHILDREN = 100
USAGE = Usage(input=900, output=60, cache_read=4000)

Happening = tuple[str, Any]
"""The path of an agent and an event of it."""


def everything(session: str, cwd: Path, events: int) -> Iterator[Happening]:
    """About `events` events: a root with a hundred children that read files."""
    yield "a", SessionStarted(SCHEMA, session, str(cwd), "0")
    yield "a", AgentStarted(1, "friday", "a long task", MESSAGES)
    yield "a", Prefix(MESSAGES, "You are Friday.", ())
    yield "a", MessageAdded(user("a long task"))
    each = max(1, (events // (CHILDREN + 1) - 4) // 6)
    for number in range(1, CHILDREN + 1):
        path = f"a.{number}"
        yield path, AgentStarted(1, "researcher", f"part {number}", MESSAGES, "a", f"call-{number}")
        yield path, MessageAdded(user(f"part {number}", source="parent"))
        yield from turns(path, each)
        yield path, AgentFinished(1, "completed", "done", f"found {number}", usage=USAGE, tree_usage=USAGE)
    yield from turns("a", each)
    yield "a", MessageAdded(Message("assistant", (Text("All is done."),)))
    yield "a", AgentFinished(1, "completed", "done", "All is done.", usage=USAGE, tree_usage=USAGE)


def turns(agent: str, count: int) -> Iterator[Happening]:
    """Turns that read a file each."""
    for turn in range(1, count + 1):
        call = ToolCall(f"{agent}-{turn}", "read_file", {"path": f"src/module_{turn}.py", "limit": 40})
        text = "".join(f"{n:>5}\tvalue_{n} = compute({n}, {turn})\n" for n in range(20))
        yield agent, TurnStarted(turn)
        yield agent, MessageAdded(Message("assistant", (Text("I look at the next file."), call)))
        yield agent, ToolStarted(call.id, "read_file", call.arguments["path"])
        yield agent, ToolFinished(call.id, "read_file", "ok", 0.002)
        yield agent, MessageAdded(Message("tool", (ToolResult(call.id, text),), "harness"))
        yield agent, TurnFinished(turn, USAGE, "tool_use", 5000)


async def make(home: Path, cwd: Path, events: int) -> str:
    """Write a hundred small sessions and a long one; returns the id of the long one."""
    store = Store(home / "data" / "friday.db")
    for number in range(100):
        small = await store.create_session(cwd, title=f"small {number}")
        started = AgentStarted(1, "friday", f"small {number}", MESSAGES)
        few = (started, MessageAdded(user("hi")), AgentFinished(1, "completed", "done"))
        await keep(store, small, [("a", event) for event in few])
    session = await store.create_session(cwd)
    await keep(store, session, everything(session, cwd, events))
    await store.close()
    return session


async def keep(store: Store, session: str, happenings: Iterable[Happening]) -> None:
    """Write events the way the engine does, many at a time."""
    numbered = (Envelope(seq, time.time(), agent, event) for seq, (agent, event) in enumerate(happenings, 1))
    with await store.own(session):
        while batch := list(islice(numbered, 5000)):
            await store.journal(session).append(batch)
