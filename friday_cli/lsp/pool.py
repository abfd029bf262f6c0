"""The language servers that run: one for each program, workspace and project folder, started when a file of theirs is looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from friday_cli.config.settings import LanguageServerSettings
from friday_cli.core.protocol.code_check import LanguageServerRow
from friday_cli.core.protocol.errors import FridayError
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.system.paths import cache_dir
from friday_cli.workspace.process.server import ServerProcess, ServerProgram

from .connection import LanguageServer, NotKnown
from .entry import LanguageServerTable
from .find import Folders, FoundServer, candidates, servers_for
from .project_files import ProjectFiles

PASSED = ("PATH", "HOME", "LANG", "TERM", "TMPDIR")
"""Variables of ours that a server gets."""
AGAIN_S = 30.0
"""Seconds until a server that ended twice is started once more; after that it is off."""
MOST_FAILURES = 3


class ServerHost(Protocol):
    """The workspace whose files a server reads, as `LocalWorkspace`."""

    root: Path
    main_root: Path

    def sandbox_access(self, access: Any, command: str = "") -> str: ...

    async def serve(self, program: ServerProgram, owner: str) -> ServerProcess: ...


class RunningServer:
    """One server with its program. It is started again when it ends, at most `MOST_FAILURES` times."""

    def __init__(
        self, found: FoundServer, host: ServerHost, env: Mapping[str, str], report: Callable[[str], None]
    ) -> None:
        self.found, self._host, self._env, self._report = found, host, env, report
        self.busy = asyncio.Lock()
        """Held while documents are open: one question at a time."""
        self.files = ProjectFiles(found.root, found.entry.languages)
        self.used_at = 0.0
        self.error = ""
        self.off = False
        self._server: LanguageServer | None = None
        self._starting: asyncio.Task[LanguageServer] | None = None
        self._stream: ServerProcess | None = None
        self._failures = 0
        self._failed_at = 0.0

    @property
    def name(self) -> str:
        return self.found.entry.name

    @property
    def state(self) -> str:
        if self.off:
            return "off"
        if self._server is not None:
            return "ended" if self._server.ended else "runs"
        return "starts" if self._starting is not None else "not started"

    async def ready(self) -> LanguageServer:
        """The server after its start. Raises NotKnown if it does not run."""
        loop = asyncio.get_running_loop()
        self.used_at = loop.time()
        if self._server is not None and self._server.ended:
            self._fail(f"{self._server.ended}{self._said()}")
            await self._server.close()
            self._server = None
        if self.off:
            raise NotKnown(self.error or "it was switched off")
        if self._server is not None:
            return self._server
        if self._failures == MOST_FAILURES - 1 and (wait := AGAIN_S - (loop.time() - self._failed_at)) > 0:
            raise NotKnown(f"it ended twice, and is started again in {wait:.0f} s: {self.error}")
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        try:
            self._server = await asyncio.shield(self._starting)
        except (NotKnown, FridayError) as error:
            self.error, self.off = str(error), True  # what does not start will not start a second later
            raise NotKnown(self.error) from None
        finally:
            if self._starting is not None and self._starting.done():
                self._starting = None
        return self._server

    async def fresh(self, changes: Mapping[Path, int] = {}) -> LanguageServer:
        """The server after it was told what changed on disk, `changes` among it. Raises NotKnown."""
        on_disk = await asyncio.to_thread(self.files.scan)
        server = await self.ready()
        server.changed_on_disk({**on_disk, **changes})
        return server

    def _fail(self, reason: str) -> None:
        self._failures += 1
        self._failed_at, self.error = asyncio.get_running_loop().time(), reason
        if self._failures >= MOST_FAILURES:
            self.off = True
            self._report(
                f"The language server {self.name} is off: it ended {MOST_FAILURES} times, the last time because {reason}."
            )

    async def _start(self) -> LanguageServer:
        entry, venv = self.found.entry, self.found.venv
        confined = entry.sandbox or (self.found.in_project and "/" not in entry.command)  # an agent can have made it
        if confined and not self._host.sandbox_access(""):
            if self.found.in_project or not entry.trusted_program:
                raise NotKnown(
                    'it must run in a sandbox, and there is none; `"sandbox": false` in your lsp.json allows it'
                )
            confined = False
        data = cache_dir(self._env) / "lsp" / entry.name
        environ = {name: self._env[name] for name in PASSED if name in self._env}
        environ |= {"XDG_CACHE_HOME": str(data)} | ({"VIRTUAL_ENV": venv} if venv else {}) | entry.env
        program = ServerProgram(
            (self.found.program, *entry.args), environ, self.found.root, confined=confined, data=data, writes=()
        )
        stream = self._stream = await self._host.serve(program, f"lsp {entry.name}")
        try:
            return await LanguageServer.start(
                stream, self.found.root, settings=_settings(self.found), options=entry.options,
                report=lambda reason: None, start_s=entry.start_s,
            )  # fmt: skip
        except NotKnown as error:
            raise NotKnown(f"it did not start: {error}{self._said()}") from None

    def _said(self) -> str:
        """The last line that it wrote to its standard error output."""
        lines = self._stream.errors.splitlines() if self._stream is not None else []
        return f" ({sanitize_line(lines[-1], 200)})" if lines else ""

    async def give_up(self, reason: str) -> None:
        """End it because it does not answer; that counts as an end of its own."""
        self._fail(reason)
        await self.close()

    async def close(self) -> None:
        """End it."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
            self._starting = None
        server, self._server = self._server, None
        if server is not None:
            await server.close()

    async def restart(self) -> None:
        """End it, so that the next question starts it, also after it was switched off."""
        await self.close()
        self.off, self._failures, self.error = False, 0, ""


