"""Many processes on one file: nothing is lost, nobody sees a lock, the dead are buried once."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import threading
from functools import partial
from pathlib import Path

import pytest

from friday_cli.core.eventlog.replay import replay
from friday_cli.core.protocol import events as ev
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.messages import ToolCall, Usage, user
from friday_cli.core.protocol.receipt import Receipt
from friday_cli.store import locks as locking
from friday_cli.store.crash_recovery import recovery_events
from friday_cli.store.store import Store, append_after
from friday_cli.view import SessionView
from tests.engine_fixture import until
from tests.scenarios import numbered, said, tree
from tests.store.files import read_line, sql, start

WRITER = """
import asyncio, sys
from pathlib import Path
from friday_cli.core.protocol.events import AgentStarted, MessageAdded, ToolStarted
from friday_cli.core.protocol.messages import Message, Text
from friday_cli.core.eventlog.log import Log
from friday_cli.store.store import Store

async def main(path, count, size):
    store = Store(Path(path))
    session = await store.create_session("/work")
    ownership = await store.own(session)
    print(session, flush=True)
    log = Log(store.journal(session))
    await log.emit("a", AgentStarted(1, "general", "write", "m"))
    number = 1
    while number != count:
        await log.emit("a", MessageAdded(Message("assistant", (Text(str(number) + "x" * size),))))
        number += 1
        print(number, flush=True)
    assert log.failure is None, log.failure
    ownership.release()
    await store.close()

asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
"""

HOLDER = """
import asyncio, sys
from pathlib import Path
from friday_cli.store.store import Store

async def main():
    with await Store(Path(sys.argv[1])).own(sys.argv[2]):
        print("owned", flush=True)
        sys.stdin.read()

asyncio.run(main())
"""

RECONCILER = """
import asyncio, sys
from pathlib import Path
from friday_cli.store.store import Store

async def main():
    store = Store(Path(sys.argv[1]))
    await store.open()
    print("ready", flush=True)
    sys.stdin.read()
    print(*await store.reconcile(), flush=True)
    await store.close()

