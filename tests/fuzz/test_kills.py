"""Real kills: sessions with the SQLite store are killed with SIGKILL at any point, and the next process resumes them."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from friday_cli.core.eventlog.replay import replay
from friday_cli.core.protocol.events import (
    AgentFinished,
    AgentStarted,
    Envelope,
    InboxMessage,
    MessageAdded,
    ToolFinished,
    ToolStarted,
)
from friday_cli.core.protocol.limits import Limits
from friday_cli.core.protocol.messages import Message, open_calls
from friday_cli.session.open_context import Options
from friday_cli.session.session import Session
from friday_cli.store.store import Store
from friday_cli.system.paths import store_path
from friday_cli.workspace.worktrees.orphans import scan_orphans
from tests.fuzz import seeds
from tests.fuzz.checks import asked_and_ended
from tests.fuzz.victims import LINGERS
from tests.strict import strict
from tests.workspace.worktrees.repo_fixture import git, repository

ROOT = Path(__file__).parents[2]
PARTS, VICTIMS = 2 * seeds.TIMES, 13
ROUNDS = 4
LEAST = {
    "killed and reopened": VICTIMS // 2, "interrupted": VICTIMS // 2, "behind it": VICTIMS // 5,
    "children continued": VICTIMS // 5, "worktrees": 2, "results kept from a death": 1,
}  # fmt: skip
"""What a part must reach to prove anything."""
GOES_ON = {"agents": {"*": [{"text": "I go on from there."}]}}


def kill_some(folder: Path, first: int, patience: float) -> None:
    """Play the victims in processes of their own."""
    env = {**os.environ, "FRIDAY_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.fuzz.victims", str(folder), str(first), str(VICTIMS), str(patience)]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def torn(folder: Path) -> list[str]:
    """Files of the project that are neither as they were nor as an agent wrote them. What a killed write left beside is hidden."""
    files = [file for file in (folder / "project").rglob("*.txt") if not file.name.startswith(".")]
    return [file.name for file in files if file.read_text() not in ("x", "x" * 10, "x" * 10_000)]


def survivors(folder: Path) -> list[str]:
    """Commands of the dead that still run in `folder` after the time in which they must be ended."""
    deadline = time.monotonic() + 60  # 2 s are promised; the machine may be busy
    while (found := _commands(folder)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def _commands(folder: Path) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink().is_relative_to(folder) and (words := (process / "cmdline").read_bytes()):
                found.append(words.replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue  # ended meanwhile, or not ours to look at
    return [words for words in found if words.split()[-1] in LINGERS]


def acknowledged(folder: Path, seed: int) -> tuple[str, int]:
    """The session of a victim and the last event it was shown; "" when it died before it had one."""
    lines = (folder / f"acks-{seed}").read_text().splitlines()
    return (lines[0], int(lines[-1]) if len(lines) > 1 else 0) if lines else ("", 0)


def ends(log: list[Envelope]) -> dict[tuple[str, int], AgentFinished]:
    return {(e.agent, e.event.run): e.event for e in log if isinstance(e.event, AgentFinished)}


def starts(log: list[Envelope]) -> Counter[str]:
    return Counter(e.agent for e in log if isinstance(e.event, AgentStarted))


def spoken(log: list[Envelope], path: str) -> list[str]:
    """What an agent said in its newest run."""
    newest = max(n for n, e in enumerate(log) if e.agent == path and isinstance(e.event, AgentStarted))
    added = [e.event.message for e in log[newest:] if e.agent == path and isinstance(e.event, MessageAdded)]
    return [message.text for message in added if message.role == "assistant" and message.text]


async def left(session_id: str) -> list[Envelope]:
    """The log of a session as its dead process left it."""
    store = Store(store_path())
    try:
        return await store.events(session_id)
    finally:
        await store.close()


async def goes_on(
    folder: Path, session_id: str, before: list[Envelope], shown: int, reached: Counter[str]
) -> list[str]:
    """Open what a dead process left and ask it something: what is wrong with that, in words."""
    faults = [] if len(before) >= shown else [f"{shown} events were shown, {len(before)} are kept"]
    if [e.seq for e in before] != list(range(1, len(before) + 1)):
        faults.append("the numbers have gaps")
    for path, record in replay(before).items():
        faults += [f"history of {path} as it was left: {f}" for f in (strict(record.history) if record.history else [])]

    file = folder / "goes-on.json"
    file.write_text(json.dumps(GOES_ON))
    session = await Session.open(
        Options(folder / "project", model=f"scripted:{file}", resume=session_id, attended=True, mode="yolo")
    )
    outcome = await session.prompt("where were we?")
    if (outcome.status, outcome.text) != ("completed", "I go on from there."):
        faults.append(f"it does not go on: {outcome}")
    faults += lost_results(before, session._main.agent.conversation.history, reached)
    again = random.choice([*{path for path in replay(before) if path != "a"}, ""])
    if again:
        outcome = await session.result(await session.start_agent(again, "go on with yours", limits=Limits(50_000)))
        reached["children continued"] += 1
        if (outcome.status, outcome.text) != ("completed", "I go on from there."):
            faults.append(f"{again} does not go on: {outcome}")
    await session.close()

    store = Store(store_path())
    after = await store.events(session_id)
    if await store.reconcile():
        faults.append("something was left to reconcile")
    await store.close()
    if after[: len(before)] != before:
        faults.append("what was written before the death was changed")
    return faults + compare(before, after, reached, again) + news(before, after, reached)


def lost_results(before: list[Envelope], history: list[Message], reached: Counter[str]) -> list[str]:
    """Results of calls and of finished children in the turn that the death cut, which the root's model does not read now."""
    said = [e.event.message for e in before if e.agent == "a" and isinstance(e.event, MessageAdded)]
    open_ = {call.id for call in open_calls(said)}
    ran = {e.event.call_id: e.event.text or "" for e in before if e.agent == "a" and isinstance(e.event, ToolFinished)}
    known = [text for call_id, text in ran.items() if call_id in open_]
    asked: dict[str, str] = {}
    for e in before:
        if isinstance(e.event, AgentStarted):
            asked[e.agent] = e.event.call_id if e.event.parent == "a" else ""
        elif isinstance(e.event, AgentFinished) and asked[e.agent] in open_:
            known.append(f"(a.{e.agent[2:]}): {e.event.status}")
            known += e.event.result.splitlines()[-1:]
    reached["results kept from a death"] += len(known)
    read = "\n".join(result.text for message in history for result in message.results)
    return [f"lost to the model: {text:.80}" for text in known if text not in read]


