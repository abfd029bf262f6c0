"""The commands of a workspace on this machine, which end with it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from friday_cli.core.protocol.background_tasks import BackgroundTasks
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.receipt import FileChange
from friday_cli.core.protocol.workspace import Access, BackgroundJob, CommandResult
from friday_cli.core.tool_catalog import BASH_KILL

from .local_files import WorkspaceFiles
from .process.command import EffectDetector, ObservedWork, RunningCommand
from .process.command_host import CommandHost
from .process.output import HeadTailBuffer, LiveOutput
from .process.starter import CommandStarter
from .sandbox import tamper_check
from .sandbox.tamper_check import ScannedFiles

MAX_RUNNING = 16
"""Background commands that one agent may have running at the same time."""


class WorkEffects(msgspec.Struct):
    """What a call of a server did to files, as `CommandResult` says it."""

    changed: tuple[FileChange, ...] = ()
    unknown: tuple[str, ...] = ()
    tampered: tuple[str, ...] = ()


class BackgroundJobs:
    """The background commands of a workspace. An agent's job numbers continue when the agent is resumed."""

    def __init__(self) -> None:
        self._jobs: dict[str, dict[str, RunningCommand]] = {}
        self._numbers: dict[str, int] = {}

    def require_room(self, agent: str) -> None:
        """Raise ToolError if the agent has `MAX_RUNNING` commands running."""
        if sum(job.process.running for job in self._jobs.get(agent, {}).values()) >= MAX_RUNNING:
            raise ToolError(
                f"{MAX_RUNNING} background commands are already running.", hint=f"End one with {BASH_KILL} first."
            )

    def add(self, agent: str, running: RunningCommand) -> None:
        """Add a command and set its id."""
        self._numbers[agent] = number = self._numbers.get(agent, 0) + 1
        running.id = f"job-{number}"
        self._jobs.setdefault(agent, {})[running.id] = running

    def get(self, agent: str, job_id: str) -> RunningCommand:
        """The command `job_id` of an agent. Raises ToolError if it has no such command."""
        jobs = self._jobs.get(agent, {})
        if job_id not in jobs:
            raise ToolError(f"No such background command: {job_id!r}.", hint=f"Yours: {', '.join(jobs) or 'none'}.")
        return jobs[job_id]

    def drop(self, agent: str) -> bool:
        """Remove the commands of an agent; whether there were any."""
        return bool(self._jobs.pop(agent, None))


class LocalCommands:
    """Starts the commands of the workspace `files` and finds out what they changed. `starter` starts other programs, too.
    `elsewhere`: it is not the workspace for which the host was made."""

    def __init__(self, files: WorkspaceFiles, host: CommandHost, *, elsewhere: bool) -> None:
        self._files = files
        self._hook = files.write_hook
        self._effects = EffectDetector(files.roots, files.label, self._hook.protected_files_changed)
        self.starter = CommandStarter(files.roots, host, host.environ(elsewhere=elsewhere), self._effects)
        self._jobs = BackgroundJobs()
        self._tasks = BackgroundTasks()

    async def prepared(
        self, command: str, agent: str, live: LiveOutput | None, cwd: Path | None, access: Access
    ) -> RunningCommand:
        """A command whose process waits; `finished` or `start` runs it. Raises ToolError."""
        request = await asyncio.to_thread(self.starter.prepare, command, agent, cwd, access)
        return await self.starter.start(request, agent, live, self._hook.command_started)

    async def finished(self, running: RunningCommand, agent: str, timeout_s: float) -> CommandResult:
        """Run a prepared command to its end, or for `timeout_s` seconds."""
        timed_out = False
        try:
            async with asyncio.timeout(timeout_s):
                await running.run()
        except TimeoutError:
            timed_out = True
        finally:
            await running.finish()
            if not running.read_only:
                await self._finish(self._hook.command_ended(agent, self.starter.commands, running))
        output = running.capture.text()
        changed, unknown = await self._effects.changed(running, self._files.written, self._hook.problem)
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

    async def start(self, command: str, *, agent: str, access: Access) -> BackgroundJob:
        """As `Workspace.start`."""
        self._jobs.require_room(agent)
        running = await self.prepared(command, agent, None, None, access)
        self._jobs.add(agent, running)
        self._tasks.start(running.run_in_background())
        return BackgroundJob(running.id, command, True, None, "")

    async def job(self, job_id: str, *, agent: str, kill: bool, wait_s: float, until: str) -> BackgroundJob:
        """As `Workspace.job`."""
        running = self._jobs.get(agent, job_id)
        found = False
        if kill:
            running.killed = running.killed or running.process.running
            await running.finish()
        elif until:
            found = await running.wait_for_line(until, wait_s)
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
            await self._hook.command_ended(agent, self.starter.commands, running)
            effects = await self._effects.changed(running, self._files.written, self._hook.problem)
        return BackgroundJob(
            id=running.id,
            command=running.text,
            running=alive,
            exit_code=None if alive or running.killed else running.exit_code,
            output=fresh.text(running.capture.where()),
            output_file=running.capture.output_file,
            ended=ended,
            changed=effects[0],
            unknown=effects[1],
            blocked=running.denial(fresh.text()) if ended else "",
            tampered=await self._effects.tampered(running) if ended else (),
            read_only=running.read_only,
            found=found,
        )

    async def release(self, agent: str) -> tuple[str, ...]:
        """As `Workspace.release`."""
        await self._finish(self.starter.end(agent))
        if self._jobs.drop(agent):
            mine = [command for command in self.starter.commands if command.agent == agent]
            await self._hook.command_ended(agent, self.starter.commands, *mine)
        return await self._effects.unreported(agent)

    async def close(self) -> None:
        """End all commands; no other is started."""
        self.starter.closed = True
        await self._finish(self.starter.end())
        self._jobs = BackgroundJobs()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @asynccontextmanager
    async def observed(self, agent: str, text: str) -> AsyncIterator[WorkEffects]:
        """Determine what happens to files in the block, in which a server works for `agent`, as for a command. The result is
        complete after the block."""
        found = WorkEffects()
        await self._hook.work_started(agent, self.starter.commands)
        work = ObservedWork(agent, text, await self._effects.protected_files())
        self.starter.observe(work)
        try:
            yield found
        finally:
            await self._finish(self._look(work, found))

    async def _look(self, work: ObservedWork, found: WorkEffects) -> None:
        await self._hook.command_ended(work.agent, self.starter.commands, work)
        found.changed, found.unknown = await self._effects.changed(work, self._files.written, self._hook.problem)
        found.tampered = await self._effects.tampered(work)
        if found.changed:
            await self._hook.note(work.agent)

    async def protected_since(
        self, before: ScannedFiles | None, folders: Sequence[str]
    ) -> tuple[ScannedFiles, tuple[str, ...]]:
        """The files below `folders` of the workspace that run code later, as they are now, and the labels of those that are
        new or changed since `before`."""
        tops = [str(self._files.root / folder) for folder in folders]
        scanned = await asyncio.to_thread(tamper_check.scan, [str(self._files.root), *tops], before)
        after = {name: file for name, file in scanned.items() if any(name.startswith(f"{top}/") for top in tops)}
        names = () if before is None else tamper_check.changed(before, after)
        return after, tuple(self._files.label(Path(name)) for name in names if name in after)

    async def _finish(self, work: Coroutine[None, None, None]) -> None:
        """Wait for `work`, which completes even if the caller is cancelled."""
        await asyncio.shield(self._tasks.start(work))
