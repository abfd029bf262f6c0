"""Sessions without a terminal: what fifty of them cost, and how soon a person sees one and what it asks."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from tests.benchmarks.measure import Bench, Case, Line, cpu_ratio, middle
from tests.benchmarks.oneshot import MESSAGES, milliseconds
from tests.benchmarks.seed import make
from tests.benchmarks.tui.terminal import TICKS, Terminal

HOME, OWNERS, REST_S, ROUNDS = "fleet", 50, 10.0, 5


def fleet(bench: Bench) -> Iterator[Line]:
    """Owners that wait for an answer, and one that streams."""
    model, env = asks(bench, "touch made"), bench.environment(home=HOME)
    owners: list[int] = []
    try:
        waits = [begin(bench, model, f"task {number}") for number in range(OWNERS)]
        yield Line("`ask -b` returns after its first event", 1000 * statistics.median(waits), "ms", 250.0, fixed=True)
        while len(rows := listed(bench, "needs you")) < OWNERS:
            time.sleep(0.5)
        owners = [row["pid"] for row in rows]
        yield Line(f"memory of each of {OWNERS} (its share)", statistics.mean(map(share_mb, owners)), "MB", 55.0)
        before = sum(map(cpu_s, owners))
        time.sleep(REST_S)
        yield Line(f"processor of all {OWNERS} at rest", 100 * (sum(map(cpu_s, owners)) - before) / REST_S, "%", 2.0)
        found = bench.compare(
            Case("list", bench.friday("agents", "--json"), env), Case("help", bench.friday("--help"), env)
        )
        times = [1000 * middle(found[name], lambda s: s.wall_s) for name in ("list", "help")]
        yield Line(f"friday agents --json, {OWNERS} sessions", times[0], "ms", 300.0, times[1], "--help", fixed=True)
        ask = bench.friday("ask", "-q", "-m", MESSAGES, "hi")
        asked = bench.compare(Case("beside", ask, env), Case("alone", ask, bench.environment(home="alone")))
        alone, name = milliseconds(asked["alone"]), f"ask, messages, with {OWNERS} sessions without a terminal"
        cpu = cpu_ratio(asked["beside"], asked["alone"])
        yield Line(name, milliseconds(asked["beside"]), "ms", 1.02 * alone, alone, "a home without them", cpu=cpu)
        screens, questions, chats = [], [], []
        for number in range(ROUNDS):
            with Terminal(bench.friday("agents"), env, bench.work) as terminal:
                screens.append(terminal.until("needs you") - terminal.begun)
                argv = bench.friday("ask", "-b", "-m", asks(bench, f"touch new{number}"), "another")
                subprocess.Popen(argv, env=env, cwd=bench.work, stdout=subprocess.DEVNULL)
                shown = terminal.until(f"touch new{number}") - time.monotonic() + time.time()
                ((at,),) = query(bench, "SELECT max(at) FROM events WHERE kind = 'permission_asked'")
                questions.append(shown - float(at))
            chats.append(attached(bench, rows[number]["id"], "touch made"))
        yield Line("friday agents: first picture", statistics.median(screens), "s", 0.3, fixed=True)
        yield Line("from a question to its row on that screen", statistics.median(questions), "s", 0.5, fixed=True)
        yield Line("friday attach: the question on the screen", statistics.median(chats), "s", 0.6, fixed=True)
        long = asyncio.run(make(bench.folder / HOME, bench.work, 30_000))
        again = bench.friday("ask", "-b", "-m", asks(bench, "touch last"), "-r", long, "go on")
        subprocess.run(again, env=env, cwd=bench.work, check=True, stdout=subprocess.DEVNULL)
        first = statistics.median(attached(bench, long, "touch last") for _ in range(ROUNDS))
        yield Line("friday attach: the same after 10,000 messages", first, "s", 0.6, fixed=True)
        rate = bench.module("fleet", env=bench.environment("drip-20-500-8", home=HOME))
        yield Line("events that an attached frontend gets, 20 children", rate["rate"], "/s")
        owners.append(rate["pid"])
    finally:
        for pid in {*owners, *(row["pid"] for row in listed(bench, "needs you"))}:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def attached(bench: Bench, session: str, words: str) -> float:
    """The seconds until a chat that attaches to a session shows these words."""
    with Terminal(bench.friday("attach", session), bench.environment(home=HOME), bench.work) as terminal:
        return terminal.until(words) - terminal.begun


def asks(bench: Bench, command: str) -> str:
    """A model that wants to run a command, which needs a permission."""
    scenario = bench.folder / f"{command.replace(' ', '-')}.json"
    scenario.write_text(
        json.dumps({"agents": {"a": [{"calls": [{"name": "bash", "arguments": {"command": command}}]}]}})
    )
    return f"scripted:{scenario}"


def begin(bench: Bench, model: str, task: str) -> float:
    """Start an owner; gives the seconds from its first event to the return of the command."""
    argv = bench.friday("ask", "-b", "-m", model, task)
    subprocess.run(argv, env=bench.environment(home=HOME), cwd=bench.work, check=True, stdout=subprocess.DEVNULL)
    now = time.time()
    return now - max(float(value) for (value,) in query(bench, "SELECT at FROM events WHERE seq = 1"))


def listed(bench: Bench, state: str) -> list[dict[str, Any]]:
    """The sessions in a state, as `friday agents --json` has them."""
    argv = bench.friday("agents", "--json")
    ran = subprocess.run(argv, env=bench.environment(home=HOME), cwd=bench.work, check=True, stdout=subprocess.PIPE)
    return [row for row in json.loads(ran.stdout) if row["state"] == state]


def query(bench: Bench, text: str) -> list[tuple[Any, ...]]:
    """Rows of the session file."""
    with closing(sqlite3.connect(bench.folder / HOME / "data" / "friday.db")) as db:
        return db.execute(text).fetchall()


def share_mb(pid: int) -> float:
    """Memory of a process, where pages that several have are divided among them."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(rollup.partition("\nPss:")[2].split()[0]) / 1024


def cpu_s(pid: int) -> float:
    """Processor seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def main() -> None:
    """Attach to a session whose children stream, and count its events for some seconds."""
    from friday_cli.session.fleet import fleet as sessions
    from friday_cli.system.paths import store_path

    argv = [sys.executable, "-m", "friday_cli", "ask", "-b", "--yolo", "-m", MESSAGES, "delegate"]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    row = next(row for row in sessions(store_path()) if row.title == "delegate")
    print(json.dumps({"rate": asyncio.run(_rate(row.id)), "pid": row.pid}), flush=True)


async def _rate(session: str) -> float:
    """Events in a second, of four, from the first of a sub-agent on."""
    from friday_cli.session.remote import RemoteSession

    remote = await RemoteSession.connect(session)
    assert remote is not None
    count, begun = 0, 0.0
    async for envelope in remote.events():
        if envelope.agent.startswith("a.") and not begun:
            begun = time.monotonic()
        count += bool(begun)
        if begun and time.monotonic() - begun > 4:
            break
    await remote.close()
    return count / 4


if __name__ == "__main__":
    main()
