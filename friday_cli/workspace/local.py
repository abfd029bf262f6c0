"""The workspace on this machine: its files, and commands that end with the workspace."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.workspace import Access, BackgroundJob, CommandResult, ProgramResult, SandboxAccess

from .local_files import WorkspaceFiles
from .process.output import HEAD, TAIL, LiveOutput, OverflowFolder, keep_output
from .sandbox.policy import SandboxPolicy

if TYPE_CHECKING:
    from .checkpoints.recorder import CheckpointRecorder
    from .checkpoints.write_hook import ChangeWatch
    from .local_commands import CommandHost, LocalCommands
    from .process.piped import PipedProgram, PipedResult
    from .process.server import ServerProcess, ServerProgram


class LocalWorkspace(WorkspaceFiles):
    """Files below `root` and the `extra` folders, and commands that start in `root`.

    `overflow_folder` is the folder (created with mode 0700) for output too long for memory; default: a temporary folder.
    Commands get `environ` (default: that of this process) without variables that look secret; `keep` names exceptions.
    `shown` is the number of bytes of an output that are returned. `limits` are resource limits of each command by their
    lower-case POSIX names (`{"data": bytes, "cpu": seconds}`). `sandbox` confines the commands (None: not confined) and is
    closed with this workspace. `make_recorder` is called once, when it is first needed, and returns what saves earlier contents
    of files. With `owner`, set by `at`, it uses its launcher, environment and sandbox. Raises UsageError for a missing folder."""

    def __init__(
        self,
        root: Path,
        *,
        extra: Sequence[Path] = (),
        overflow_folder: Path | None = None,
        environ: Mapping[str, str] | None = None,
        keep: Collection[str] = (),
        limits: Mapping[str, int] | None = None,
        shown: int = HEAD + TAIL,
        sandbox: SandboxPolicy | None = None,
        owner: LocalWorkspace | None = None,
        make_recorder: Callable[[WorkspaceFiles], CheckpointRecorder] | None = None,
    ) -> None:
        self.overflow: OverflowFolder = owner.overflow if owner else OverflowFolder(overflow_folder)
        self._sandbox: SandboxPolicy | None = owner._sandbox if owner else sandbox
        super().__init__(root, extra, self.overflow, make_recorder, self._sandbox.readable if self._sandbox else None)
        self._environ, self._keep = os.environ if environ is None else environ, tuple(keep)
        self._limits, self._shown = {"core": 0, **(limits or {})}, shown
        self.away: tuple[Path, ...] = ()
        self.supports_read_only = self._sandbox is not None and self._sandbox.supports_read_only
        self.can_show_elsewhere = self._sandbox is not None and self._sandbox.choice.kind == "bubblewrap"
        """Whether a confined program can see a folder at another place."""
        self._owner = owner
        self.main_root: Path = owner.root if owner else self.root
        """The folder of the session: of a worktree, that of the workspace which made it."""
        self.make_watch: Callable[[LocalWorkspace], ChangeWatch] | None = None
        """Makes what is told of the changes in a workspace that `at` returns."""
        self._siblings: set[LocalWorkspace] = set()
        self._started: LocalCommands | None = None
        self._closed = False

    def at(self, root: Path, *, away: Sequence[Path] = ()) -> LocalWorkspace:
        """A workspace for the folder `root` that shares process launcher, environment, sandbox and overflow folder with
        this one, and is closed with it. Its commands do not get the variables that point git to another repository.
        Agents' commands that name a folder in `away` are refused. Raises UsageError if `root` is not a folder."""
        owner = self._owner or self
        sibling = LocalWorkspace(root, owner=owner)
        sibling.away = tuple(away)
        owner._siblings.add(sibling)
        if owner.make_watch is not None:
            sibling.write_hook.watch = owner.make_watch(sibling)
        return sibling

    def sandbox_access(self, access: Access, command: str = "") -> SandboxAccess:
        return "" if self._sandbox is None else self._sandbox.sandbox_access(access, command)

    async def run(
        self,
        command: str,
        *,
        agent: str,
        timeout_s: float,
        on_output: Callable[[str], None],
        cwd: Path | None = None,
        access: Access = "",
    ) -> CommandResult:
        commands = self.commands
        running = await commands.prepared(command, agent, LiveOutput(on_output), cwd, access)
        return await commands.finished(running, agent, timeout_s)

    async def execute(
        self,
        argv: Sequence[str],
        *,
        agent: str,
        timeout_s: float,
        limit: int,
        cwd: Path | None = None,
        read_only: bool = False,
    ) -> ProgramResult:
        starter = self.commands.starter
        return await starter.execute(argv, agent, timeout_s=timeout_s, limit=limit, cwd=cwd, read_only=read_only)

    async def start(self, command: str, *, agent: str, access: Access = "") -> BackgroundJob:
        return await self.commands.start(command, agent=agent, access=access)

    async def job(
        self, job_id: str, *, agent: str, kill: bool = False, wait_s: float = 0.0, until: str = ""
    ) -> BackgroundJob:
        return await self.commands.job(job_id, agent=agent, kill=kill, wait_s=wait_s, until=until)

    async def serve(self, program: ServerProgram, owner: str) -> ServerProcess:
        """Start a server, which `owner` names in `release`. Raises ToolError."""
        return await self.commands.starter.serve(program, owner)

    async def piped(self, program: PipedProgram, agent: str) -> PipedResult:
        """Run a program that reads a text and answers, as `CommandStarter.piped`. Raises ToolError."""
        return await self.commands.starter.piped(program, agent)

    async def release(self, agent: str) -> tuple[str, ...]:
        return await self._started.release(agent) if self._started is not None else ()

    async def close(self) -> None:
        self._closed = True
        if self._started is not None:
            await self._started.close()
        if self._owner is not None:
            self._owner._siblings.discard(self)
            return
        await asyncio.gather(*(sibling.close() for sibling in list(self._siblings)))
        await self.write_hook.close()
        if self._started is not None:
            await self._started.host.supervisor.close()
        if self._sandbox is not None:
            await asyncio.to_thread(self._sandbox.close)
        await asyncio.to_thread(self.overflow.close)

    async def keep_output(self, data: bytes) -> str:
        try:
            return await asyncio.to_thread(keep_output, self.overflow.folder, data)
        except OSError as error:
            raise ToolError(f"It could not be saved: {error.strerror}.") from None

    @property
    def commands(self) -> LocalCommands:
        """What starts commands, made with the first one: without it 15 modules are not imported. Raises ToolError if it would
        be made after the end."""
        if self._started is None:
            from .local_commands import LocalCommands

            if self._closed:
                raise ToolError("The workspace is closed; no command can be started.")
            self._started = LocalCommands(self, self._host())
        return self._started

    def _host(self) -> CommandHost:
        from .local_commands import CommandHost
        from .process.client import SupervisorClient
        from .process.environment import ELSEWHERE, cleaned
        from .process.starter import CommandSettings

        if self._owner is not None:
            host = self._owner.commands.host
            environ = {name: value for name, value in host.settings.environ.items() if name not in ELSEWHERE}
            return host._replace(settings=host.settings._replace(environ=environ))
        passed = cleaned(self._environ, keep=self._keep)
        settings = CommandSettings(passed, self._keep, self._sandbox, self.overflow, self._shown)
        return CommandHost(settings, SupervisorClient(passed, self._limits))