class LanguageServers:
    """The servers of a session or a command. `report` shows a person one line."""

    def __init__(
        self,
        table: LanguageServerTable,
        settings: LanguageServerSettings,
        env: Mapping[str, str],
        report: Callable[[str], None],
    ) -> None:
        self.table, self.settings, self._env, self._report = table, settings, env, report
        self._running: dict[tuple[str, Path, Path], RunningServer] = {}
        self._found: dict[tuple[Path, Path, str], list[FoundServer]] = {}
        self._sweeping: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()

    def wants(self, path: Path) -> bool:
        """Whether a server of the table is for this file, installed or not."""
        return bool(candidates(path.name, self.table.entries))

    def states(self) -> list[LanguageServerRow]:
        """Every server that was needed."""
        return [
            LanguageServerRow(one.name, one.state, str(one.found.root), one.found.program, one.error)
            for one in self._running.values()
        ]

    async def for_file(self, host: ServerHost, path: Path) -> list[RunningServer]:
        """The servers for a file, started: the first that answers, and those that lint. None: no server is installed for it. Raises
        NotKnown if none runs."""
        found = await self._find(host, path)
        running: list[RunningServer] = []
        problem: NotKnown | None = None
        answered = False
        for one in found:
            if answered and not one.entry.lints:
                continue
            server = await self._one(one, host)
            try:
                await server.ready()
            except NotKnown as error:
                problem = problem or NotKnown(f"{server.name}: {error}")
                continue
            answered = answered or not one.entry.lints
            running.append(server)
        if problem is not None and not answered:
            raise problem
        return running

    async def _find(self, host: ServerHost, path: Path) -> list[FoundServer]:
        key = host.root, path.parent, path.suffix
        if key not in self._found:
            folders = Folders(host.root, host.main_root)
            self._found[key] = await asyncio.to_thread(servers_for, path, folders, self.table.entries, self._env)
        return self._found[key]

    async def _one(self, found: FoundServer, host: ServerHost) -> RunningServer:
        key = found.entry.name, host.root, found.root
        if key not in self._running:
            running = [one for one in self._running.values() if one.state in ("runs", "starts")]
            if len(running) >= self.settings.max_servers:
                longest = min(running, key=lambda one: (one.busy.locked(), one.used_at))
                await longest.close()
            self._running[key] = RunningServer(found, host, self._env, self._report)
        if self._sweeping is None:
            self._sweep()
        return self._running[key]

    def _sweep(self) -> None:
        """End servers that were not used for a while, again and again."""
        loop = asyncio.get_running_loop()
        for one in self._running.values():
            if one.state == "runs" and not one.busy.locked() and loop.time() - one.used_at > self.settings.idle_s:
                task = asyncio.create_task(one.close())
                self._ending.add(task)
                task.add_done_callback(self._ending.discard)
        self._sweeping = loop.call_later(min(30.0, self.settings.idle_s), self._sweep)

    async def restart(self, name: str = "") -> int:
        """End the servers of this name (all without one), so that they start again when they are needed. Returns their number."""
        chosen = [one for one in self._running.values() if not name or one.name == name]
        await asyncio.gather(*(one.restart() for one in chosen))
        return len(chosen)

    async def close(self) -> None:
        """End all servers."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        await asyncio.gather(*(one.close() for one in self._running.values()), *self._ending, return_exceptions=True)
        self._running.clear()


def _settings(found: FoundServer) -> dict[str, Any]:
    """What a server reads as its settings: those of its entry, and where the project's Python is."""
    settings = dict(found.entry.settings)
    if found.venv and "python" in found.entry.languages.values():
        settings["python"] = {"pythonPath": f"{found.venv}/bin/python", **settings.get("python", {})}
    return settings
