"""Opening: what fails leaves nothing behind, and where nothing can be kept a session lives in memory."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import sqlite3
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from friday_cli.agents.isolation import WorktreeIsolation
from friday_cli.core.protocol.errors import FridayError, Unwritable
from friday_cli.core.protocol.events import AgentFinished, Envelope, MessageAdded, Notice, Prefix
from friday_cli.core.protocol.messages import user
from friday_cli.session import open, open_context
from friday_cli.session.open_context import Options
from friday_cli.session.session import Session
from friday_cli.store import journal, schema
from friday_cli.store.store import Store
from friday_cli.system.paths import data_dir, store_path
from friday_cli.view import SessionView
from friday_cli.view.follower import SessionFollower
from tests.scenarios import tree
from tests.session.harness import Harness, delegates, does, says
from tests.session.test_rewind import everything, runs, writes
from tests.store.files import sql


def rows() -> int:
    """Sessions in the file, those without any event too."""
    return int(sql(store_path(), "SELECT count(*) FROM sessions")[0][0])


@pytest.mark.parametrize("options", [
    {"profile": "nobody"}, {"add_dirs": (Path("/nowhere"),)}, {"allow": ("bash((",)}, {"model": "openai/gpt-6.1-sol"},
    {"flags": {"subagent_model": "openai/gpt-6.1-sol"}}, {"flags": {"subagent_model": "nowhere/model"}},
])  # fmt: skip
async def test_an_opening_that_fails_leaves_no_session(harness: Harness, options: dict[str, Any]) -> None:
    async with harness.session():
        before = rows()
    with pytest.raises(FridayError):
        async with harness.session(**options):
            raise AssertionError
    assert rows() == before == 1
    assert list((data_dir() / "locks").iterdir()) == []


def found(folder: Path, pattern: str) -> list[Path]:
    return list(folder.glob(pattern))


def lock_out() -> None:
    """No folder can be made where the data would be, whoever asks."""
    data_dir().parent.mkdir(parents=True, exist_ok=True)
    data_dir().write_text("a file", encoding="utf-8")


async def test_where_nothing_can_be_kept_it_lives_in_memory(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    lock_out()
    harness.profile("helper", "allowedTools: [memory_load, read_file]")
    note = does(("memory_save", {"text": "the port is 8080"}))
    harness.plays(
        {
            "a": [note, delegates("helper", context="x" * 5_000 + "THE END"), says("The port is 8080.")],
            "a.1": [does(("memory_load", {"query": "port"})), says("8080")],
        }
    )
    async with harness.session() as session:
        assert not session.kept
        assert (await session.prompt("go")).text == "The port is 8080."
        log = await session.history()
        (spilled,) = found(tmp_path, "friday-*/context-a.1.txt")
        assert spilled.read_text(encoding="utf-8").endswith("THE END")
        assert session._main.agent.conversation.history[-1].text == "The port is 8080."
    assert data_dir().read_text(encoding="utf-8") == "a file"
    assert not found(tmp_path, "friday-*"), "what was too long for a prompt goes with the session"
    (notice,) = [e.event for e in log if isinstance(e.event, Notice)]
    assert (notice.level, "This session is not saved" in notice.text) == ("error", True)
    results = [
        r.text for e in log if e.agent == "a" and isinstance(e.event, MessageAdded) for r in e.event.message.results
    ]
    assert "8080" in results[-1]


async def test_without_file_locks_it_lives_in_memory_at_once(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    def once(work: Callable[[], object]) -> object:
        try:
            return work()
        except sqlite3.OperationalError as error:
            raise AssertionError("it waits for a lock of another program") from error

    monkeypatch.setattr(fcntl, "lockf", no_locks)
    monkeypatch.setattr(schema, "retry_while_busy", once)
    harness.plays({"a": [says("done")]})
    async with harness.after_run() as session:
        assert not session.kept
        (notice,) = [e.event.text for e in await session.history() if isinstance(e.event, Notice)]
    assert notice.startswith("This session is not saved: The file system of ")
    assert "does not support locks" in notice
    assert not list(data_dir().glob(".*")), "the file that was tried is removed"


async def test_a_session_to_resume_is_not_replaced_by_one_in_memory(harness: Harness) -> None:
    lock_out()
    with pytest.raises(Unwritable, match="Sessions cannot be saved"):
        async with harness.session(resume="7f3a0000-0000-0000-0000-000000000000"):
            raise AssertionError


async def test_a_session_is_saved_again_when_the_disk_is_no_longer_full(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it, once; nothing had to be resumed."""
    harness.plays({"a": [says("one"), says("x" * 400_000), says("three")]})
    full, write = list[bool](), journal.append_events

    def fails(*given: Any, **more: Any) -> None:
        if full:
            raise Unwritable("The disk is full.")
        write(*given, **more)

    monkeypatch.setattr(journal, "append_events", fails)
    async with harness.session() as session:
        await session.prompt("first")
        full.append(True)
        await session.prompt("second")
        assert not session.facts.kept
        full.clear()
        used = SessionView.of(await session.history()).usage_of("a")
    envelopes = await harness.log(session.id)
    assert [e.seq for e in envelopes] == list(range(1, len(envelopes) + 1))
    again = SessionView.of(envelopes)
    assert again.usage_of("a") == used


