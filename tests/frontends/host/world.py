"""A home and a service for real sessions whose processes are killed, and what can be seen of them from outside."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from friday_cli.core.protocol.events import Envelope
from friday_cli.session.remote import RemoteSession
from tests.servers.fake_model_server import FakeModelServer, Say, Turn, thinking

ROOT = Path(__file__).parents[3]
SETTINGS = """model = "own/m-1"
{more}
[providers.own]
base_url = "{url}"
api = "chat"
[providers.own.prices]
input = 10.0
output = 50.0
"""
WAIT_S = 120.0


class World:
    """A home and a project, and the service that their settings name."""

    def __init__(self, folder: Path, server: FakeModelServer, more: str = "") -> None:
        self.folder, self.server = folder, server
        self.home, self.project = folder / "home", folder / "project"
        for made in (self.home, self.project):
            made.mkdir()
        (self.home / "config.toml").write_text(SETTINGS.format(url=server.base, more=more))
        self.env = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
        self.env |= {"FRIDAY_HOME": str(self.home), "FRIDAY_SANDBOX": "none", "OWN_API_KEY": "sk-test-0123456789abcdef"}
        self.env["PYTHONPATH"] = str(ROOT)

    def friday(self, *words: str) -> str:
        """What a command prints; raises if it fails."""
        argv = [sys.executable, "-m", "friday_cli", *words]
        done = subprocess.run(
            argv, cwd=self.project, env=self.env, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
        )
        if done.returncode:
            raise AssertionError(f"friday {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    def rows(self) -> dict[str, dict[str, Any]]:
        """What `friday agents` lists, by session."""
        return {row["id"]: row for row in json.loads(self.friday("agents", "--json", "--all"))}

    def events(self, session: str) -> list[tuple[int, str, str, dict[str, Any]]]:
        """The log of a session: number, agent, kind, fields."""
        query = (
            "SELECT e.seq, e.agent, e.kind, CAST(e.body AS TEXT) FROM events e JOIN sessions s ON s.key = e.session"
            " WHERE s.id = ? ORDER BY e.seq"
        )
        with closing(sqlite3.connect(self.home / "data" / "friday.db")) as db:
            return [(seq, agent, kind, json.loads(body)) for seq, agent, kind, body in db.execute(query, (session,))]

    def session_of(self, title: str) -> str:
        """The session that begins with this message, "" before it is there."""
        with suppress(sqlite3.Error), closing(sqlite3.connect(self.home / "data" / "friday.db")) as db:
            for (name,) in db.execute("SELECT id FROM sessions WHERE title = ?", (title,)):
                return str(name)
        return ""

    def owner(self, session: str) -> int:
        """The process that owns a session, 0 if none does; a lock may be left of one that was killed."""
        try:
            pid = int((self.home / "data" / "locks" / f"{session}.lock").read_text() or 0)
        except (FileNotFoundError, ValueError):
            return 0
        return 0 if gone(pid) else pid

    def processes(self) -> list[int]:
        """The processes that use this home or work in this folder, without this one."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid() and not gone(int(entry.name)):
                with suppress(OSError):
                    inside = os.readlink(entry / "cwd").startswith(str(self.folder))
                    if inside or str(self.home).encode() in (entry / "environ").read_bytes():
                        found.append(int(entry.name))
        return found

    def used(self) -> tuple[float, float]:
        """US dollars of the cap of a day: used, and held."""
        (cap,) = json.loads(self.friday("budget", "show", "--json"))["caps"]
        return float(cap["used"]), float(cap["held"])


class Watcher:
    """A frontend in a thread of its own: the stored events that it gets."""

    def __init__(self, session: str, env: dict[str, str]) -> None:
        self.seen: list[Envelope] = []
        self._session, self._env = session, env
        self._loop = asyncio.new_event_loop()
        self._remote: RemoteSession | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._read()), daemon=True)
        self._thread.start()

    async def _read(self) -> None:
        self._remote = await RemoteSession.connect(self._session, env=self._env)
        if self._remote is not None:
            async for envelope in self._remote.events():
                if envelope.seq is not None:
                    self.seen.append(envelope)
            await (self._leaving or self._remote.close())

    def leave(self) -> None:
        """Go away from an owner that goes on."""

        def close() -> None:
            if self._remote is not None:
                self._leaving = self._loop.create_task(self._remote.close())

        self._loop.call_soon_threadsafe(close)

    def end(self) -> list[Envelope]:
        """All that it saw, when the owner has ended or it has left."""
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive(), "the frontend still waits for an owner that has ended"
        self._loop.close()
        return self.seen


def gone(pid: int) -> bool:
    """Whether a process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def until(ready: Callable[[], Any], what: str) -> Any:
    """The first true value of `ready`."""
    end = time.monotonic() + WAIT_S
    while not (found := ready()):
        assert time.monotonic() < end, f"not reached: {what}"
        time.sleep(0.02)
    return found


@contextmanager
def world(answer: Callable[[Turn], Say], more: str = "") -> Iterator[World]:
    """A place for sessions; nothing of it runs afterwards."""
    with TemporaryDirectory(prefix="fk") as folder, thinking(answer, "chat") as server:
        made = World(Path(folder), server, more)
        try:
            yield made
        finally:
            for pid in made.processes():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
