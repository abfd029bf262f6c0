"""Starts the commands of one workspace and keeps track of those that run."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from friday_cli.core.protocol.agent_path import depth_of
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.workspace import Access, ProgramResult
from friday_cli.system.own_programs import find_program

from ..sandbox import read_only_command
from ..sandbox.plan import SandboxPlan
from .client import Process
from .command import EffectDetector, ObservedWork, PreparedCommand, RunningCommand, shell_code
from .command_host import CommandHost
from .environment import DEPTH, nesting_depth, with_trace
from .output import HeadTailBuffer, LiveOutput, OutputCapture, unnamed_file
from .piped import OutputPipes, PipedProgram, PipedResult, run_piped

if TYPE_CHECKING:
    from .server import Pipes, ServerProcess, ServerProgram

LISTED_S = 10.0
"""Age in seconds up to which a list of the secret files of the folder serves for a program of Friday's own."""
COMMAND_BYTES = 128 * 1024 - 1
"""Longest command in bytes: Linux's limit for one argument."""


class CommandStarter:
    """Starts commands in `roots[0]`, which may write below `roots`, with the variables `environ`. Once `closed` is set, nothing is
    started."""

    def __init__(
        self, roots: Sequence[Path], host: CommandHost, environ: Mapping[str, str], effects: EffectDetector
    ) -> None:
        self.commands: set[ObservedWork] = set()
        self._roots, self._host, self._environ, self._effects = roots, host, environ, effects
        self._supervisor = host.supervisor
        self._shell = find_program("bash", environ.get("PATH"), roots) or "/bin/sh"
        self._processes: set[Process] = set()
        self.closed = False

    def prepare(self, command: str, agent: str, cwd: Path | None, access: Access) -> PreparedCommand:
        """The request for a command of `agent` in `cwd` (default: the root). Raises ToolError if it is too long or not valid. Blocks."""
        if len(command.encode("utf-8", "replace")) > COMMAND_BYTES:
            raise ToolError(
                f"The command is longer than {COMMAND_BYTES:,} bytes.", hint="Put it into a file and run that."
            )
        folder, sandbox = cwd or self._roots[0], self._host.sandbox
        nested = nesting_depth(self._environ) + depth_of(agent) + 1
        # Without SHELL bash looks up the user's shell, over a socket that the sandbox has to check each time.
        environ: Mapping[str, str] = {"SHELL": self._shell, **self._environ, DEPTH: str(nested)}
        environ = with_trace(environ)
        plan: SandboxPlan | None = None
        if sandbox is not None:
            plan = sandbox.plan(self._roots, folder, show=self._host.overflow.path, access=access)
            if plan is not None:
                environ = sandbox.environ(environ, plan, keep=self._host.keep)
        limits = read_only_command.limits() if plan is not None and plan.read_only else {}
        request = self._supervisor.request([self._shell, "-c", command], folder, environ, plan=plan, limits=limits)
        return PreparedCommand(command, plan, request)

    async def start(
        self,
        prepared: PreparedCommand,
        agent: str,
        live: LiveOutput | None,
        look: Callable[[str, set[ObservedWork]], Awaitable[None]],
    ) -> RunningCommand:
        """A command of `agent` with a process, which `RunningCommand.run` starts. If it may change files, `look` is awaited
        while the process confines itself. Raises ToolError."""
        changes, protected = not prepared.read_only, None
        process = await self._reserve(agent)
        try:
            await process.prepare(prepared.request)
            if changes:
                await look(agent, self.commands)
            if changes and prepared.plan is not None:  # not beside `look`: two threads of Python take longer than one
                protected = await self._effects.protected_files()
        except BaseException:
            process.discard()
            raise
        capture = OutputCapture(self._host.overflow.folder, shown=self._host.shown)
        started = RunningCommand(process, prepared, capture, live, protected)
        if changes:
            self.observe(started)
        return started

    def observe(self, work: ObservedWork) -> None:
        """Determine what `work`, which begins, does to files."""
        if work.protected_before is not None:
            self._effects.unchecked.add(work)
        self.commands = {other for other in self.commands if other.open}
        for other in self.commands:
            if other.agent != work.agent and other.running:
                other.shared = work.shared = True
        self.commands.add(work)

    async def execute(
        self, argv: Sequence[str], agent: str, *, timeout_s: float, limit: int, cwd: Path | None, read_only: bool
    ) -> ProgramResult:
        """As `Workspace.execute`."""
        path = self._environ.get("PATH")
        program = argv[0] if os.path.isabs(argv[0]) else find_program(argv[0], path, self._roots)
        if program is None:
            raise ToolError(f"The program {argv[0]} was not found.")
        folder, environ, sandbox = cwd or self._roots[0], self._environ, self._host.sandbox
        plan: SandboxPlan | None = None
        if read_only and sandbox is not None:
            roots = (*self._roots, *(() if any(folder.is_relative_to(root) for root in self._roots) else (folder,)))
            plan = await asyncio.to_thread(
                sandbox.plan, roots, folder, show=None, access="read_only", secrets_age_s=LISTED_S
            )
            environ = environ if plan is None else sandbox.environ(environ, plan)
        argv = [program, *argv[1:]]
        request = self._supervisor.request(argv, folder, environ, plan=plan, limits={"fsize": limit + 1})
        timed_out = False
        with unnamed_file() as out, unnamed_file() as err:
            process = await self._reserve(agent, into=(out.fileno(), err.fileno()))
            try:
                await process.begin(request)
                async with asyncio.timeout(timeout_s):
                    await process.wait()
            except TimeoutError:
                timed_out = True
            finally:
                await asyncio.shield(process.end())
            size = os.fstat(out.fileno()).st_size
            cut = size > limit
            code = None if timed_out or cut else shell_code(process.exit_code)
            errors = HeadTailBuffer(4000, 4000)
            errors.feed(os.pread(err.fileno(), limit, 0))
            printed = await asyncio.to_thread(os.pread, out.fileno(), min(size, limit), 0)
        return ProgramResult(code, printed, errors.text(), timed_out, cut)

    async def serve(
        self, program: ServerProgram, owner: str, ended: Callable[[], Awaitable[None]] | None
    ) -> ServerProcess:
        """Start a server, which `owner` names in `end`; `ended` is called after it has ended. Raises ToolError."""
        from .server import Pipes, ServerProcess  # few sessions have servers

        request = await asyncio.to_thread(self._server_request, program)
        pipes = Pipes()
        process = await self._with_pipes(owner, pipes)
        server = await ServerProcess.connect(process, pipes, ended)
        await process.begin(request)
        return server

    def _server_request(self, program: ServerProgram) -> bytes:
        """The request for a server. Raises ToolError if its program does not exist, or cannot be confined. Blocks."""
        name, *words = program.argv
        cwd, sandbox = program.cwd or self._roots[0], self._host.sandbox
        path = program.environ.get("PATH")
        found = shutil.which(os.path.join(cwd, os.path.expanduser(name)) if "/" in name else name, path=path)
        if found is None:
            raise ToolError(f"The program {name} was not found.")
        plan, environ, roots = None, program.environ, list(self._roots)
        if program.data is not None:
            program.data.mkdir(parents=True, exist_ok=True, mode=0o700)
            roots.append(Path(os.path.realpath(program.data)))
        if program.confined:
            access: Access = "network" if program.network else ""
            if sandbox is not None:
                plan = sandbox.plan(roots, cwd, show=self._host.overflow.path, access=access)
            if sandbox is None or plan is None:
                raise ToolError("It must run in a sandbox, and there is none on this machine.")
            if program.writes is not None:
                data = [] if program.data is None else roots[-1:]
                secrets = read_only_command.secret_files([os.path.realpath(root) for root in self._roots])
                plan = plan._replace(deny=(*plan.deny, *secrets)).writing_only([*map(str, (*program.writes, *data))])
                plan = plan._replace(freeze=(*plan.freeze, *map(str, program.freeze)))
                plan = plan._replace(show=(*plan.show, *map(str, self._roots)))  # a worktree is in a folder of Friday's
            for place, source in program.elsewhere.items():
                place.mkdir(exist_ok=True)
                plan = plan._replace(elsewhere=(*plan.elsewhere, os.path.realpath(source), os.path.realpath(place)))
            plan = plan._replace(only_port=program.only_port, record=program.record)
            environ = sandbox.environ(environ, plan, keep=tuple(environ))
        return self._supervisor.request([found, *words], cwd, environ, plan=plan)

    async def piped(self, program: PipedProgram, agent: str) -> PipedResult:
        """Run a program that reads a text and answers, such as a hook. Without a sandbox here it is not confined. Raises
        ToolError if it cannot be started."""
        cwd, environ, sandbox = program.cwd or self._roots[0], program.environ, self._host.sandbox
        plan: SandboxPlan | None = None
        if program.confined and sandbox is not None:
            show = self._host.overflow.path
            plan = await asyncio.to_thread(sandbox.plan, self._roots, cwd, show=show, access="")
            if plan is not None:
                environ = sandbox.environ(environ, plan)
                if program.writes is not None:
                    plan = plan.writing_only([*map(str, program.writes)])
                    plan = plan._replace(show=(*plan.show, *map(str, self._roots), str(cwd)))  # also below /tmp
        request = self._supervisor.request(program.argv, cwd, environ, plan=plan)
        pipes = OutputPipes(program.given)
        return await run_piped(await self._with_pipes(agent, pipes), pipes, request, program)

    async def _with_pipes(self, agent: str, pipes: OutputPipes | Pipes) -> Process:
        """A new process that has the other ends of `pipes`."""
        try:
            return await self._reserve(agent, into=pipes.theirs)
        except ToolError:
            pipes.close_ours()
            raise
        finally:
            pipes.close_theirs()

    async def end(self, agent: str | None = None) -> None:
        """End the processes of `agent`, or all, with everything they started."""
        ending = [process for process in self._processes if agent is None or process.agent == agent]
        await asyncio.gather(*(process.end() for process in ending))

    async def _reserve(self, agent: str, *, into: Sequence[int] = ()) -> Process:
        """A process for a program of `agent`, as `SupervisorClient.launch`. Raises ToolError."""
        if not self.closed:
            await self._supervisor.ready()
        if self.closed:  # also if it was closed during the wait
            raise ToolError("The workspace is closed; no command can be started.")
        self._processes = {process for process in self._processes if process.running}
        process = self._supervisor.launch(agent, into=into)
        self._processes.add(process)
        return process
