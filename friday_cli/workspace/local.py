"""The workspace on this machine: its files, and commands that end with the workspace."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from pathlib import Path

from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.receipt import FileChange
from friday_cli.core.protocol.workspace import Access, BackgroundJob, CommandResult, ProgramResult, SandboxAccess

from .background_jobs import BackgroundJobs
from .checkpoints.recorder import CheckpointRecorder
from .local_files import WorkspaceFiles
from .process.client import SupervisorClient
from .process.command import EffectDetector, RunningCommand
from .process.environment import ELSEWHERE, cleaned
from .process.output import HEAD, TAIL, HeadTailBuffer, LiveOutput, OverflowFolder, keep_output
from .process.starter import CommandSettings, CommandStarter
from .sandbox.policy import SandboxPolicy


class LocalWorkspace(WorkspaceFiles):
    """Files below `root` and the `extra` folders, and commands that start in `root`.

    `overflow_folder` is the folder (created with mode 0700) for output too long for memory; default: a temporary folder.
    Commands get `environ` (default: that of this process) without variables that look secret; `keep` names exceptions.
    `shown` is the number of bytes of an output that are returned. `limits` are resource limits of each command by their
    lower-case POSIX names (`{"data": bytes, "cpu": seconds}`). `sandbox` confines the commands (None: not confined) and is
    closed with this workspace. `make_recorder` is called once and returns what saves earlier contents of files. `serve` starts
    a server. With `owner`, set by `at`, it uses its launcher, environment and sandbox. Raises UsageError for a missing folder."""

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
        if owner is None:
            passed = cleaned(os.environ if environ is None else environ, keep=keep)
            self._settings = CommandSettings(passed, tuple(keep), sandbox, OverflowFolder(overflow_folder), shown)
            self._supervisor = SupervisorClient(passed, {"core": 0, **(limits or {})})
        else:
            environ = {name: value for name, value in owner._settings.environ.items() if name not in ELSEWHERE}
            self._settings, self._supervisor = owner._settings._replace(environ=environ), owner._supervisor
        self.overflow = self._settings.overflow
        sandbox = self._settings.sandbox
        super().__init__(root, extra, self.overflow, make_recorder, sandbox.readable if sandbox else None)
        self._effects = EffectDetector(self.roots, self.label, self.write_hook.protected_files_changed)
        self._starter = CommandStarter(self.roots, self._settings, self._supervisor, self._effects)
        self.serve, self.piped = self._starter.serve, self._starter.piped
        self._jobs = BackgroundJobs()
        self._tasks: set[asyncio.Task[None]] = set()
        self.away: tuple[Path, ...] = ()
        self.supports_read_only = sandbox is not None and sandbox.supports_read_only
        self._owner = owner
        self._siblings: set[LocalWorkspace] = set()

    def at(self, root: Path, *, away: Sequence[Path] = ()) -> LocalWorkspace:
        """A workspace for the folder `root` that shares process launcher, environment, sandbox and overflow folder with
        this one, and is closed with it. Its commands do not get the variables that point git to another repository.
        Agents' commands that name a folder in `away` are refused. Raises UsageError if `root` is not a folder."""
        owner = self._owner or self
        sibling = LocalWorkspace(root, owner=owner)
        sibling.away = tuple(away)
        owner._siblings.add(sibling)
        return sibling

    def sandbox_access(self, access: Access) -> SandboxAccess:
        return "" if self._settings.sandbox is None else self._settings.sandbox.sandbox_access(access)

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
        running = await self._start(command, agent, LiveOutput(on_output), cwd, access)
        timed_out = False
        try:
            async with asyncio.timeout(timeout_s):
                await running.run()
        except TimeoutError:
            timed_out = True
        finally:
            await running.finish()
            if not running.read_only:
                await self._finish(self.write_hook.command_ended(agent, self._starter.commands, running))
        output = running.capture.text()
        changed, unknown = await self._effects.changed(running, self.written, self.write_hook.problem)
        return CommandResult(
            exit_code=None if timed_out else running.exit_code,
            output=output,
            duration_s=time.monotonic() - running.started_at,
            timed_out=timed_out,
            output_file=running.capture.output_file,
            bytes=running.capture.total,
            left=0 if timed_out else running.process.outlived,
            changed=changed,
            unknown=unknown,
            blocked=running.denial(output),
            tampered=await self._effects.tampered(running),
        )

    async def execute(
        self, argv: Sequence[str], *, agent: str, timeout_s: float, limit: int, cwd: Path | None = None
    ) -> ProgramResult:
        return await self._starter.execute(argv, agent, timeout_s=timeout_s, limit=limit, cwd=cwd)

    async def start(self, command: str, *, agent: str, access: Access = "") -> BackgroundJob:
        self._jobs.require_room(agent)
        running = await self._start(command, agent, None, None, access)
        self._jobs.add(agent, running)
        self._track(running.run_in_background())
        return BackgroundJob(running.id, command, True, None, "")

    async def job(self, job_id: str, *, agent: str, kill: bool = False, wait_s: float = 0.0) -> BackgroundJob:
        running = self._jobs.get(agent, job_id)
        if kill:
            running.killed = running.killed or running.process.running
            await running.finish()
        else:
            await running.wait_for_output(wait_s)
        alive = running.process.running
        if not alive:
            await running.finish()
        fresh, running.capture.fresh = running.capture.fresh, HeadTailBuffer()
        ended = not alive and not running.end_reported
        running.end_reported = running.end_reported or ended
        effects: tuple[tuple[FileChange, ...], tuple[str, ...]] = (), ()
        if ended and not running.read_only:
            await self.write_hook.command_ended(agent, self._starter.commands, running)
            effects = await self._effects.changed(running, self.written, self.write_hook.problem)
        return BackgroundJob(
            id=running.id, command=running.text, running=alive,
            exit_code=None if alive or running.killed else running.exit_code,
            output=fresh.text(running.capture.where()),
            output_file=running.capture.output_file,
            ended=ended, changed=effects[0], unknown=effects[1],
            blocked=running.denial(fresh.text()) if ended else "",
            tampered=await self._effects.tampered(running) if ended else (),
            read_only=running.read_only,
        )  # fmt: skip

    async def release(self, agent: str) -> tuple[str, ...]:
        await self._finish(self._starter.end(agent))
        if self._jobs.drop(agent):
            mine = [command for command in self._starter.commands if command.process.agent == agent]
            await self.write_hook.command_ended(agent, self._starter.commands, *mine)
        return await self._effects.unreported(agent)

    async def close(self) -> None:
        self._starter.closed = True
        await self._finish(self._starter.end())
        self._jobs = BackgroundJobs()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._owner is not None:
            self._owner._siblings.discard(self)
            return
        await asyncio.gather(*(sibling.close() for sibling in list(self._siblings)))
        await self.write_hook.close()
        await self._supervisor.close()
        if self._settings.sandbox is not None:
            await asyncio.to_thread(self._settings.sandbox.close)
        await asyncio.to_thread(self.overflow.close)

    async def keep_output(self, data: bytes) -> str:
        try:
            return await asyncio.to_thread(keep_output, self.overflow.folder, data)
        except OSError as error:
            raise ToolError(f"It could not be saved: {error.strerror}.") from None

    async def _start(
        self, command: str, agent: str, live: LiveOutput | None, cwd: Path | None, access: Access
    ) -> RunningCommand:
        prepared = await asyncio.to_thread(self._starter.prepare, command, agent, cwd, access)
        return await self._starter.start(prepared, agent, live, self.write_hook.command_started)

    async def _finish(self, work: Coroutine[None, None, None]) -> None:
        """Wait for `work`, which completes even if the caller is cancelled."""
        await asyncio.shield(self._track(work))

    def _track(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Run `work` as a task that `close` waits for."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
