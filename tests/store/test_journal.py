from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings

from friday_cli.core.eventlog.log import Log
from friday_cli.core.protocol.errors import StoreError
from friday_cli.core.protocol.events import AgentStarted, Envelope, MessageAdded, Notice, Prefix
from friday_cli.core.protocol.messages import Message, Text, ToolCall
from friday_cli.store import schema
from friday_cli.store.store import Store
from friday_cli.store.writer import StoreWriter
from friday_cli.view import SessionView
from tests.scenarios import logs, numbered, said, tree
from tests.store.files import sql

FEW = settings(max_examples=25)


async def test_only_what_is_to_survive_a_power_cut_waits_for_the_disk(store: Store, session: str) -> None:
    said: list[str] = []
    await store._writer.submit(lambda db: db.set_trace_callback(said.append))
    journal = store.journal(session)
    for number, durable in enumerate((False, True, False), 1):
        said.clear()
        await journal.append(numbered(("a", Notice(str(number))), first=number), durable=durable)
        steps = [line for line in said if line.startswith(("PRAGMA", "BEGIN", "INSERT", "COMMIT"))]
        full = ["PRAGMA synchronous = FULL"] if durable else []  # else SQLite writes, and the system in its own time
        back = ["PRAGMA synchronous = NORMAL"] if durable else []
        assert [line.split("(")[0] for line in steps] == [
            *full,
            "BEGIN IMMEDIATE",
            "INSERT INTO events",
            "COMMIT",
            *back,
        ]


async def test_what_survives_a_power_cut_is_not_synced_again(store: Store, session: str) -> None:
    said: list[str] = []
    await store._writer.submit(lambda db: db.set_trace_callback(said.append))
    journal = store.journal(session)
    for number, durable in enumerate((True, False, True), 1):
        await journal.append(numbered(("a", Notice(str(number))), first=number), durable=durable)
        for waits in (not durable, False):
            said.clear()
            await store.sync()
            assert ("COMMIT" in said) == waits


async def test_a_sync_that_shares_a_transaction_with_a_write_syncs_it(store: Store) -> None:
    """Also after all that was before them was synced."""
    said: list[str] = []
    begun, busy = threading.Event(), threading.Event()
    await store._writer.submit(lambda db: db.set_trace_callback(said.append))
    await store.sync()

    def waits(_: sqlite3.Connection) -> None:
        begun.set()
        assert busy.wait(60)

    blocked = store._writer.submit(waits, durable=True)
    assert await asyncio.to_thread(begun.wait, 60)
    write = store._writer.submit(lambda db: db.execute("DELETE FROM events"))
    synced = asyncio.ensure_future(store.sync())
    await asyncio.sleep(0)
    busy.set()
    await asyncio.gather(blocked, write, synced)
    (deleted,) = (at for at, line in enumerate(said) if line.startswith("DELETE"))
    assert "PRAGMA synchronous = FULL" in said[deleted - 2 : deleted]


@FEW
@given(logs(ended=False))
async def test_rows_are_the_same_fold_as_the_view(tmp_path: Path, log: list[Envelope]) -> None:
    async with Store(tmp_path / "friday.db") as store:
        session = await store.create_session("/work")
        kept = [e for e in log if e.seq is not None]
        await store.journal(session).append(kept)
        assert await store.events(session) == kept
        state = SessionView.of(log)
        rows = {row.path: row for row in await store.agents(session)}
        assert rows.keys() == state.agents.keys()
        for path, row in rows.items():
            agent = state.agents[path]
            stop_reason = agent.end.stop_reason if agent.end else ""
            assert (row.status, row.stop_reason, row.run) == (agent.status, stop_reason, agent.run)
            assert (row.usage, row.finished is None) == (agent.usage, not agent.ended)
            assert (row.parent, row.profile, row.started) == (agent.parent, agent.profile, agent.started)
            assert row.background == agent.background


async def test_a_model_that_is_chosen_again_is_that_of_the_agent(store: Store, session: str) -> None:
    chosen = [Prefix(model, "", ()) for model in ("x/one", "x/two", "x/one")]
    await store.journal(session).append(
        numbered(("a", AgentStarted(1, "friday", "t", "x/one")), *(("a", one) for one in chosen))
    )
    assert [row.model for row in await store.agents(session)] == ["x/one"]


async def test_one_bad_append_does_not_fail_those_beside_it(store: Store) -> None:
    good, bad = await store.create_session("/work"), await store.create_session("/work")
    await store.journal(bad).append(numbered(("a", Notice("first"))))
    journals = store.journal(good), store.journal(bad)
    futures = [
        journals[0].append(numbered(("a", Notice("1")))),
        journals[1].append(numbered(("a", Notice("the same number again")))),
        journals[0].append(numbered(("a", Notice("2")), first=2)),
    ]
    outcomes = await asyncio.gather(*futures, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None), StoreError, type(None)]
    assert "another friday process" in str(outcomes[1]).lower()
    assert len(await store.events(good)) == 2
    assert [e.event for e in await store.events(bad)] == [Notice("first")]


@pytest.mark.parametrize(("task", "prompt", "title"), [
    ("Count the lines\nof main.py", "", "Count the lines of main.py"),
    ("", "Mend\x1b[31m the\nbuild " + "please " * 40, "Mend the build please please"),
    ("Review this\n\n<stdin>\n+ a line of a diff\n</stdin>", "", "Review this"),
    ("Fix the parser. It fails at 1.5 and then stops.", "", "Fix the parser"),
    ("Hi. Why is it slow? Look at it.", "", "Hi. Why is it slow?"),
    ("/review the last commit. Be brief.", "", "the last commit"),
    ("/status", "", "/status"),
    ("[Image #1 a b.png] [Pasted #1 +40 lines] What is wrong here?", "", "What is wrong here?"),
], ids=["in one line", "shortened", "without what was piped in", "first sentence", "longer than a greeting", "without the command",
        "a command alone", "without chips"])  # fmt: skip
