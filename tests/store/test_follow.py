"""Following a session that another process runs: what it writes is seen soon, once and in order, and the end is seen."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from friday_cli.core.protocol.errors import StoreError
from friday_cli.core.protocol.events import AgentFinished, AgentStarted, Envelope, Notice
from friday_cli.store.store import Store
from tests.scenarios import numbered, tree
from tests.store.files import read_line, start

WRITER = """
import asyncio, sys
from pathlib import Path
from friday_cli.core.protocol.events import AgentStarted, Notice
from friday_cli.core.eventlog.log import Log
from friday_cli.store.store import Store

async def main(path, session):
    store = Store(Path(path))
    with await store.own(session):
        log = Log(store.journal(session))
        await log.emit("a", AgentStarted(1, "general", "write", "m"))
        print("begun", flush=True)
        while text := (await asyncio.to_thread(sys.stdin.readline)).strip():
            await log.emit("a", Notice(text), Notice(text))
        await store.sync()
    await store.close()

asyncio.run(main(*sys.argv[1:]))
"""


def say(writer: subprocess.Popen[str], text: str = "") -> None:
    """Let `writer` write `text`, or end."""
    assert writer.stdin is not None
    writer.stdin.write(text + "\n")
    writer.stdin.flush()


def numbers(batches: list[list[Envelope]]) -> list[int | None]:
    return [e.seq for batch in batches for e in batch]


async def test_what_another_process_writes_is_seen_as_it_comes(store: Store, session: str, path: Path) -> None:
    writer = await asyncio.to_thread(start, WRITER, path, session)
    assert await asyncio.to_thread(read_line, writer) == "begun"
    seen: list[list[Envelope]] = []
    async with asyncio.timeout(60):
        async for batch in store.follow(session):
            seen.append(batch)
            if len(seen) < 5:
                say(writer, f"n{len(seen)}")  # the next comes only because of it
            elif len(seen) == 5:
                say(writer)
    assert await asyncio.to_thread(writer.wait) == 0
    assert numbers(seen[:5]) == list(range(1, 10))
    assert [e.event for e in seen[1]] == [Notice("n1")] * 2
    assert numbers(seen) == [e.seq for e in await store.events(session)]
    assert isinstance(seen[-1][-1].event, AgentFinished), "it left its agent open"


async def test_when_the_process_dies_its_end_is_seen(store: Store, session: str, path: Path) -> None:
    writer = await asyncio.to_thread(start, WRITER, path, session)
    assert await asyncio.to_thread(read_line, writer) == "begun"
    seen: list[list[Envelope]] = []
    async with asyncio.timeout(60):
        async for batch in store.follow(session):
            seen.append(batch)
            if len(seen) == 1:
                writer.send_signal(signal.SIGKILL)
                await asyncio.to_thread(writer.wait)
    (end,) = (e.event for batch in seen for e in batch if isinstance(e.event, AgentFinished))
    assert (end.status, end.stop_reason) == ("interrupted", "process")


async def test_one_that_is_over_is_shown_whole_and_at_once(store: Store, session: str) -> None:
    await store.journal(session).append(tree(session))
    assert [batch async for batch in store.follow(session)] == [tree(session)]
    assert [batch async for batch in store.follow(session, after=20)] == [tree(session)[20:]]
    assert [batch async for batch in store.follow(session, after=len(tree(session)))] == []


async def test_what_comes_before_the_release_is_not_lost(store: Store, session: str, path: Path) -> None:
    async with Store(path) as other:
        ownership = await store.own(session)
        seen: list[list[Envelope]] = []

        async def watch() -> None:
            async for batch in other.follow(session):
                seen.append(batch)

        watching = asyncio.create_task(watch())
        journal = store.journal(session)
        await journal.append(numbered(("a", AgentStarted(1, "p", "t", "m"))))
        for n in range(2, 40):
            await journal.append(numbered(("a", Notice(str(n))), first=n))
            await asyncio.sleep(0.01)
        await journal.append(numbered(("a", AgentFinished(1, "completed", "done")), first=40))
        ownership.release()
        async with asyncio.timeout(60):
            await watching
        assert numbers(seen) == list(range(1, 41))


async def test_several_can_follow_and_looking_takes_no_ownership(store: Store, session: str) -> None:
    await store.journal(session).append(tree(session))
    with await store.own(session):
        first, second = store.follow(session), store.follow(session)
        assert await anext(first) == await anext(second) == tree(session)
        await store.journal(session).append(numbered(("a", Notice("more")), first=50))
        assert numbers([await anext(first)]) == numbers([await anext(second)]) == [50]
        await first.aclose()  # type: ignore[attr-defined]
        await second.aclose()  # type: ignore[attr-defined]
    with await store.own(session):
        pass


async def test_a_store_that_is_closed_opens_nothing_again_for_who_still_reads(store: Store) -> None:
    session = await store.create_session("/w")
    held = threading.Event()
    slow = asyncio.create_task(store._reader.read(lambda db: held.wait(60)))
    await asyncio.to_thread(lambda: wait_for(store._reader._lock.locked))
    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    late = asyncio.create_task(store.events(session))  # on its way when the file is let go of
    await asyncio.sleep(0)
    held.set()
    await slow
    await closing
    with pytest.raises(StoreError, match="already closed"):
        await late
    with pytest.raises(StoreError, match="already closed"):
        await anext(store.follow(session))


def wait_for(happened: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.001)