@pytest.mark.parametrize("leap_s", [1e6, -1e6])
async def test_a_clock_that_was_set_between_two_processes(harness: Harness, leap_s: float) -> None:
    """Before it was wrong by `leap_s`: what died is ended, told of once, and took no negative time."""
    async with Store(store_path()) as store:
        session = await store.create_session(harness.project)
        died = tree(session)[:13]
        back = [time.time() + leap_s - (e.seq or 0) for e in died]  # and it was set back at every event
        await store.journal(session).append(
            [msgspec.structs.replace(e, at=at) for e, at in zip(died, back, strict=True)]
        )
    harness.plays({"a": [says("on"), says("and on")]})
    async with harness.session(resume=session) as again:
        for number in range(2):
            await again.prompt(f"go {number}")
        asked = [m.text for m in again._main.agent.conversation.history if m.role == "user" and "go " in m.text]
    assert ["The process died while these" in text for text in asked] == [True, False]
    log = await harness.log(session)
    ends = [e for e in log if isinstance(e.event, AgentFinished)]
    assert [(e.agent, e.event.status) for e in ends if isinstance(e.event, AgentFinished)] == [
        ("a.1", "interrupted"), ("a", "interrupted"), ("a", "completed"), ("a", "completed"),
    ]  # fmt: skip
    assert all(e.event.duration_s >= 0 and e.event.wall_s >= 0 for e in ends if isinstance(e.event, AgentFinished))
    assert [e.seq for e in log] == list(range(1, len(log) + 1))


async def test_what_another_process_added_meanwhile_is_known(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.plays({"a": [says("one")]})
    first = await harness.ran()
    look = open_context.read_context

    async def meanwhile(options: open_context.Options, env: Mapping[str, str]) -> open_context.OpenContext:
        async with Store(store_path()) as store:
            last = (await store.events(first.id))[-1].seq or 0
            await store.journal(first.id).append(
                [Envelope(last + 1, time.time(), "a", MessageAdded(user("meanwhile")))]
            )
        return await look(options, env)

    monkeypatch.setattr(open, "read_context", meanwhile)
    async with harness.session(resume=first.id) as again:
        await again.prompt("on")
        assert [m.text for m in again._main.agent.conversation.history if m.role == "user"][:2] == ["go", "meanwhile"]
    log = await harness.log(first.id)
    assert [e.seq for e in log] == list(range(1, len(log) + 1))


@pytest.mark.parametrize(("attended", "timeout", "seconds"), [
    (False, None, 300), (False, 7, 7), (False, 900, 900), (True, 7, 300), (True, 900, 900),
])  # fmt: skip
async def test_how_long_a_connection_is_waited_for(
    harness: Harness, attended: bool, timeout: float | None, seconds: float
) -> None:
    """A chat waits for five minutes at least; `ask` as long as `--timeout` says."""
    async with harness.session(attended=attended, flags={"limits.timeout": timeout} if timeout else {}) as session:
        assert session._parts.shared.services.policy.offline_s == seconds


async def test_a_session_keeps_the_environment_that_it_was_opened_with(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what is made with the first command or change: a program that opens sessions may change its own meanwhile."""
    monkeypatch.setenv("PLACE", "first")
    (harness.project / "file").write_text("old\n", encoding="utf-8")
    before = everything(harness.project)
    harness.plays({"a": [does(writes("file", "new\n"), runs("echo $PLACE; echo more >> file")), says("done")]})
    async with harness.session(mode="yolo") as session:
        with monkeypatch.context() as later:
            later.setenv("PLACE", "second")
            later.setenv("FRIDAY_HOME", str(tmp_path / "elsewhere"))
            await session.prompt("go")
            assert not (tmp_path / "elsewhere").exists()
    assert [text.splitlines()[0] for _, text in (await harness.results(session.id, "a"))[1:]] == ["first"]
    async with harness.session(mode="yolo", resume=session.id) as again:
        assert (await again.rewind.to(1)).done
    assert everything(harness.project) == before


async def test_what_a_session_says_of_the_date_is_the_date_of_its_clock(harness: Harness) -> None:
    def now() -> float:
        return 86_400.0 * 366.5  # 2 January 1971, noon UTC

    first = await harness.ran(now=now)
    async with harness.after_run(now=now, resume=first.id) as session:
        events = await harness.log(session.id)
    assert {envelope.at for envelope in events} == {now()}
    texts = [envelope.event.system for envelope in events if isinstance(envelope.event, Prefix)]
    texts += [envelope.event.message.text for envelope in events if isinstance(envelope.event, MessageAdded)]
    said = [text for text in texts if "1971-01-0" in text]
    assert len(said) == 2, "the prompt of the main agent, and the note of the resume"


async def test_a_session_of_which_one_part_cannot_be_closed_ends_all_the_same(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when no thread can be started any more: without the end of its events `ask` waited for ever, without its answer."""

    async def fails(self: object) -> None:
        raise RuntimeError("can't start new thread")

    harness.plays({"a": [{"text": "well"}]})
    session = await Session.open(Options(harness.project, model=f"scripted:{harness.scenario}"))
    follower = SessionFollower(session, lambda envelope, replayed: None)
    await session.prompt("go")
    with monkeypatch.context() as patch:
        patch.setattr(WorktreeIsolation, "close", fails)
        with pytest.raises(RuntimeError):
            await session.close()
    async with asyncio.timeout(60):
        await follower.finished()
    again = await Session.open(Options(harness.project, model=f"scripted:{harness.scenario}", resume=session.id))
    await again.close()
