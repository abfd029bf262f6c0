from __future__ import annotations

from pathlib import Path

import pytest

from friday_cli.core.protocol.errors import StoreError, UsageError
from friday_cli.core.protocol.events import AgentFinished, AgentStarted, Notice, TurnFinished
from friday_cli.core.protocol.messages import Usage
from friday_cli.store import listing, schema
from friday_cli.store.store import Store
from tests.scenarios import numbered, tree
from tests.store.files import content_of, sql


async def fill(store: Store, cwd: str = "/work", *, at: float = 1_000.0, task: str = "do it") -> str:
    session = await store.create_session(cwd)
    start = AgentStarted(1, "general", task, "acme/small")
    await store.journal(session).append(numbered(("a", start), at=at))
    return session


async def renumber(path: Path, old: str, new: str) -> str:
    """Give a session an id of our choice."""
    sql(path, f"UPDATE sessions SET id = '{new}' WHERE id = '{old}'")
    return new


async def test_the_list_shows_one_row_per_session_with_its_whole_tree(store: Store, session: str) -> None:
    await store.journal(session).append(tree(session))
    (row,) = await store.list_sessions()
    assert (row.id, row.cwd, row.title, row.model) == (session, "/work", "Count the lines of main.py", "acme/small")
    assert (row.status, row.stop_reason, row.agents) == ("completed", "done", 1)
    assert (row.tokens, row.cost_usd, row.updated) == (768, 2.0, tree()[-1].at)


async def test_an_unknown_price_makes_the_cost_of_the_session_unknown(store: Store) -> None:
    session = await fill(store)
    events = ("a.1", AgentStarted(1, "p", "t", "m", "a")), ("a.1", TurnFinished(1, Usage(5, cost_usd=None)))
    await store.journal(session).append(numbered(*events, first=2))
    (row,) = await store.list_sessions()
    assert (row.tokens, row.cost_usd) == (5, None)


async def test_the_newest_comes_first_and_folders_are_told_apart_exactly(store: Store) -> None:
    old = await fill(store, "/work", at=100)
    new = await fill(store, "/work", at=300)
    other = await fill(store, "/work/sub", at=200)
    await store.create_session("/work")
    assert [row.id for row in await store.list_sessions()] == [new, other, old]
    assert [row.id for row in await store.list_sessions("/work")] == [new, old]
    assert [row.id for row in await store.list_sessions(limit=1)] == [new]
    assert await store.last_session("/work") == new
    assert await store.last_session(Path("/work/sub")) == other
    assert await store.last_session("/wor") is None
    await store.journal(old).append(numbered(("a", Notice("again")), at=900, first=2))
    assert await store.last_session("/work") == old


async def test_a_session_is_found_by_any_prefix_that_fits_one(store: Store, path: Path) -> None:
    first = await renumber(path, await fill(store, task="mend the build"), "7f3a0000-0000-4000-8000-000000000001")
    second = await renumber(path, await fill(store, "/else", task="write docs"), "7f3a0000-1000-4000-8000-000000000002")
    third = await renumber(path, await fill(store), "f0000000-0000-4000-8000-000000000003")
    assert await store.find("f") == third
    assert await store.find(first) == first
    assert await store.find(" 7F3A0000-1 ") == second
    with pytest.raises(UsageError) as caught:
        await store.find("7f3a")
    assert "matches 2 sessions" in str(caught.value)
    for words in ("7f3a0000-000", "mend the build", "7f3a0000-100", "write docs"):
        assert words in str(caught.value)
    for wrong in ("7f3b", "", "a%", "_", "zz", "' OR 1=1", "7f3a0000-0000-4000-8000-0000000000011"):
        with pytest.raises(UsageError, match="There is no session"):
            await store.find(wrong)


async def test_agents_come_in_the_order_of_their_paths(store: Store) -> None:
    session = await fill(store)
    paths = ["a.10", "a.2", "a.2.1", "a.1"]
    events = [(path, AgentStarted(1, "p", "t", "m", path.rpartition(".")[0], background=True)) for path in paths]
    await store.journal(session).append(numbered(*events, first=2))
    rows = await store.agents(session)
    assert [row.path for row in rows] == ["a", "a.1", "a.2", "a.2.1", "a.10"]
    assert [row.background for row in rows] == [False, True, True, True, True]


