"""The language servers that run: one for each program, workspace and project folder, started when a file of theirs is looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path

from friday_cli.config.settings import LanguageServerSettings
from friday_cli.core.protocol.background_tasks import BackgroundTasks
from friday_cli.core.protocol.code_check import LanguageServerRow
from friday_cli.core.protocol.errors import FridayError, ToolError
from friday_cli.core.protocol.format import pluralize
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.system.paths import cache_dir
from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.process.server import ServerProcess, ServerProgram

from .connection import LanguageServer, NoAnswer, NotKnown
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
ROOM_S = 5.0
"""Seconds that a start waits for another server of the session to be answered."""
_HIDDEN = (
    ". The sandbox hides /tmp and hidden folders of your home: if it is there, name its folder in `[sandbox] read`."
)


class NoRoom(NotKnown):
    """As many servers run as may."""


class RunningServer:
    """One server with its program. It is started again when it ends, at most `MOST_FAILURES` times."""

    def __init__(self, found: FoundServer, host: LocalWorkspace, pool: LanguageServers) -> None:
        self.found, self._host, self._pool = found, host, pool
        self.busy = asyncio.Lock()
        """Held while documents are open: one question at a time."""
        self.files = ProjectFiles(found.root, found.entry.languages)
        self.used_at = 0.0
        """When it was needed last, as a time of the event loop; 0 for never."""
        self.mb = 0
        self.error = ""
        self.off = False
        self._server: LanguageServer | None = None
        self._starting: asyncio.Task[None] | None = None
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
        if self._starting is not None and not self._starting.done():
            return "starts"
        if self._server is not None:
            return "ended" if self._server.ended else "runs"
        return "not started"

    @property
    def row(self) -> LanguageServerRow:
        """It for a person."""
        version = self._server.version if self._server is not None else ""
        return LanguageServerRow(
            self.name, self.state, str(self.found.root), self.found.program, self.error, version=version, mb=self.mb
        )

    @property
    def _confined(self) -> bool:
        entry = self.found.entry
        return entry.sandbox or (self.found.in_project and "/" not in entry.command)  # an agent can have made it

    @property
    def lacks_modules(self) -> bool:
        """Whether it does not see the `node_modules` of the session's folder, in a worktree without them."""
        return bool(self.found.modules) and not (self._confined and self._host.can_show_elsewhere)

    def label(self, path: Path) -> str:
        """The name of a file of its workspace as people see it."""
        return self._host.label(path)

    async def ready(self) -> LanguageServer:
        """The server after its start. Raises NotKnown if it does not run."""
        loop = asyncio.get_running_loop()
        self.used_at = loop.time()
        if (server := self._server) is not None and server.ended:
            self._server = None  # who asks meanwhile does not count this end again
            self._fail(f"{server.ended}{self._said()}")
            await server.close()
        if self.off:
            raise NotKnown(self.error or "it was switched off")
        if self._server is None:
            if self._failures == MOST_FAILURES - 1 and (wait := AGAIN_S - (loop.time() - self._failed_at)) > 0:
                raise NotKnown(f"it ended twice and will be started again in {wait:.0f} s: {self.error}")
            if self._starting is None or self._starting.done():
                self._starting = asyncio.create_task(self._start())
            await self._started(self._starting)
        if self._server is None:
            raise NotKnown("it was ended")
        return self._server

    async def _started(self, starting: asyncio.Task[None]) -> None:
        """Wait for a start, which goes on if who waits is cancelled. Raises NotKnown if it failed."""
        await asyncio.wait((starting,))
        error = None if starting.cancelled() else starting.exception()
        if starting.cancelled():
            raise NotKnown("it was ended while it started")
        if isinstance(error, NotKnown | FridayError) and not isinstance(error, NoRoom):
            self.error, self.off = str(error), True  # what does not start will not start a second later
            raise NotKnown(self.error)
        if error is not None:
            raise error

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

    async def _start(self) -> None:
        program = self._program()
        leave = await self._pool.room_for(self)
        try:
            stream = self._stream = await self._host.serve(program, f"lsp {self.name}", ended=leave)
        except BaseException:
            await leave()
            raise
        try:
            self._server = await LanguageServer.start(stream, self.found)
        except NotKnown as error:
            hint = _HIDDEN if program.confined and not isinstance(error, NoAnswer) else ""
            try:
                await stream.wait()
            except ToolError as failed:
                raise NotKnown(f"it did not start: {failed.message.rstrip('.')}{hint}") from None
            raise NotKnown(f"it did not start: {error}{self._said()}{hint}") from None

    def _program(self) -> ServerProgram:
        """How it is run. Raises NotKnown if it must be confined and cannot."""
        entry, venv, confined = self.found.entry, self.found.venv, self._confined
        if confined and not self._host.sandbox_access(""):
            if self.found.in_project or not entry.trusted_program:
                raise NotKnown(
                    'it must run in a sandbox, and there is none; `"sandbox": false` in your lsp.json allows it'
                )
            confined = False
        data = cache_dir(self._pool.env) / "lsp" / entry.name
        environ = {name: self._pool.env[name] for name in PASSED if name in self._pool.env}
        environ |= {"XDG_CACHE_HOME": str(data)} | ({"VIRTUAL_ENV": venv} if venv else {}) | entry.env
        words = (self.found.program, *entry.args)
        elsewhere = dict(self.found.modules)
        if venv and not Path(venv).is_relative_to(self._host.root):  # a worktree's; below /tmp it would not see it
            elsewhere[Path(venv)] = Path(venv)
        shown = elsewhere if self._host.can_show_elsewhere else {}
        return ServerProgram(words, environ, self.found.root, confined=confined, data=data, writes=(), elsewhere=shown)

    def _said(self) -> str:
        """The last line that it wrote to its standard error output, else its exit code."""
        if self._stream is None:
            return ""
        lines, code = self._stream.errors.splitlines(), self._stream.exit_code
        return f" ({sanitize_line(lines[-1], 200)})" if lines else f" (exit code {code})" if code else ""

    async def give_up(self, reason: str) -> None:
        """End it because it does not answer; that counts as an end of its own, once."""
        if self._server is not None:
            self._fail(reason)
        await self.close(reason)

    async def close(self, reason: str = "it was ended") -> None:
        """End it; who waits for an answer is told the reason."""
        server, self._server = self._server, None
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        if server is not None:
            await server.close(reason)

    async def restart(self) -> None:
        """End it, so that the next question starts it, also after it was switched off."""
        await self.close()
        self.off, self._failures, self.error = False, 0, ""


