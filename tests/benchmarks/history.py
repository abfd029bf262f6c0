"""Long sessions: showing, listing and resuming one of 100,000 events, and of ten times less."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from .measure import PROJECT, Bench, Case, Line, middle
from .oneshot import MESSAGES, settings


def sessions(bench: Bench) -> Iterator[Line]:
    """Sessions of two sizes, each in a home of its own beside a hundred small ones."""
    for events in (10_000, 100_000):
        home = f"long-{events}"
        settings(bench, home)
        env = bench.environment(home=home)
        argv = [
            sys.executable,
            "-m",
            "tests.benchmarks.history",
            str(bench.folder / home),
            str(bench.work),
            str(events),
        ]
        made = json.loads(subprocess.run(argv, cwd=PROJECT, check=True, capture_output=True, text=True).stdout)
        floor = raw_read(bench.folder / home / "data" / "friday.db", made["id"])
        short = made["id"][:8]
        cases = {
            "show": (bench.friday("sessions", "show", short), 1.0),
            "show --tree": (bench.friday("sessions", "show", short, "--tree"), 1.0),
            "show of one agent": (bench.friday("sessions", "show", f"{short}:a.1"), 1.0),
            "list": (bench.friday("sessions", "list"), 0.1),
            "resume": (bench.friday("ask", "-q", "-m", MESSAGES, "-r", short, "go on"), 1.0),
        }
        found = bench.compare(*(Case(n, argv, env) for n, (argv, _) in cases.items()), repeat=min(3, bench.repeat))
        for name, (_, goal) in cases.items():
            value = middle(found[name], (lambda s: s.first_s) if name == "resume" else (lambda s: s.wall_s))
            least = floor if name in ("show", "show --tree", "resume") else None
            yield Line(
                f"{name}, {events:,} events", value, "s", goal, least, "reading the rows" if least else "", fixed=True
            )


def raw_read(path: Path, session: str) -> float:
    """Seconds that SQLite alone takes to hand over a session's rows."""
    with sqlite3.connect(path) as db:
        begun = time.monotonic()
        query = "SELECT body FROM events WHERE session = (SELECT key FROM sessions WHERE id = ?) ORDER BY seq"
        assert len(db.execute(query, (session,)).fetchall()) > 1000
        return time.monotonic() - begun


async def make(home: Path, cwd: Path, events: int) -> str:
    """Write a session of about `events` events: a root with a hundred children that read files; gives its id."""
    from friday_cli.core.events import (
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
    )  # fmt: skip
    from friday_cli.core.messages import Message, Text, ToolCall, ToolResult, Usage, user
    from friday_cli.store import Store

    store = Store(home / "data" / "friday.db")
    for number in range(100):
        small = await store.create_session(cwd, title=f"small {number}")
        log = [
            AgentStarted(1, "friday", f"small {number}", MESSAGES),
            MessageAdded(user("hi")),
            AgentFinished(1, "completed", "done"),
        ]
        with await store.own(small):
            await store.journal(small).append([Envelope(i, time.time(), "a", e) for i, e in enumerate(log, 1)])
    session = await store.create_session(cwd)
    usage = Usage(input=900, output=60, cache_read=4000)
    seq, children = 0, 100

    def turns(agent: str, count: int) -> Iterator[tuple[str, object]]:
        for turn in range(1, count + 1):
            call = ToolCall(f"{agent}-{turn}", "read_file", {"path": f"src/module_{turn}.py", "limit": 40})
            yield agent, TurnStarted(turn)
            yield agent, MessageAdded(Message("assistant", (Text("I look at the next file."), call)))
            yield agent, ToolStarted(call.id, "read_file", call.arguments["path"])
            yield agent, ToolFinished(call.id, "read_file", "ok", 0.002)
            text = "".join(f"{n:>5}\tvalue_{n} = compute({n}, {turn})\n" for n in range(20))
            yield agent, MessageAdded(Message("tool", (ToolResult(call.id, text),), "harness"))
            yield agent, TurnFinished(turn, usage, "tool_use", 5000)

    def everything() -> Iterator[tuple[str, object]]:
        yield "a", SessionStarted(SCHEMA, session, str(cwd), "0")
        yield "a", AgentStarted(1, "friday", "a long task", MESSAGES)
        yield "a", Prefix(MESSAGES, "You are Friday.", ())
        yield "a", MessageAdded(user("a long task"))
        each = max(1, (events // (children + 1) - 4) // 6)
        for number in range(1, children + 1):
            path = f"a.{number}"
            yield path, AgentStarted(1, "researcher", f"part {number}", MESSAGES, "a", f"call-{number}")
            yield path, MessageAdded(user(f"part {number}", source="parent"))
            yield from turns(path, each)
            yield path, AgentFinished(1, "completed", "done", f"found {number}", usage=usage, tree_usage=usage)
        yield from turns("a", each)
        yield "a", MessageAdded(Message("assistant", (Text("All is done."),)))
        yield "a", AgentFinished(1, "completed", "done", "All is done.", usage=usage, tree_usage=usage)

    with await store.own(session):
        journal, batch = store.journal(session), []
        for agent, event in everything():
            seq += 1
            batch.append(Envelope(seq, time.time(), agent, event))  # type: ignore[arg-type]
            if len(batch) == 5000:
                await journal.append(batch)
                batch = []
        await journal.append(batch)
    await store.close()
    return session


if __name__ == "__main__":
    print(json.dumps({"id": asyncio.run(make(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))}))