asyncio.run(main())
"""


async def test_twelve_processes_lose_nothing(path: Path) -> None:
    writers = [start(WRITER, path, 60, 200) for _ in range(12)]  # the file does not exist yet: they make it together
    ends = await asyncio.gather(*(asyncio.to_thread(writer.communicate) for writer in writers))
    assert [error for _, error in ends] == [""] * 12
    assert [writer.returncode for writer in writers] == [0] * 12
    async with Store(path) as store:
        for out, _ in ends:
            assert [e.seq for e in await store.events(out.split()[0])] == list(range(1, 61))
        assert len(await store.list_sessions("/work")) == 12


@pytest.mark.parametrize("moment", [1, 7, 40])
async def test_kill_loses_nothing_that_was_acknowledged(path: Path, moment: int) -> None:
    writer = await asyncio.to_thread(start, WRITER, path, -1, 3_000)
    session = await asyncio.to_thread(read_line, writer)
    for _ in range(moment):
        await asyncio.to_thread(read_line, writer)
    writer.send_signal(signal.SIGKILL)
    rest, _ = await asyncio.to_thread(writer.communicate)
    acknowledged = max([moment, *(int(number) for number in rest.split())])
    async with Store(path) as store:
        found = await store.events(session)
        assert [e.seq for e in found] == list(range(1, len(found) + 1))
        assert len(found) >= acknowledged
        assert sql(path, "PRAGMA integrity_check") == [("ok",)]
        assert await store.reconcile() == [session]
        assert await store.reconcile() == []
        (row,) = await store.list_sessions()
        assert (row.status, row.stop_reason) == ("interrupted", "process")


async def test_a_session_has_one_owner_among_processes(store: Store, session: str, path: Path) -> None:
    await store.journal(session).append(tree(session)[:8])
    holder = await asyncio.to_thread(start, HOLDER, path, session)
    assert await asyncio.to_thread(read_line, holder) == "owned"
    with pytest.raises(UsageError, match=f"open in another friday process \\(pid {holder.pid}\\)"):
        await store.own(session)
    with pytest.raises(UsageError, match="open in another"):
        await store.delete(session)
    assert await store.reconcile() == []
    assert await store.events(session) == tree(session)[:8]
    holder.kill()
    await asyncio.to_thread(holder.communicate)
    assert await store.reconcile() == [session]
    (await store.own(session)).release()


async def test_many_owners_in_turn_never_two_at_once(store: Store) -> None:
    """The lock file is removed on release; who waits with the removed one must not think it owns anything."""
    session, inside, most = await store.create_session("/work"), 0, 0

    async def contend() -> None:
        nonlocal inside, most
        mine = 0
        while mine < 10:
            try:
                ownership = await store.own(session)
            except UsageError:
                continue
            inside += 1
            most, mine = max(most, inside), mine + 1
            await asyncio.sleep(0)
            inside -= 1
            ownership.release()

    await asyncio.gather(*(contend() for _ in range(6)))
    assert most == 1


def abandoned(session: str) -> list[ev.Envelope]:
    """A log whose process died: a tree three deep at work, questions open."""
    return [
        *tree(session)[:22],
        *numbered(
            ("a.2", ev.AgentStarted(2, "coder", "build", "m", "a", "c9", tokens=500)), ("a.2", ev.StatusChanged("running")),
            ("a.2", ev.MessageAdded(user("build"))), ("a.2", said("first I look", ToolCall("t1", "bash", {}))),
            ("a.2", ev.ToolFinished("t1", "bash", "error")), ("a.2", ev.TurnFinished(1, Usage(10, output=5, cost_usd=0.5))),
            ("a.2", said("then I mend", ToolCall("t2", "delegate_task", {}))),
            ("a.2.1", ev.AgentStarted(1, "coder", "deep", "m", "a.2", "t2")), ("a.2.1", ev.StatusChanged("running")),
            ("a.2.1", ev.TurnFinished(1, Usage(3, cost_usd=None))), ("a.2.1", ev.PermissionAsked("q1", "t3", "bash", "rm")),
            ("a.2.1", ev.StatusChanged("waiting_user")), ("a", ev.QuestionAsked("q2", "t4", "Which?")), at=2_000.0,
            first=23,
        ),
    ]  # fmt: skip


async def test_a_request_without_a_reply_counts_with_its_estimate(store: Store, session: str) -> None:
    sent = Usage(70, cost_usd=0.25)
    more = [
        *((agent, ev.StatusChanged("running")) for agent in ("a.2.1", "a.2")),
        ("a.2.1", ev.TurnStarted(2, request=sent)),
        ("a.2", ev.TurnStarted(2, request=sent)),
        ("a.2", ev.TurnFinished(2, sent)),
    ]
    left = abandoned(session)
    await store.journal(session).append([*left, *numbered(*more, at=2_100.0, first=len(left) + 1)])
    await store.reconcile()
    ends = [e.event for e in await store.events(session) if isinstance(e.event, ev.AgentFinished)]
    deep, middle, _ = ends[-3:]
    assert deep.usage == Usage(73, cost_usd=None, estimated=True)
    assert middle.usage == Usage(80, output=5, cost_usd=0.75)
    assert middle.tree_usage == Usage(153, output=5, cost_usd=None, estimated=True)


async def test_what_a_dead_process_left_open_is_ended(store: Store, session: str) -> None:
    await store.journal(session).append(abandoned(session))
    assert await store.reconcile() == [session]
    found = await store.events(session)
    made = found[len(abandoned(session)) :]
    assert [e.seq for e in found] == list(range(1, len(found) + 1))
    assert [(e.agent, type(e.event)) for e in made] == [
        ("a.2.1", ev.AskWithdrawn), ("a.2.1", ev.AgentFinished), ("a.2", ev.AgentFinished), ("a", ev.AskWithdrawn), ("a", ev.AgentFinished),
    ]  # fmt: skip
    deep, middle, root = (e.event for e in made if isinstance(e.event, ev.AgentFinished))
    assert {(e.status, e.stop_reason, e.partial) for e in (deep, middle, root)} == {("interrupted", "process", True)}
    assert (middle.run, middle.result, middle.usage) == (2, "then I mend", Usage(10, output=5, cost_usd=0.5))
    assert (middle.tree_usage, middle.receipt) == (Usage(13, output=5, cost_usd=None), Receipt({"bash": 1}, failed=1))
    assert root.tree_usage.billed == 160 + 15 + 3
    assert (deep.duration_s, deep.wall_s) == (3.0, 5.0), "waiting for a place is no active time"
    assert not SessionView.of(found).asks
    assert all(record.end for record in replay(found).values())
    (row,) = await store.list_sessions()
    assert row.status == "interrupted"
    assert await store.reconcile() == []


async def test_an_agent_that_died_in_the_middle_of_a_reply_has_worked_until_then(
    store: Store, session: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of a reply is stored while it is streamed, so the lock file says how long its process lived."""
    monkeypatch.setattr(locking, "HEARTBEAT_S", 0.0)
    ownership = await store.own(session)
    lock = path.parent / "locks" / f"{session}.lock"
    os.utime(lock, (0, 0))
    ownership.keep_alive()
    begun = lock.stat().st_mtime
    assert begun > 0
    await until(lambda: lock.stat().st_mtime > begun, most_s=60)
    left = lock.read_bytes()
    ownership.release()
    assert ownership.died_at == 0.0
    await store.journal(session).append(tree(session)[:5])  # the first request of the main agent, at 1004
    lock.write_bytes(left)
    os.utime(lock, (1008, 1008))  # as after kill -9
    assert await store.reconcile() == [session]
    end = (await store.events(session))[-1].event
    assert isinstance(end, ev.AgentFinished)
    assert (end.duration_s, end.wall_s, end.profile) == (7.0, 7.0, "general")


