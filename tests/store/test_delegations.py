"""The rows that forecasts are made from: one for each delegation, also of old files, forks and deleted sessions."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from friday_cli.core.limits.forecast import PastRun
from friday_cli.core.protocol.events import AgentFinished, AgentStarted, Envelope
from friday_cli.core.protocol.messages import Usage
from friday_cli.store.retention import prune
from friday_cli.store.store import Store
from tests.scenarios import numbered
from tests.store.files import sql

OWN, TREE = Usage(100, output=20, cost_usd=0.1), Usage(300, output=50, cost_usd=0.5)


def log() -> list[Envelope]:
    """A main agent whose sub-agents end in several ways; the first one is resumed."""
    begin = [("a", AgentStarted(1, "friday", "go", "m"))]
    for number, profile in ((1, "scout"), (2, "other"), (3, "scout"), (4, "scout")):
        begin.append((f"a.{number}", AgentStarted(1, profile, "x" * 500 * number, "m", "a")))
    done = AgentFinished(1, "completed", "done", usage=OWN, tree_usage=TREE, duration_s=4.0)
    return numbered(
        *begin,
        ("a.1", done),
        ("a.2", AgentFinished(1, "timeout", "time", usage=OWN, duration_s=9.0)),
        ("a.3", AgentFinished(1, "cancelled", "cancelled", usage=OWN, duration_s=1.0)),
        ("a.4", AgentFinished(1, "failed", "provider")),
        ("a.1", AgentStarted(2, "scout", "more", "m", "a")),
        ("a.1", AgentFinished(2, "completed", "done", usage=OWN + OWN, tree_usage=TREE + TREE, duration_s=5.0)),
    )


EXPECTED = [PastRun("scout", 500, TREE.billed, 0.5, 4.0), PastRun("other", 1_000, OWN.billed, 0.1, 9.0)]


async def test_each_delegation_is_a_row_and_a_fork_adds_none(store: Store, session: str, path: Path) -> None:
    await store.journal(session).append(log())
    assert await store.past_runs("scout", "m") == EXPECTED
    assert await store.past_runs("scout", "another model") == []
    fork = await store.create_session("/work")
    await store.journal(fork).append(log())
    assert await store.past_runs("scout", "m") == EXPECTED
    rows = sql(path, "SELECT path, status, stop_reason FROM delegations ORDER BY path")
    ends = [("timeout", "time"), ("cancelled", "cancelled"), ("failed", "provider")]
    assert rows == [("a.1", "completed", "done"), *((f"a.{n}", *end) for n, end in enumerate(ends, 2))]


async def test_a_fork_taken_during_a_run_does_not_hide_how_it_ended(store: Store, session: str) -> None:
    events = log()
    await store.journal(session).append(events[:5])
    fork = await store.create_session("/work")
    interrupted = numbered(("a.1", AgentFinished(1, "interrupted", "process")), first=6)
    await store.journal(fork).append([*events[:5], *interrupted])
    await store.journal(session).append(events[5:])
    assert await store.past_runs("scout", "m") == EXPECTED


@pytest.mark.parametrize("how", ["deleted", "retention"])
async def test_rows_stay_when_their_session_goes(store: Store, session: str, path: Path, how: str) -> None:
    await store.journal(session).append(log())
    if how == "deleted":
        await store.delete(session)
    else:
        assert await asyncio.to_thread(prune, path, days=1, gigabytes=0, now=time.time()) == [session]
    assert await store.past_runs("scout", "m") == EXPECTED


async def test_an_old_file_gets_the_rows_of_its_events(path: Path) -> None:
    async with Store(path) as store:
        session = await store.create_session("/work")
        await store.journal(session).append(log())
    damaged = "INSERT INTO events VALUES (1, 99, 'a.1', 1.0, 'agent_finished', '{nope')"
    later = ("delegations", "spending", "holds", "caps", "batch_holds")
    sql(path, *(f"DROP TABLE {name}" for name in later), damaged, "PRAGMA user_version = 3")
    async with Store(path) as store:
        assert await store.past_runs("scout", "m") == EXPECTED