def news(before: list[Envelope], after: list[Envelope], reached: Counter[str]) -> list[str]:
    """What the root was told of children behind its back joins its history once, read before the death or after it, and also
    that of which the death kept anybody from telling."""
    told = [e.event.text for e in before if e.agent == "a" and isinstance(e.event, InboxMessage)]
    joined = [e.event.message.text for e in after if e.agent == "a" and isinstance(e.event, MessageAdded)]
    reached["news"] += len(told)
    reached["behind it"] += sum(e.event.background for e in before if isinstance(e.event, AgentStarted))
    untold = [news.text for record in replay(before).values() for news in record.unreported]
    reached["news kept from a death"] += len(untold)
    return [
        f"news were read {joined.count(text)} times: {text[:80]}"
        for text in (*told, *untold)
        if joined.count(text) != 1
    ]


def compare(before: list[Envelope], after: list[Envelope], reached: Counter[str], again: str) -> list[str]:
    """What was finished stays and is not run again; what was open is interrupted; questions are closed."""
    faults = asked_and_ended(after)
    done, now = ends(before), ends(after)
    if any(now.get(run) != end for run, end in done.items()):
        faults.append("a finished agent ended once more")
    for path, count in starts(before).items():
        if starts(after)[path] != count + (path in ("a", again)):
            faults.append(f"{path} was run again")
        for run in range(1, count + 1):
            end = now.get((path, run))
            if end is None:
                faults.append(f"{path} has no end")
            elif (path, run) not in done:
                reached["interrupted"] += 1
                if (end.status, end.stop_reason) != ("interrupted", "process"):
                    faults.append(f"{path} was open and is {end.status}, {end.stop_reason}")
                said = spoken(before, path)
                if said and said[-1] not in end.result:
                    faults.append(f"{path} lost what it said")
    records = replay(after)
    faults += [f"history of {path}: {f}" for path, r in records.items() if r.history for f in strict(r.history)]
    reached["finished children kept"] += sum(path != "a" for path, _ in done)
    reached["open questions"] += sum(len(r.asks) for r in replay(before).values())
    return faults


