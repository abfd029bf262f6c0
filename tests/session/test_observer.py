"""Two processes with one session: the second shows it live and changes nothing, until the first has ended."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.events import Envelope
from friday_cli.session.observer import SessionObserver
from friday_cli.session.open_context import Options
from friday_cli.session.session import Session
from friday_cli.view import MessageItem, SessionView
from tests.session.harness import Harness, does, says
from tests.session.test_rewind import writes

PROGRAM = """
import asyncio, sys
from pathlib import Path
from friday_cli.session.session import Options, Session

async def main() -> None:
    session = await Session.open(Options(Path(sys.argv[1]), model="scripted:" + sys.argv[2], mode="yolo"))
    await session.prompt("first")
    print(session.id, flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        await session.prompt(line.strip())
    await session.close()

asyncio.run(main())
"""


class Other:
    """A process that drives a session: each line it reads is a prompt."""

    def __init__(self, process: asyncio.subprocess.Process, session: str) -> None:
        assert process.stdin is not None
        self.process, self.session, self._stdin = process, session, process.stdin

    def say(self, text: str) -> None:
        self._stdin.write(f"{text}\n".encode())

    async def end(self) -> None:
        self._stdin.close()
        await self.process.wait()


@asynccontextmanager
async def driven(harness: Harness) -> AsyncIterator[Other]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROGRAM,
        str(harness.project),
        str(harness.scenario),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    try:
        assert process.stdout is not None
        session = (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()
        yield Other(process, session)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


class Face:
    """Folds what an observer shows."""

    def __init__(self, observer: SessionObserver) -> None:
        self.state, self.seen = SessionView(), list[Envelope]()
        self._changed = asyncio.Event()
        self._task = asyncio.create_task(self._fold(observer))

    async def _fold(self, observer: SessionObserver) -> None:
        async for envelope in observer.events():
            self.seen.append(envelope)
            self.state.apply(envelope)
            self._changed.set()

    @property
    def words(self) -> list[str]:
        root = self.state.root
        return [item.text for item in root.transcript if isinstance(item, MessageItem)] if root else []

    async def until(self, text: str) -> None:
        async with asyncio.timeout(60):
            while text not in self.words:
                self._changed.clear()
                await self._changed.wait()

    async def end(self) -> None:
        await asyncio.wait_for(self._task, 60)


async def test_the_observer_is_live_and_takes_over_when_the_first_ends(harness: Harness) -> None:
    harness.plays({"a": [does(writes("a.txt", "1\n")), says("one"), says("two")]})
    async with driven(harness) as other:
        options = Options(harness.project, model=f"scripted:{harness.scenario}", resume=other.session)
        with pytest.raises(UsageError, match=rf"open in another friday process \(pid {other.process.pid}\)"):
            await Session.open(options)
        observer = await SessionObserver.open(options)
        assert (observer.owner_pid, observer.released.is_set()) == (other.process.pid, False)
        assert f"open in another friday process (pid {other.process.pid})" in str(observer.refusal)
        face = Face(observer)
        await face.until("one")
        assert (face.seen[-1].seq or 0) <= observer.since
        other.say("second")
        await face.until("two")
        assert [p.text for p in await observer.rewind.points()] == ["first", "second"]
        assert [r.path for r in await observer.rewind.changes()] == ["a.txt"]
        with pytest.raises(UsageError, match="is open in another"):
            await observer.take_over()
        await other.end()
        await asyncio.wait_for(observer.released.wait(), 60)
        assert "Take it over" in str(observer.refusal)
        harness.plays({"a": [says("three")]})
        session = await observer.take_over()
        await face.end()
        assert session._main.agent.conversation.history[-1].text == "two"
        assert (await session.prompt("third")).text == "three"
        await session.close()


async def test_a_driver_that_is_killed_leaves_the_session_to_the_observer(harness: Harness) -> None:
    harness.plays({"a": [says("one"), does(("bash", {"command": "sleep 20"}))]})
    async with driven(harness) as other:
        observer = await SessionObserver.open(
            Options(harness.project, model=f"scripted:{harness.scenario}", resume=other.session)
        )
        face = Face(observer)
        other.say("sleep")
        await face.until("sleep")
        other.process.send_signal(signal.SIGKILL)
        await asyncio.wait_for(observer.released.wait(), 60)
        session = await observer.take_over()
        await face.end()
        assert session.idle
        await session.close()
        await observer.close()


async def test_only_a_session_that_there_is_can_be_watched(harness: Harness) -> None:
    with pytest.raises(UsageError, match="can be observed"):
        await SessionObserver.open(Options(harness.project))