async def test_several_processes_bury_the_dead_once(store: Store, path: Path) -> None:
    sessions = [await store.create_session("/work") for _ in range(5)]
    for session in sessions:
        await store.journal(session).append(abandoned(session))
    helpers = [start(RECONCILER, path) for _ in range(4)]
    for helper in helpers:
        assert await asyncio.to_thread(read_line, helper) == "ready"
    for helper in helpers:
        assert helper.stdin is not None
        helper.stdin.close()
        helper.stdin = None
    repaired = [await store.reconcile()]
    for helper in helpers:
        out, error = await asyncio.to_thread(helper.communicate)
        assert (error, helper.returncode) == ("", 0)
        repaired.append(out.split())
    assert sorted(name for names in repaired for name in names) == sorted(sessions)
    for session in sessions:
        ends = [(e.agent, e.event.run) for e in await store.events(session) if isinstance(e.event, ev.AgentFinished)]
        assert sorted(ends) == [("a", 1), ("a.1", 1), ("a.2", 2), ("a.2.1", 1)]


async def test_two_who_end_the_same_agents_write_it_once(store: Store, session: str, path: Path) -> None:
    """A lock that is lost in between, as when the one who mends is cancelled, does no harm either."""
    await store.journal(session).append(abandoned(session))
    made = recovery_events(abandoned(session), now=9_000.0)
    async with Store(path) as other:
        for who, wins in ((store, True), (other, False)):
            work = partial(append_after, session=session, known=abandoned(session), made=made)
            assert await who._writer.submit(work) is wins
        assert sum(isinstance(e.event, ev.AgentFinished) for e in await store.events(session)) == 4


def test_a_look_at_the_owner_does_not_keep_the_lock_from_the_next_one(tmp_path: Path) -> None:
    """As `friday agents` looks twice a second."""
    with open(tmp_path / "x.lock", "w") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        threading.Timer(0.01, fcntl.flock, (looking, fcntl.LOCK_UN)).start()
        with locking.own(tmp_path, "x"), pytest.raises(UsageError, match="open in another friday process"):
            locking.own(tmp_path, "x")


async def test_a_lock_whose_taker_was_cancelled_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the sweep of old worktrees is when its session is closed at once."""
    taken, go, done = threading.Event(), threading.Event(), threading.Event()
    real = locking.own

    def slow(folder: Path, session: str) -> locking.Ownership:
        taken.set()
        go.wait(60)
        try:
            return real(folder, session)
        finally:
            done.set()

    async with Store(tmp_path / "friday.db") as store:
        session = await store.create_session(tmp_path)
        monkeypatch.setattr(locking, "own", slow)
        taking = asyncio.create_task(store.own(session))
        await asyncio.to_thread(taken.wait, 60)
        taking.cancel()
        await asyncio.sleep(0)
        go.set()
        await asyncio.wait([taking])
        await asyncio.to_thread(done.wait, 60)
        (await store.own(session)).release()
