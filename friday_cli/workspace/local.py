"""The workspace on this machine: its files, and commands that end with the workspace."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.workspace import Access, BackgroundJob, CommandResult, ProgramResult, SandboxAccess

from .checkpoints.write_hook import ChangeWatch, FirstChange, WriteHook
from .local_files import WorkspaceFiles
from .process.command_host import CommandHost
from .process.output import LiveOutput, OverflowFolder, keep_output

if TYPE_CHECKING:
    from .checkpoints.recorder import CheckpointRecorder
    from .local_commands import LocalCommands
    from .process.piped import PipedProgram, PipedResult
    from .process.server import ServerProcess, ServerProgram


class ChangeObservers(NamedTuple):
    """What sees the changes of a workspace's files."""

    make_recorder: Callable[[WorkspaceFiles], CheckpointRecorder] | None = None
    """Called once, when it is first needed; returns what saves earlier contents of files."""
    make_watch: Callable[[LocalWorkspace], ChangeWatch] | None = None
    """Makes what is told of the changes, also in each workspace that `LocalWorkspace.at` returns."""
    first: FirstChange | None = None
    """What is done before the first change by an agent."""


UNOBSERVED = ChangeObservers()


class LocalWorkspace(WorkspaceFiles):
    """Files below `root` and the `extra` folders, and commands that start in `root` as `host` says. It closes the host's sandbox,
    processes and folder. Raises UsageError for a missing folder."""

    def __init__(
        self,
        root: Path,
        host: CommandHost | None = None,
        *,
        extra: Sequence[Path] = (),
        changes: ChangeObservers = UNOBSERVED,
        away: Sequence[Path] = (),
        owner: LocalWorkspace | None = None,
    ) -> None:
        """`owner`, whose host it has, is given by `at`."""
        self._host = CommandHost() if host is None else host
        self._sandbox = self._host.sandbox
        self.overflow: OverflowFolder = self._host.overflow
        """The folder for output that is too long for a result."""
        super().__init__(root, extra, self.overflow, self._sandbox.readable if self._sandbox else None)
        self._changes = changes
        self.away: tuple[Path, ...] = tuple(away)
        """Agents' commands that name a folder in these are refused."""
        self.supports_read_only = self._sandbox is not None and self._sandbox.supports_read_only
        """Whether a command can be kept from changing any file."""
        self.can_show_elsewhere = self._sandbox is not None and self._sandbox.choice.kind == "bubblewrap"
        """Whether a confined program can see a folder at another place."""
        self._owner = owner
        self.main_root: Path = owner.root if owner else self.root
        """The folder of the session: of a worktree, that of the workspace which made it."""
        self._siblings: set[LocalWorkspace] = set()
        """The workspaces that `at` returned, which are closed with this one."""
        self._started: LocalCommands | None = None
        """What runs commands, once the first one ran."""
        self._closed = False
        self.write_hook = WriteHook(
            self.root_of,
            partial(changes.make_recorder, self) if changes.make_recorder else None,
            changes.make_watch(self) if changes.make_watch else None,
            changes.first,
        )

    def at(self, root: Path, *, away: Sequence[Path] = ()) -> LocalWorkspace:
        """A workspace for the folder `root` that shares the host with this one, and is closed with it. Its commands do not get the
        variables that point git to another repository. Raises UsageError if `root` is not a folder."""
        owner = self._owner or self
        watched = ChangeObservers(make_watch=owner._changes.make_watch)
        sibling = LocalWorkspace(root, owner._host, changes=watched, away=away, owner=owner)
        owner._siblings.add(sibling)
        return sibling

    def sandbox_access(self, access: Access, command: str = "") -> SandboxAccess:
        return "" if self._sandbox is None else self._sandbox.sandbox_access(access, command)

    def expect_command(self) -> None:
        if not self._closed:
            self._host.supervisor.start_early()

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

    async def serve(
        self, program: ServerProgram, owner: str, *, ended: Callable[[], Awaitable[None]] | None = None
    ) -> ServerProcess:
        """Start a server, which `owner` names in `release`; `ended` is called after it has ended. Raises ToolError."""
        return await self.commands.starter.serve(program, owner, ended)

    async def piped(self, program: PipedProgram, agent: str) -> PipedResult:
        """Run a program that reads a text and answers, as `CommandStarter.piped`. Raises ToolError."""
        return await self.commands.starter.piped(program, agent)

    async def release(self, agent: str) -> tuple[str, ...]:
        return await self._started.release(agent) if self._started is not None else ()

    async def close(self) -> None:
        self._closed = True
        if self._owner is not None:
            self._owner._siblings.discard(self)
            if self._started is not None:
                await self._started.close()
            return

        def remove_folders() -> None:
            with closing(self.overflow):
                if self._sandbox is not None:
                    self._sandbox.close()

        async with AsyncExitStack() as ends:  # in the opposite order, also where one of them fails
            ends.push_async_callback(asyncio.to_thread, remove_folders)
            ends.push_async_callback(self._host.end_processes)
            ends.push_async_callback(self.write_hook.close)
            for sibling in list(self._siblings):
                ends.push_async_callback(sibling.close)
            if self._started is not None:
                ends.push_async_callback(self._started.close)

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

            if self._closed or (self._owner is not None and self._owner._closed):
                raise ToolError("The workspace is closed; no command can be started.")
            self._started = LocalCommands(self, self._host, elsewhere=self._owner is not None)
        return self._started
