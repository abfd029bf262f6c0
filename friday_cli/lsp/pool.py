"""The language servers that run: one for each program, workspace and project folder, started when a file of theirs is looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from friday_cli.config.settings import LanguageServerSettings
from friday_cli.core.protocol.code_check import CodeCheck, LanguageServerRow
from friday_cli.core.protocol.errors import FridayError
from friday_cli.core.protocol.format import pluralize
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.system.paths import cache_dir
from friday_cli.workspace.process.server import ServerProcess, ServerProgram

from .connection import LanguageServer, NotKnown
from .entry import LanguageServerTable
from .find import Folders, FoundServer, candidates, servers_for
from .project_files import ProjectFiles
from .server_limit import ServerLimit

PASSED = ("PATH", "HOME", "LANG", "TERM", "TMPDIR")
"""Variables of ours that a server gets."""
AGAIN_S = 30.0
"""Seconds until a server that ended twice is started once more; after that it is off."""
MOST_FAILURES = 3
LOOK_S = 10.0
"""Seconds between two looks at what the servers take; also after which an unused one ends that another session needs."""


class NoRoom(NotKnown):
    """As many servers run as may."""


class ServerHost(Protocol):
    """The workspace whose files a server reads, as `LocalWorkspace`."""

    root: Path
    main_root: Path

    def sandbox_access(self, access: Any, command: str = "") -> str: ...

    async def serve(self, program: ServerProgram, owner: str) -> ServerProcess: ...


class RunningServer:
    """One server with its program. It is started again when it ends, at most `MOST_FAILURES` times."""

    def __init__(self, found: FoundServer, host: ServerHost, pool: LanguageServers) -> None:
        self.found, self._host, self._pool = found, host, pool
        self.busy = asyncio.Lock()
        """Held while documents are open: one question at a time."""
        self.files = ProjectFiles(found.root, found.entry.languages)
        self.used_at = 0.0
        self.mb = 0
        self.error = ""
        self.off = False
        self._leave: Callable[[], None] | None = None
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

    @property
    def has_room(self) -> bool:
        """Whether it counts as one of those that run."""
        return self._leave is not None

    @property
    def row(self) -> LanguageServerRow:
        """It for a person."""
        version = self._server.version if self._server is not None else ""
        return LanguageServerRow(
            self.name, self.state, str(self.found.root), self.found.program, self.error, version=version, mb=self.mb
        )

    async def ready(self) -> LanguageServer:
        """The server after its start. Raises NotKnown if it does not run."""
        loop = asyncio.get_running_loop()
        self.used_at = loop.time()
        if (server := self._server) is not None and server.ended:
            self._server = None  # who asks meanwhile does not count this end again
            self._fail(f"{server.ended}{self._said()}")
            await server.close("it was ended")
            self._give_room()
        if self.off:
            raise NotKnown(self.error or "it was switched off")
        if self._server is not None:
            return self._server
        if self._failures == MOST_FAILURES - 1 and (wait := AGAIN_S - (loop.time() - self._failed_at)) > 0:
            raise NotKnown(f"it ended twice and will be started again in {wait:.0f} s: {self.error}")
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        try:
            self._server = await asyncio.shield(self._starting)
        except NoRoom:
            raise
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            raise NotKnown("it was ended while it started") from None
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
            self._pool.report(
                f"The language server {self.name} is off: it ended {MOST_FAILURES} times, the last time because {reason}."
            )

    async def measure(self) -> None:
        """Look how much memory it takes."""
        stream = self._stream if self.state == "runs" else None
        self.mb = 0
        with suppress(OSError, ValueError):  # it may end meanwhile
            self.mb = await asyncio.to_thread(stream.memory) // 1_000_000 if stream else 0

    async def _start(self) -> LanguageServer:
        self._leave = await self._pool.room_for(self)
        try:
            return await self._launched()
        except BaseException:
            self._give_room()
            raise

    def _give_room(self) -> None:
        leave, self._leave = self._leave, None
        if leave is not None:
            leave()

    async def _launched(self) -> LanguageServer:
        entry, venv = self.found.entry, self.found.venv
        confined = entry.sandbox or (self.found.in_project and "/" not in entry.command)  # an agent can have made it
        if confined and not self._host.sandbox_access(""):
            if self.found.in_project or not entry.trusted_program:
                raise NotKnown(
                    'it must run in a sandbox, and there is none; `"sandbox": false` in your lsp.json allows it'
                )
            confined = False
        data = cache_dir(self._pool.env) / "lsp" / entry.name
        environ = {name: self._pool.env[name] for name in PASSED if name in self._pool.env}
        environ |= {"XDG_CACHE_HOME": str(data)} | ({"VIRTUAL_ENV": venv} if venv else {}) | entry.env
        program = ServerProgram(
            (self.found.program, *entry.args), environ, self.found.root, confined=confined, data=data, writes=()
        )
        stream = self._stream = await self._host.serve(program, f"lsp {entry.name}")
        try:
            return await LanguageServer.start(
                stream,
                self.found.root,
                settings=_settings(self.found),
                options=entry.options,
                report=lambda reason: None,
                start_s=entry.start_s,
            )
        except NotKnown as error:
            raise NotKnown(f"it did not start: {error}{self._said()}") from None

    def _said(self) -> str:
        """The last line that it wrote to its standard error output, else its exit code."""
        if self._stream is None:
            return ""
        lines, code = self._stream.errors.splitlines(), self._stream.exit_code
        return f" ({sanitize_line(lines[-1], 200)})" if lines else f" (exit code {code})" if code else ""

    async def give_up(self, reason: str) -> None:
        """End it because it does not answer; that counts as an end of its own."""
        self._fail(reason)
        await self.close(reason)

    async def close(self, reason: str = "it was ended") -> None:
        """End it; who waits for an answer is told the reason."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
            self._starting = None
        server, self._server = self._server, None
        try:
            if server is not None:
                await server.close(reason)
        finally:
            self._give_room()

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
        self.table, self.settings, self.env, self.report = table, settings, env, report
        self._running: dict[tuple[str, Path, Path], RunningServer] = {}
        self._found: dict[tuple[Path, Path, str], list[FoundServer]] = {}
        self._limit = ServerLimit(cache_dir(env) / "lsp" / "running", settings.max_servers)
        self._told_modules = False
        self._looking: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()

    def wants(self, path: Path) -> bool:
        """Whether a server of the table is for this file, installed or not."""
        return bool(candidates(path.name, self.table.entries))

    def states(self) -> list[LanguageServerRow]:
        """Every server that was needed."""
        return [one.row for one in self._running.values()]

    async def measured(self) -> list[LanguageServerRow]:
        """As `states`, with the memory that they take now."""
        for one in self._running.values():
            await one.measure()
        return self.states()

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
            server = self._one(one, host)
            try:
                await server.ready()
            except NotKnown as error:
                problem = problem or NotKnown(f"{server.name}: {error}")
                if isinstance(error, NoRoom):
                    break  # another one for these files would not be better
                continue
            answered = answered or not one.entry.lints
            running.append(server)
        if problem is not None and not answered:
            raise problem
        return running

    async def by_server(
        self, host: ServerHost, paths: Iterable[Path]
    ) -> tuple[dict[RunningServer, list[Path]], list[CodeCheck]]:
        """The started servers with those of `paths` that each is for, and one check for each server that does not run."""
        found, unknown = dict[RunningServer, list[Path]](), dict[str, CodeCheck]()
        for path in paths:
            try:
                for one in await self.for_file(host, path):
                    found.setdefault(one, []).append(path)
            except NotKnown as error:
                name, _, why = str(error).partition(": ")
                unknown.setdefault(name, CodeCheck(name, unknown=why))
        return found, list(unknown.values())

    async def _find(self, host: ServerHost, path: Path) -> list[FoundServer]:
        key = host.root, path.parent, path.suffix
        if key not in self._found:
            folders = Folders(host.root, host.main_root)
            self._found[key] = await asyncio.to_thread(servers_for, path, folders, self.table.entries, self.env)
        return self._found[key]

    def _one(self, found: FoundServer, host: ServerHost) -> RunningServer:
        key = found.entry.name, host.root, found.root
        if key not in self._running:
            if found.without_modules and not self._told_modules:
                self._told_modules = True
                self.report(
                    f"{found.entry.name} sees no node_modules in worktrees: imports that it does not find are not told there."
                )
            self._running[key] = RunningServer(found, host, self)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        return self._running[key]

    async def room_for(self, new: RunningServer) -> Callable[[], None]:
        """Room for one more server, until the result is called; the longest unused one of this session is ended for it. Raises NoRoom if
        the others are those of other sessions."""
        while (leave := await asyncio.to_thread(self._limit.take)) is None:
            others = [one for one in self._running.values() if one is not new and one.has_room]
            if not others:
                await asyncio.to_thread(self._limit.refused)
                count = pluralize(self.settings.max_servers, "language server")
                raise NoRoom(f"your other sessions run {count} already (lsp.max_servers)")
            await min(others, key=_unused).close()
        return leave

    async def _look(self) -> None:
        """End servers that were not used for a while or take too much memory, again and again."""
        loop, settings = asyncio.get_running_loop(), self.settings
        while True:
            await asyncio.sleep(min(LOOK_S, settings.idle_s))
            idle_s = LOOK_S if await asyncio.to_thread(self._limit.is_wanted) else settings.idle_s
            await self.measured()
            running = sorted((one for one in self._running.values() if one.state == "runs"), key=_unused)
            taken = sum(one.mb for one in running)
            for one in running:
                if one.mb > settings.max_mb:
                    self._end(one.give_up(f"it took {one.mb:,} MB of memory (lsp.max_mb: {settings.max_mb:,})"))
                elif not one.busy.locked() and (taken > settings.max_mb or loop.time() - one.used_at > idle_s):
                    self._end(one.close())
                else:
                    continue
                taken -= one.mb

    def _end(self, ending: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(ending)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def restart(self, name: str = "") -> int:
        """End the servers of this name (all without one), so that they start again when they are needed. Returns their number."""
        chosen = [one for one in self._running.values() if not name or one.name == name]
        await asyncio.gather(*(one.restart() for one in chosen))
        return len(chosen)

    async def close(self) -> None:
        """End all servers."""
        if self._looking is not None:
            self._looking.cancel()
        await asyncio.gather(*(one.close() for one in self._running.values()), *self._ending, return_exceptions=True)
        self._running.clear()


def _unused(one: RunningServer) -> tuple[bool, float]:
    """The longest unused one comes first, those that are asked something last."""
    return one.busy.locked(), one.used_at


def _settings(found: FoundServer) -> dict[str, Any]:
    """What a server reads as its settings: those of its entry, and where the project's Python is."""
    settings = dict(found.entry.settings)
    if found.venv and "python" in found.entry.languages.values():
        settings["python"] = {"pythonPath": f"{found.venv}/bin/python", **settings.get("python", {})}
    return settings
