"""Once a day what is kept no longer is removed, and nobody notices."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from pathlib import Path

import msgspec
import pytest

from friday_cli.config.settings import Retention
from friday_cli.session import cleanup
from friday_cli.store.store import Store
from friday_cli.system.paths import data_dir, state_dir, store_path
from tests.scenarios import tree
from tests.session.harness import Harness, says

LIMITS = Retention(days=90, gigabytes=2)


def file(path: Path, *, days_ago: float) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    at = time.time() - days_ago * cleanup.DAY_S
    os.utime(path, (at, at))
    return path


def stamp(*, days_ago: float) -> Path:
    return file(state_dir() / "tidied", days_ago=days_ago)


async def old_session(days_ago: float = 100) -> str:
    async with Store(store_path()) as store:
        session, at = await store.create_session("/work"), time.time() - days_ago * cleanup.DAY_S
        await store.journal(session).append([msgspec.structs.replace(e, at=at) for e in tree(session)])
    return session


async def sessions() -> list[str]:
    async with Store(store_path()) as store:
        return [row.id for row in await store.list_sessions()]


def tidied() -> None:
    """The cleanup is due, and is waited for."""
    thread = cleanup.daily(LIMITS)
    assert thread is not None
    assert cleanup.daily(LIMITS) is None, "another process was quicker"
    thread.join()


def test_it_is_done_once_a_day_and_not_on_the_first() -> None:
    asyncio.run(old_session())
    assert cleanup.daily(LIMITS) is None, "the first day"
    assert cleanup.daily(LIMITS) is None
    stamp(days_ago=1.1)
    tidied()
    assert asyncio.run(sessions()) == []


@pytest.mark.parametrize(("days", "left"), [(90, ["new.log", "other"]), (0, ["new.log", "old.log", "other"])])
def test_old_logs_and_rate_limit_files_are_removed_too(days: float, left: list[str]) -> None:
    logs, lanes = state_dir() / "logs", state_dir() / "lanes"
    file(logs / "old.log", days_ago=91)
    file(logs / "new.log", days_ago=89)
    file(logs / "other", days_ago=999)
    file(lanes / "a", days_ago=2)
    file(lanes / "b", days_ago=0)
    cleanup.tidy(Retention(days=days, gigabytes=0))
    assert sorted(os.listdir(logs)) == left
    assert os.listdir(lanes) == ["b"]
    assert not data_dir().exists(), "nothing is made"


def test_a_clock_that_was_set_back_does_not_end_it() -> None:
    stamp(days_ago=-400)
    tidied()


def test_a_clock_that_leapt_ahead_removes_nothing_on_that_day() -> None:
    session = asyncio.run(old_session())
    stamp(days_ago=400)
    assert cleanup.daily(LIMITS) is None, "for all it knows these sessions are of yesterday"
    assert asyncio.run(sessions()) == [session]
    stamp(days_ago=1.1)
    tidied()
    assert asyncio.run(sessions()) == [], "the clock was right: the sessions are old"


def test_failures_are_for_the_debug_log_alone(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    store_path().parent.mkdir(parents=True)
    store_path().write_bytes(b"no database at all " * 100)
    stamp(days_ago=2)
    with caplog.at_level(logging.DEBUG, "friday_cli"):
        tidied()
    (record,) = caplog.records
    assert (record.levelno, record.exc_info is not None) == (logging.INFO, True)
    assert capfd.readouterr() == ("", "")


def test_where_no_state_can_be_kept_nothing_happens() -> None:
    state_dir().parent.mkdir(parents=True)
    state_dir().write_text("in the way")
    assert cleanup.daily(LIMITS) is None


async def test_a_session_that_opens_removes_those_beyond_the_limits(harness: Harness) -> None:
    old, recent = await old_session(20), await old_session(5)
    harness.plays({"a": [says("hello")]})
    async with harness.session():
        pass
    assert {*await sessions()} == {old, recent}, "nothing is removed on the first day"
    await asyncio.to_thread(stamp, days_ago=1.1)
    async with harness.session(flags={"retention.days": 10}) as open_one:
        for thread in threading.enumerate():
            if thread.name == "friday-tidy":
                await asyncio.to_thread(thread.join)
        assert await sessions() == [recent]
        assert (await open_one.prompt("go")).text == "hello"
