"""The workspace on this machine: its files, and commands that cannot outlive it."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from pathlib import Path

from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.receipt import FileChange
from friday_cli.core.protocol.workspace import Access, BackgroundJob, Printed, Ran, Reach

from .background_jobs import BackgroundJobs
from .fs import change_detection
from .local_files import WorkspaceFiles
from .process.client import Process, SupervisorClient
from .process.command import RunningCommand, shell_code
from .process.environment import ELSEWHERE, cleaned
from .process.output import HEAD, TAIL, HeadTailBuffer, LiveOutput, OutputCapture, OverflowFolder, unnamed
from .sandbox import tamper_check
from .sandbox.plan import SandboxPlan
from .sandbox.policy import SandboxPolicy

COMMAND_BYTES = 128 * 1024 - 1
"""What Linux takes as one word of a command line."""
REST = 20
"""Commands after which a look for changed files is tried again, where one took too long."""


class LocalWorkspace(WorkspaceFiles):
    """Files below `root` and the `extra` folders, and commands that start in `root`.

    `spill` is the folder (made 0700) for output too long to keep in memory; a temporary one by default. Commands see
    `environ` (the process's own by default) without what looks secret; `keep` names variables that pass all the same.
    `shown` bytes of an output are given back, its head and tail. `limits` are resource limits of each command by their
    lower-case POSIX names (`{"data": bytes, "cpu": seconds}`). `sandbox` confines the commands (None: nothing does), and
    ends with this workspace.
    Raises UsageError where a folder is none.
    """

    def __init__(
        self,
        root: Path,
        *,
        extra: Sequence[Path] = (),
        spill: Path | None = None,
        environ: Mapping[str, str] | None = None,
        keep: Collection[str] = (),
        limits: Mapping[str, int] | None = None,
        shown: int = HEAD + TAIL,
        sandbox: SandboxPolicy | None = None,
    ) -> None:
        self._sandbox = sandbox if sandbox is not None and sandbox.kind != "none" else None
        self._keep = tuple(keep)
        self.spill = OverflowFolder(spill)
        self._shown = shown
        super().__init__(root, extra, self.spill)
        self._environ = cleaned(os.environ if environ is None else environ, keep=keep)
        self._warden = SupervisorClient(self._environ, {"core": 0, **(limits or {})})
        self._shell = shutil.which("bash", path=self._environ.get("PATH")) or "/bin/sh"
        self._processes: set[Process] = set()
        self._commands: set[RunningCommand] = set()
        self._jobs = BackgroundJobs()
        self._watching: set[asyncio.Task[None]] = set()
        self._resting = 0
        self._closed = False
        self.away: tuple[Path, ...] = ()
        self._owner: LocalWorkspace | None = None
        self._siblings: list[LocalWorkspace] = []

    def at(self, root: Path, *, away: Sequence[Path] = ()) -> LocalWorkspace:
        """A workspace in the folder `root` alone, with the helper program, environment and place for long output of
        this one, with which it ends.

        Its commands do not see the variables that lead git to another repository; those of an agent are refused where
        their text names a folder in `away`. Raises UsageError where `root` is no folder.
        """
        owner = self._owner or self
        environ = {name: value for name, value in self._environ.items() if name not in ELSEWHERE}
        sibling = LocalWorkspace(root, spill=owner.spill.folder(), environ=environ, keep=environ, shown=self._shown)
        sibling._sandbox, sibling._keep = self._sandbox, self._keep
        sibling._warden, sibling._owner, sibling.away = owner._warden, owner, tuple(away)
        owner._siblings.append(sibling)
        return sibling

    # ---- commands ----------------------------------------------------------

    async def run(
        self,
        command: str,
        *,
        agent: str,
        timeout_s: float,
        on_output: Callable[[str], None],
        cwd: Path | None = None,
        access: Access = "",
    ) -> Ran:
        plan = self._plan(cwd, access)
        request = self._request(command, cwd, plan)
        await self.guard.begins(self._commands)
        running = await self._launch_command(command, agent, LiveOutput(on_output), plan)
        timed_out = False
        try:
            await running.process.begin(request)
            async with asyncio.timeout(timeout_s):
                await running.process.wait()
        except TimeoutError:
            timed_out = True
        finally:
            await running.finish()
            await self._to_the_end(self.guard.ended(agent))
        return Ran(
            exit_code=None if timed_out else running.exit_code,
            output=running.capture.text(),
            duration_s=time.monotonic() - running.begun,
            timed_out=timed_out,
            spill=running.capture.spill,
            bytes=running.capture.total,
            left=0 if timed_out else running.process.left,
            changed=await self._changed(running),
            blocked=running.blocked(running.capture.text()),
            tampered=await self._tampered(running),
        )

    async def execute(
        self, argv: Sequence[str], *, agent: str, timeout_s: float, limit: int, cwd: Path | None = None
    ) -> Printed:
        program = shutil.which(argv[0], path=self._environ.get("PATH"))
        if program is None:
            raise ToolError(f"The program {argv[0]} was not found.")
        request = self._warden.request([program, *argv[1:]], cwd or self.root, self._environ, most=limit + 1)
        timed_out = False
        with unnamed() as out, unnamed() as err:
            process = await self._launch(agent, into=(out.fileno(), err.fileno()))
            try:
                await process.begin(request)
                async with asyncio.timeout(timeout_s):
                    await process.wait()
            except TimeoutError:
                timed_out = True
            finally:
                await self._to_the_end(process.end())
            size = os.fstat(out.fileno()).st_size
            cut = size > limit
            code = None if timed_out or cut else shell_code(process.exit_code)
            problems = HeadTailBuffer(4000, 4000)
            problems.feed(os.pread(err.fileno(), limit, 0))
            printed = await asyncio.to_thread(os.pread, out.fileno(), min(size, limit), 0)
        return Printed(code, printed, problems.text(), timed_out, cut)

    async def start(self, command: str, *, agent: str, access: Access = "") -> BackgroundJob:
        self._jobs.require_room(agent)
        plan = self._plan(None, access)
        request = self._request(command, None, plan)
        await self.guard.begins(self._commands)
        running = await self._launch_command(command, agent, None, plan)
        self._jobs.add(agent, running)
        task = asyncio.create_task(self._watch(running, request))
        self._watching.add(task)
        task.add_done_callback(self._watching.discard)
        return BackgroundJob(running.id, command, True, None, "")

    async def _watch(self, running: RunningCommand, request: bytes) -> None:
        """Accompany a background command to its end, whether anybody asks or not."""
        try:
            await running.process.begin(request)
            await running.process.wait()
        except ToolError as error:
            running.capture.feed(str(error).encode())
        finally:
            await running.finish()

    async def job(self, job_id: str, *, agent: str, kill: bool = False, wait_s: float = 0.0) -> BackgroundJob:
        running = self._jobs.get(agent, job_id)
        if kill:
            running.killed = running.killed or running.process.running
            await running.finish()
        elif wait_s > 0 and running.process.running and not running.capture.fresh.total:
            running.news.clear()
            try:
                await asyncio.wait_for(running.news.wait(), wait_s)
            except TimeoutError:
                pass  # that nothing new came is an answer, too
        alive = running.process.running
        if not alive:
            await running.finish()
        fresh, running.capture.fresh = running.capture.fresh, HeadTailBuffer()
        ended = not alive and not running.told
        running.told = running.told or ended
        if ended:
            await self.guard.ended(agent)
        return BackgroundJob(
            id=running.id,
            command=running.text,
            running=alive,
            exit_code=None if alive or running.killed else running.exit_code,
            output=fresh.text(running.capture.where()),
            spill=running.capture.spill,
            ended=ended,
            changed=await self._changed(running) if ended else (),
            blocked=running.blocked(fresh.text()) if ended else "",
            tampered=await self._tampered(running) if ended else (),
        )

    async def release(self, agent: str) -> None:
        await self._end([process for process in self._processes if process.agent == agent])
        if self._jobs.drop(agent):
            await self.guard.ended(agent)

    async def close(self) -> None:
        self._closed = True
        await self._end(list(self._processes))
        self._jobs.clear()
        await asyncio.gather(*self._watching, return_exceptions=True)
        if self._owner is not None:
            if self in self._owner._siblings:
                self._owner._siblings.remove(self)
            return
        await asyncio.gather(*(sibling.close() for sibling in list(self._siblings)))
        await self.guard.close()
        await self._warden.close()
        if self._sandbox is not None:
            await asyncio.to_thread(self._sandbox.close)
        await asyncio.to_thread(self.spill.close)

    async def _end(self, processes: Sequence[Process]) -> None:
        await self._to_the_end(_all_gone(processes))

    async def _to_the_end(self, work: Coroutine[None, None, None]) -> None:
        """Wait for `work`, which goes on to its end even where the waiter is cancelled."""
        task = asyncio.create_task(work)
        self._watching.add(task)
        task.add_done_callback(self._watching.discard)
        await asyncio.shield(task)

    def reach(self, access: Access) -> Reach:
        return "" if self._sandbox is None else self._sandbox.reach(access)

    def _plan(self, cwd: Path | None, access: Access) -> SandboxPlan | None:
        if self._sandbox is None:
            return None
        return self._sandbox.plan(self.roots, cwd or self.root, show=self.spill.path, access=access)

    def _request(self, command: str, cwd: Path | None, plan: SandboxPlan | None) -> bytes:
        if len(command.encode("utf-8", "replace")) > COMMAND_BYTES:
            raise ToolError(
                f"The command is longer than {COMMAND_BYTES:,} bytes.", hint="Put it into a file and run that."
            )
        environ = self._environ
        if plan is not None and self._sandbox is not None:
            environ = self._sandbox.environ(environ, keep=self._keep)
        return self._warden.request([self._shell, "-c", command], cwd or self.root, environ, plan=plan)

    async def _launch(self, agent: str, *, into: Sequence[int] = ()) -> Process:
        if not self._closed:
            await self._warden.ready()
        if self._closed:  # perhaps only just now
            await self._warden.close()
            raise ToolError("The workspace is closed: nothing can be started any more.")
        self._processes = {process for process in self._processes if process.running}
        process = self._warden.launch(agent, into=into)
        self._processes.add(process)
        return process

    async def _launch_command(
        self, command: str, agent: str, live: LiveOutput | None, plan: SandboxPlan | None
    ) -> RunningCommand:
        before = (
            None if plan is None else await asyncio.to_thread(tamper_check.look, [str(root) for root in self.roots])
        )
        process = await self._launch(agent)
        running = RunningCommand(
            process, command, OutputCapture(self.spill.folder, shown=self._shown), live, plan, before
        )
        self._commands = {other for other in self._commands if other.process.running}
        for other in self._commands:
            if other.process.agent != agent:
                other.shared = running.shared = True
        self._commands.add(running)
        return running

    async def _changed(self, running: RunningCommand) -> tuple[FileChange, ...]:
        if self._resting:
            self._resting -= 1
            return ()
        remark = "seen while a command ran" + (", shared" if running.shared else "")
        found = await asyncio.to_thread(
            change_detection.since,
            self.roots,
            running.stamp,
            label=self.label,
            known=dict(self._written),
            remark=remark,
        )
        if found is None:
            self._resting = REST
        return found or ()

    async def _tampered(self, running: RunningCommand) -> tuple[str, ...]:
        """The protected files that changed while a confined command ran, as people see them."""
        if running.before is None:
            return ()
        after = await asyncio.to_thread(tamper_check.look, [str(root) for root in self.roots], running.before)
        return tuple(self.label(Path(name)) for name in tamper_check.changed(running.before, after))


async def _all_gone(processes: Sequence[Process]) -> None:
    await asyncio.gather(*(process.end() for process in processes))