async def test_the_title_is_the_first_prompt(store: Store, session: str, task: str, prompt: str, title: str) -> None:
    start = numbered(("a", AgentStarted(1, "p", task, "m")), ("a", MessageAdded(Message("user", (Text(prompt),)))))
    await store.journal(session).append(start)
    found = await store.title(session)
    assert found.startswith(title)
    assert len(found) <= (80 if prompt else len(title))


async def test_lone_surrogates_and_nul_are_kept_as_far_as_json_can(store: Store, session: str) -> None:
    event = said("half \ud83d end\x00", ToolCall("c", "bash", {"a\udfff": ["\ud800"]}))
    await store.journal(session).append(numbered(("a", event)))
    (found,) = await store.events(session)
    assert found.event == said("half ? end\x00", ToolCall("c", "bash", {"a?": ["?"]}))


async def test_a_damaged_event_leaves_a_notice_and_the_rest(store: Store, session: str, path: Path) -> None:
    await store.journal(session).append(tree(session))
    for number, body in (
        (3, """'{"kind": "ag'"""),
        (4, "CAST(x'7b22ff' AS TEXT)"),
        (5, """'{"kind": "of_the_future"}'"""),
    ):
        sql(path, f"UPDATE events SET body = {body} WHERE seq = {number}")
    found = await store.events(session)
    assert [e.seq for e in found] == [e.seq for e in tree()]
    for number in (3, 4, 5):
        event = found[number - 1].event
        assert isinstance(event, Notice)
        assert f"Event {number}" in event.text
    assert [e for e in found if e.seq not in (3, 4, 5)] == [e for e in tree(session) if e.seq not in (3, 4, 5)]


async def test_a_full_disk_is_said_and_the_session_goes_on_in_memory(store: Store, session: str, path: Path) -> None:
    log = Log(store.journal(session))
    await log.emit("a", Notice("before"))
    events = log.events()
    assert (await anext(events)).event == Notice("before")
    await _limit_pages(store, spare=3)
    await log.emit("a", Notice("x" * 100_000))
    await log.emit("a", Notice("small"))
    assert log.failure is not None
    assert "disk is full" in str(log.failure)
    assert str(path) in str(log.failure)
    await log.close()
    shown = [e.event.text async for e in events if isinstance(e.event, Notice)]
    assert sorted(text[:30] for text in shown) == ["This session is no longer save", "small", "x" * 30]
    assert [e.event for e in await store.events(session)] == [Notice("before")]


async def test_after_a_failed_write_the_log_on_disk_gets_no_holes(store: Store, session: str) -> None:
    journal = store.journal(session)
    await journal.append(numbered(("a", Notice("1"))))
    await _limit_pages(store, spare=3)
    with pytest.raises(StoreError, match="disk is full"):
        await journal.append(numbered(("a", Notice("x" * 100_000)), first=2))
    await _limit_pages(store, spare=100_000)
    with pytest.raises(StoreError, match="disk is full"):
        await journal.append(numbered(("a", Notice("3")), first=3))
    assert len(await store.events(session)) == 1
    await store.journal(session).append(numbered(("a", Notice("resumed")), first=2))
    assert len(await store.events(session)) == 2


async def test_a_read_only_file_is_said(store: Store, session: str) -> None:
    await store._writer.submit(lambda db: None)
    writer = store._writer._db
    assert writer is not None
    writer.execute("PRAGMA query_only = ON")
    with pytest.raises(StoreError, match="read-only"):
        await store.journal(session).append(numbered(("a", Notice("1"))))


async def test_a_busy_file_is_waited_for(
    store: Store, session: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store._writer.submit(lambda db: db.execute("PRAGMA busy_timeout = 0"))  # SQLite gives up at once: we wait
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute("BEGIN EXCLUSIVE")
    waiting = store.journal(session).append(numbered(("a", Notice("1"))))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(waiting), 0.2)
    raw.execute("ROLLBACK")
    await waiting
    assert len(await store.events(session)) == 1
    monkeypatch.setattr(schema, "RETRY_S", 0.0)
    raw.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreError, match="Another program has kept"):
        await store.journal(session).append(numbered(("a", Notice("2")), first=2))
    raw.close()


@pytest.mark.parametrize(("gone", "words"), [("closed", "already closed"), ("deleted", "no longer exists")])
async def test_what_is_gone_takes_nothing(store: Store, session: str, gone: str, words: str) -> None:
    await (store.close() if gone == "closed" else store.delete(session))
    with pytest.raises(StoreError, match=words):
        await store.journal(session).append(numbered(("a", Notice("1"))))


async def _limit_pages(store: Store, *, spare: int) -> None:
    """Leave room for `spare` more pages: SQLite then reports a full disk from the same place as a real one."""

    def limit(db: sqlite3.Connection) -> None:
        used = db.execute("PRAGMA page_count").fetchone()[0]
        db.execute(f"PRAGMA max_page_count = {used + spare}")

    await store._writer.submit(limit)


async def test_nobody_waits_for_a_write_whose_failure_cannot_be_reported(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As without memory: the thread goes on, and the stored events get no gap."""
    session = await store.create_session("/work")
    journal = store.journal(session)

    def fails(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(journal, "_write", fails)
        patch.setattr(StoreWriter, "_fail", fails)
        with pytest.raises(StoreError, match="not enough memory"):
            await journal.append(numbered(("a", Notice("1"))))
    assert await store.list_sessions() == []
    with pytest.raises(StoreError, match="not enough memory"):
        await journal.append(numbered(("a", Notice("2"))))
