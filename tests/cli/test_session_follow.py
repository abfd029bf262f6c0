"""`friday sessions show --follow`: what another process does is shown as it happens, once, and the end is seen."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from friday_cli.core.protocol.events import Envelope
from friday_cli.store.locks import Ownership
from friday_cli.store.store import Store
from friday_cli.system.paths import store_path
from tests.cli.console import Console, plain
from tests.scenarios import tree

EVIL = "\x1b]0;owned\x07\x1b[31mred\u202e"


class Running:
    """A session that this process owns and writes to, piece by piece."""

    def __init__(self, folder: str, log: list[Envelope]) -> None:
        self.log, self.written = log, 0
        self.id, owned = asyncio.run(self._begin(folder))
        self.end = owned.release

    async def _begin(self, folder: str) -> tuple[str, Ownership]:
        async with Store(store_path()) as store:
            session = await store.create_session(folder, title="a title")
            return session, await store.own(session)

    def write(self, count: int = 1_000) -> None:
        """Write the next `count` events."""
        part = self.log[self.written : self.written + count]
        self.written += len(part)
        asyncio.run(self._append([msgspec.structs.replace(e, at=time.time()) for e in part]))

    async def _append(self, part: list[Envelope]) -> None:
        async with Store(store_path()) as store:
            await store.journal(self.id).append(part)


class Watcher:
    """`friday sessions show ... --follow` through a pipe; `until` waits for words."""

    def __init__(self, console: Console, *argv: str) -> None:
        command = [sys.executable, "-m", "friday_cli", "sessions", "show", *argv, "--follow"]
        self.process = subprocess.Popen(
            command, cwd=console.project, env=console.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.lines: list[str] = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._news:
                self.lines.append(line.rstrip("\n"))
                self._news.notify_all()

    def until(self, words: str) -> None:
        with self._news:
            assert self._news.wait_for(lambda: any(words in line for line in self.lines), 60), (words, self.lines)

    def over(self) -> tuple[int, list[str], str]:
        """Its exit code, its standard output and its standard error."""
        code = self.process.wait(60)
        self._reader.join(20)
        assert self.process.stderr is not None
        return code, self.lines, self.process.stderr.read()


@contextmanager
def watching(console: Console, *argv: str) -> Iterator[Watcher]:
    watcher = Watcher(console, *argv)
    try:
        yield watcher
    finally:
        watcher.process.kill()
        watcher.process.wait()
        for pipe in (watcher.process.stdout, watcher.process.stderr):
            assert pipe is not None
            pipe.close()


@pytest.fixture
def running(console: Console) -> Iterator[Running]:
    session = Running(str(console.project), tree())
    yield session
    session.end()


def test_a_conversation_grows_and_ends_with_its_process(console: Console, running: Running) -> None:
    running.write(4)
    with watching(console, running.id[:6]) as watcher:
        watcher.until("> Count the lines")
        running.write(3)
        watcher.until("▸ delegate_task researcher · running")
        running.write(16)
        watcher.until("✓ delegate_task researcher · started a.1")
        running.write()
        watcher.until("main.py has 2 lines.")
        assert watcher.process.poll() is None, "its process may go on"
        running.end()
        code, lines, err = watcher.over()
    assert (code, err) == (0, "")
    assert lines[0] == f"{running.id[:8]}  a title"
    assert [line for line in lines[1:] if line and "acme" not in line] == [
        "> Count the lines",
        "> of main.py",
        "I ask a researcher.",
        "  ▸ delegate_task researcher · running",
        "  ✓ delegate_task researcher · started a.1 · 12 s",
        "main.py has 2 lines.",
    ]
    assert lines[-1].startswith("acme/small · completed")


def test_the_tree_tells_each_change_through_a_pipe_and_all_at_the_end(console: Console, running: Running) -> None:
    with watching(console, running.id, "--tree") as watcher:
        running.write(2)
        watcher.until("▸ a general · running")
        running.write(8)
        watcher.until("· a.1 researcher · queued")
        watcher.until("◦ a general · waits for a.1")
        running.write()
        watcher.until("✓ a general · completed")
        running.end()
        code, lines, err = watcher.over()
    assert (code, err) == (0, "")
    heads = [
        line.partition(" · ")[2].partition(" ·")[0] for line in lines if line.startswith(("▸ a g", "◦ a g", "✓ a g"))
    ]
    assert heads == ["running", "waits for a.1", "completed", "completed"]
    assert "tools run: read_file" in lines[-1] + lines[-2], "and the receipts at the end"


def test_one_agent_of_a_running_session_also_one_that_is_still_to_come(console: Console, running: Running) -> None:
    running.write(2)
    with watching(console, f"{running.id[:8]}:a.1") as watcher:
        running.write()
        watcher.until("It has 2 lines.")
        running.end()
        code, lines, _ = watcher.over()
    assert code == 0
    assert not [line for line in lines if "Count the lines" in line]
    with watching(console, running.id, "--agent", "a.7") as watcher:
        code, _, err = watcher.over()
    assert (code, err) == (2, f"friday: Session {running.id[:8]} has no agent 'a.7'. Agents: a, a.1.\n")


@pytest.mark.parametrize("tree", [(), ("--tree",)])
def test_ctrl_c_ends_it_without_a_word(console: Console, running: Running, tree: tuple[str, ...]) -> None:
    running.write(8)
    with watching(console, running.id, *tree) as watcher:
        watcher.until("running")
        watcher.process.send_signal(signal.SIGINT)
        code, _, err = watcher.over()
    assert (code, err) == (130, "")


def test_on_a_terminal_the_tree_is_drawn_in_place(console: Console, running: Running) -> None:
    running.write(10)

    def go_on() -> None:
        running.write()
        running.end()

    ran = console.terminal("sessions", "show", running.id, "--tree", "--follow", says=[("waits for a.1", go_on)])
    assert ran.code == 0
    assert "\x1b[2F\x1b[J" in ran.out
    final = plain(ran.out.rpartition("\x1b[J")[2])
    assert final.splitlines()[0].startswith("✓ a general · completed")
    assert "tools run: read_file" in final


def test_one_that_is_over_is_shown_and_that_is_all(console: Console, session: str) -> None:
    ran = console.ok("sessions", "show", session, "--follow")
    assert ran.out.count("✓ delegate_task") == 1
    assert "main.py has 2 lines." in ran.out
    empty = console.keep(lambda session: [])
    assert "This session is empty." in console("sessions", "show", empty, "--follow").out
