"""Long sessions: show, list and resume one of 10,000 and one of 100,000 events."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.measure import Bench, Case, Line, middle
from tests.benchmarks.oneshot import MESSAGES, settings
from tests.benchmarks.seed import make


def sessions(bench: Bench) -> Iterator[Line]:
    """Sessions of two sizes, each in a home of its own beside a hundred small ones."""
    for events in (10_000, 100_000):
        home = f"long-{events}"
        settings(bench, home)
        env = bench.environment(home=home)
        made = asyncio.run(make(bench.folder / home, bench.work, events))
        floor = raw_read(bench.folder / home / "data" / "friday.db", made)
        short = made[:8]
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


def many(bench: Bench) -> Iterator[Line]:
    """The last session of a folder that has ten or ten thousand: to continue it, and to show it."""
    cases = []
    for count in (10, 10_000):
        home = f"many-{count}"
        settings(bench, home)
        env = bench.environment(home=home)
        bench.run(Case("seed", bench.friday("ask", "-q", "-m", MESSAGES, "hi"), env))
        multiply(bench.folder / home / "data" / "friday.db", count)
        cases.append(Case(f"continue {count}", bench.friday("ask", "-q", "-m", MESSAGES, "-c", "go on"), env))
        cases.append(Case(f"show {count}", bench.friday("sessions", "show"), env))
    found = bench.compare(*cases)
    for name, words in (("continue", "ask -c to the first request"), ("show", "sessions show of the last one")):
        few, most = (
            1000
            * middle(found[f"{name} {count}"], (lambda s: s.first_s) if name == "continue" else (lambda s: s.wall_s))
            for count in (10, 10_000)
        )
        yield Line(f"{words}, 10,000 sessions", most, "ms", 1.1 * few, few, "with 10 sessions")


def multiply(path: Path, count: int) -> None:
    """Copy the only session of a file, as older ones of the same folder, until there are `count`."""
    with sqlite3.connect(path) as db:
        tables = {name: [row[1] for row in db.execute(f"PRAGMA table_info({name})")] for name in ("agents", "events")}
        for key in range(10, 10 + count - 1):
            db.execute(
                "INSERT INTO sessions SELECT :key, printf('%08x-0000-4000-8000-000000000000', :key), cwd, title, model,"
                " created - :key, updated - :key FROM sessions WHERE key = 1",
                {"key": key},
            )
            for table, columns in tables.items():
                others = ", ".join(columns[1:])
                db.execute(f"INSERT INTO {table} SELECT ?, {others} FROM {table} WHERE session = 1", (key,))


def raw_read(path: Path, session: str) -> float:
    """Seconds that SQLite alone takes to hand over a session's rows."""
    with sqlite3.connect(path) as db:
        begun = time.monotonic()
        query = "SELECT body FROM events WHERE session = (SELECT key FROM sessions WHERE id = ?) ORDER BY seq"
        assert len(db.execute(query, (session,)).fetchall()) > 1000
        return time.monotonic() - begun