async def test_delete_takes_everything_of_a_session_and_nothing_else(store: Store, path: Path) -> None:
    gone, kept = await store.create_session("/work"), await store.create_session("/work")
    for session in (gone, kept):
        await store.journal(session).append(tree(session))
    await store.journal(gone).append(numbered(("a", Notice("canary-4711")), first=99))
    await store.delete(gone)
    assert [row.id for row in await store.list_sessions()] == [kept]
    assert await store.events(kept) == tree(kept)
    with pytest.raises(StoreError):
        await store.events(gone)
    with pytest.raises(StoreError):
        await store.delete(gone)
    await store.close()
    for table, key in (("sessions", "key"), ("agents", "session"), ("events", "session")):
        assert sql(path, f"SELECT count(*) > 0, count(DISTINCT {key}) FROM {table}") == [(1, 1)]
    sql(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    assert b"canary-4711" not in content_of(path)


async def test_stats_per_profile_and_model(store: Store) -> None:
    session = await fill(store)
    events = []
    for number in range(1, 21):
        path = f"a.{number}"
        ended = AgentFinished(1, "completed", "done", usage=Usage(10, output=5, cost_usd=0.5), duration_s=float(number))
        events += [(path, AgentStarted(1, "coder", "t", "big", "a")), (path, ended)]
    for path, end in (
        ("a.21", AgentFinished(1, "completed", "iterations", usage=Usage(7, cost_usd=None), duration_s=4.0)),
        ("a.22", AgentFinished(1, "failed", "provider", duration_s=2.0)),
    ):
        events += [(path, AgentStarted(1, "analyst", "t", "big", "a")), (path, end)]
    again = AgentStarted(2, "coder", "t", "big", "a"), AgentFinished(2, "timeout", "time", duration_s=100.0)
    events += [("a.1", event) for event in again]
    await store.journal(session).append(numbered(*events, first=2))
    rows = {row.profile: row for row in await store.stats()}
    coder, analyst, general = rows["coder"], rows["analyst"], rows["general"]
    assert (coder.agents, coder.runs, coder.succeeded, coder.success_rate) == (20, 21, 20, 20 / 21)
    assert (coder.tokens, coder.cost_usd, coder.p50_s, coder.p95_s) == (300, 10.0, 11.0, 20.0)
    assert list(coder.stop_reasons.items()) == [("done", 20), ("time", 1)]
    assert (analyst.stop_reasons, general.stop_reasons) == ({"iterations": 1, "provider": 1}, {})
    assert (analyst.runs, analyst.succeeded, analyst.cost_usd, analyst.p50_s) == (2, 0, None, 2.0)
    assert (general.runs, general.success_rate, general.p95_s) == (0, None, 0.0)


async def test_an_estimate_is_no_cache(store: Store) -> None:
    """Where a service reports no cache figures, `cache_read` is what was sent before."""
    session = await fill(store)
    usages = {
        "a.1": Usage(10, cache_read=90),
        "a.2": Usage(10, cache_read=90, cached=False),
        "a.3": Usage(60, cache_read=40),
    }
    events = []
    for path, usage in usages.items():
        started = AgentStarted(1, "told" if path != "a.2" else "guessed", "t", "big", "a")
        events += [(path, started), (path, AgentFinished(1, "completed", "done", usage=usage))]
    await store.journal(session).append(numbered(*events, first=2))
    assert {row.profile: row.cache_share for row in await store.stats() if row.runs} == {"told": 0.65, "guessed": None}


def test_the_last_session_of_a_folder_is_found_without_reading_the_others() -> None:
    def steps(sessions: int) -> int:
        """The steps of SQLite's machine for the last of so many sessions, one without an agent after it."""
        db = schema.connect_memory()
        for key in range(1, sessions + 1):
            db.execute("INSERT INTO sessions VALUES(?, ?, '/work', '', 'm', ?, ?)", (key, f"id{key}", key, key))
            if key < sessions:
                values = (
                    key,
                    *"a",
                    "",
                    0,
                    "p",
                    "t",
                    "m",
                    "",
                    0,
                    1,
                    "completed",
                    "done",
                    1,
                    1,
                    1,
                    1,
                    1,
                    None,
                    1.0,
                    2.0,
                    1.0,
                )
                db.execute(f"INSERT INTO agents VALUES({', '.join('?' * len(values))})", values)
        count = [0]
        db.set_progress_handler(lambda: count.__setitem__(0, count[0] + 1), 1)
        (row,) = listing.list_sessions(db, "/work", 1)
        db.set_progress_handler(None, 0)
        assert row.id == f"id{sessions - 1}"
        db.close()
        return count[0]

    assert steps(300) <= steps(10) + 10