Alternatives = tuple[RunningServer, ...]
"""Servers of which one is enough, in the order in which they are tried."""


async def first_running(alternatives: Alternatives) -> RunningServer:
    """The first of them that runs, started. Raises NotKnown with the reason of the first one."""
    problem: NotKnown | None = None
    for one in alternatives:
        try:
            await one.ready()
            return one
        except NotKnown as error:
            problem = problem or error
            if isinstance(error, NoRoom):
                break  # another one for these files would not be better
    raise problem or NotKnown("no language server is installed")


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
        self._servers: dict[tuple[str, Path, Path], RunningServer] = {}
        self._found: dict[tuple[Path, Path, str], list[FoundServer]] = {}
        self._limit = ServerLimit(cache_dir(env) / "lsp" / "running", settings.max_servers)
        self._told_modules = False
        self._looking: asyncio.Task[None] | None = None
        self._ending = BackgroundTasks()

    def wants(self, path: Path) -> bool:
        """Whether a server of the table is for this file, installed or not."""
        return bool(candidates(path.name, self.table.entries))

    async def rows(self) -> list[LanguageServerRow]:
        """Every server that was needed, with the memory that it takes now."""
        needed = [one for one in self._servers.values() if one.used_at]
        for one in needed:
            await one.measure()
        return [one.row for one in needed]

    async def alternatives(self, host: LocalWorkspace, path: Path) -> list[Alternatives]:
        """The servers that are installed for a file: those of which one is enough, and each that lints beside them. None is started."""
        key = host.root, path.parent, path.suffix
        if key not in self._found:
            folders = Folders(host.root, host.main_root)
            self._found[key] = await asyncio.to_thread(servers_for, path, folders, self.table.entries, self.env)
        found = [self._one(one, host) for one in self._found[key]]
        checking = tuple(one for one in found if not one.found.entry.lints)
        return [*([checking] if checking else []), *((one,) for one in found if one.found.entry.lints)]

    def _one(self, found: FoundServer, host: LocalWorkspace) -> RunningServer:
        key = found.entry.name, host.root, found.root
        one = self._servers.setdefault(key, RunningServer(found, host, self))
        one.found = found  # another program since a restart
        if one.lacks_modules and not self._told_modules:
            self._told_modules = True
            self.report(
                f"{one.name} sees no node_modules in worktrees: imports that it does not find are not told there."
            )
        return one

    async def room_for(self, new: RunningServer) -> Callable[[], Awaitable[None]]:
        """Room for one more server, until the result is called; the longest unused one of this session is ended for it. Raises NoRoom if
        all others are asked something, or are those of other sessions."""
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        until = asyncio.get_running_loop().time() + ROOM_S
        while (leave := await asyncio.to_thread(self._limit.take)) is None:
            others = [one for one in self._servers.values() if one is not new and one.state in ("starts", "runs")]
            unused = [one for one in others if one.state == "runs" and not one.busy.locked()]
            if unused:
                await min(unused, key=lambda one: one.used_at).close()
            elif not others or asyncio.get_running_loop().time() > until:
                await asyncio.to_thread(self._limit.refused)
                count = pluralize(self.settings.max_servers, "language server")
                raise NoRoom(
                    f"{'' if others else 'your other sessions run '}{count} {'run ' if others else ''}already (lsp.max_servers)"
                )
            else:
                await asyncio.sleep(0.1)
        free = leave

        async def left() -> None:
            free()

        return left

    async def _look(self) -> None:
        """End servers that were not used for a while or take too much memory, again and again."""
        loop, settings = asyncio.get_running_loop(), self.settings
        while True:
            await asyncio.sleep(min(LOOK_S, settings.idle_s))
            idle_s = LOOK_S if await asyncio.to_thread(self._limit.is_wanted) else settings.idle_s
            await self.rows()
            running = sorted(
                (one for one in self._servers.values() if one.state == "runs"), key=lambda one: one.used_at
            )
            taken = sum(one.mb for one in running)
            for one in running:
                if one.mb > settings.max_mb:
                    self._ending.start(
                        one.give_up(f"it took {one.mb:,} MB of memory (lsp.max_mb: {settings.max_mb:,})")
                    )
                elif not one.busy.locked() and (taken > settings.max_mb or loop.time() - one.used_at > idle_s):
                    self._ending.start(one.close())
                else:
                    continue
                taken -= one.mb

    async def restart(self, name: str = "") -> int:
        """End the servers of this name (all without one), so that they are looked for and started again when they are needed. Returns
        the number of those that were needed so far."""
        chosen = [one for one in self._servers.values() if one.used_at and (not name or one.name == name)]
        await asyncio.gather(*(one.restart() for one in chosen))
        self._found.clear()
        return len(chosen)

    async def close(self) -> None:
        """End all servers."""
        if self._looking is not None:
            self._looking.cancel()
        await asyncio.gather(*(one.close() for one in self._servers.values()), *self._ending, return_exceptions=True)