async def worktrees(folder: Path, reached: Counter[str]) -> list[str]:
    """No work in a worktree is lost, none is left without an agent, and git lists the same ones as Friday."""
    records = []
    store = Store(store_path())
    for session in await store.list_sessions():
        records += [r for r in replay(await store.events(session.id)).values() if r.worktree]
    found = await scan_orphans(folder / "home" / "data" / "worktrees", store.own, os.environ)
    await store.close()
    left = {str(one.worktree.folder): one.worktree for one in found.left}
    listed = {
        line[9:]
        for line in git(folder / "project", "worktree", "list", "--porcelain").splitlines()
        if line.startswith("worktree ")
    }
    branches = set(git(folder / "project", "for-each-ref", "--format=%(refname:short)", "refs/heads/friday/").split())
    states = {r.worktree.folder: r.worktree.state for r in records if r.worktree}
    reached["worktrees"] += len(states)
    reached["worktrees with work"] += len(left)
    reached["worktrees applied"] += sum(state == "applied" for state in states.values())
    faults = [f"{name} is left, and git does not know it" for name in left if name not in listed]
    faults += [
        f"git knows {name}, and it is none of ours" for name in listed - left.keys() if name != str(folder / "project")
    ]
    faults += [f"the branch {name} is left" for name in branches - {one.metadata.branch for one in left.values()}]
    faults += [
        f"{name} was {state}, and is gone" for name, state in states.items() if state == "changed" and name not in left
    ]
    faults += [f"{name} is still there: {states.get(name)}" for name in left if states.get(name) != "changed"]
    return faults


@pytest.mark.timeout(500)
@pytest.mark.parametrize("part", range(PARTS), ids=lambda part: f"part{part}")
async def test_a_killed_session_loses_nothing_and_goes_on(
    part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    first = seeds.first() + part * VICTIMS
    monkeypatch.setenv("FRIDAY_HOME", str(tmp_path / "home"))
    repository(tmp_path / "project")
    reached: Counter[str] = Counter()
    for more in range(ROUNDS):  # what chance or a slow machine left out gets more victims, no lower bar
        await kill_and_reopen(tmp_path, first + more * PARTS * VICTIMS, reached, patience=2.0**more)
        if not missed(reached):
            break
    record_property("fuzz seed", f"kills {first}")
    record_property("fuzz reached", json.dumps({f"kills: {name}": n for name, n in reached.items()}))
    assert not missed(reached), f"seeds from {first}: reached too little: {missed(reached)}"


async def kill_and_reopen(folder: Path, first: int, reached: Counter[str], *, patience: float) -> None:
    """Some victims, and what is left of them."""
    kill_some(folder, first, patience)
    with closing(sqlite3.connect(store_path())) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert survivors(folder) == []  # tests/workspace/process/test_survivors.py has the cases one by one
    assert torn(folder) == []
    dead = {seed: acknowledged(folder, seed) for seed in range(first, first + VICTIMS)}
    logs = {seed: await left(name) for seed, (name, shown) in dead.items() if shown > 1}
    reached["commands that linger"] += sum(
        e.event.title == LINGERS for log in logs.values() for e in log if isinstance(e.event, ToolStarted)
    )
    for seed, log in logs.items():
        session_id, shown = dead[seed]
        reached["killed and reopened"] += 1
        if faults := await goes_on(folder, session_id, log, shown, reached):
            pytest.fail(f"FRIDAY_FUZZ_SEED={seed}\n" + "\n".join(faults[:8]))
    if faults := await worktrees(folder, reached):
        pytest.fail(f"FRIDAY_FUZZ_SEED={first}\n" + "\n".join(faults[:8]))


def missed(reached: Counter[str]) -> dict[str, tuple[int, int]]:
    """What was reached too little, with how often and the least."""
    return {name: (reached[name], least) for name, least in LEAST.items() if reached[name] < least}
