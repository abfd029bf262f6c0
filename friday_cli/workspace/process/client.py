"""The client of the process supervisor: starts a program, waits for its end, ends it with everything it started."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from friday_cli.core.protocol.errors import PROCESS_LIMIT, ToolError, is_process_limit

from ..sandbox.plan import SandboxPlan

_LAUNCHER = "import sys; sys.path.append(sys.argv[1]); from friday_cli.workspace.process.supervisor import main; main(int(sys.argv[2]))"
SUPERVISOR_ENDED = "Commands cannot be started: the process supervisor ended. Perhaps no more processes are allowed (ulimit -u), or memory ran out."
"""The problem of a process whose supervisor ended before it reported a start."""
GO = b"g"
"""Starts the prepared program."""
END_S = 2.0
"""Seconds that ending a command with everything it started may take."""
PIPE = 512 * 1024
"""Capacity of an output pipe in bytes, if the kernel allows it."""
READ = 256 * 1024
"""Bytes that are read at once."""
FLOOD, FLOOD_S = 64 * 1024, 0.002
"""Bytes after which output is read in larger portions, and the seconds between them: reading each line costs more."""
EXECUTED = 1_000_000
"""Bytes of reports on executed programs that are kept of one process."""
PIPE_S = 1.0
"""Seconds that the pipe of an ended command may stay open."""


class Process:
    """A running program. `agent` owns it; `exit_code` is negative for a signal, None while unknown. `outlived` counts the
    processes that were still running when the program ended."""

    def __init__(self, agent: str, control: socket.socket, output: int | None) -> None:
        self.agent = agent
        self.exit_code: int | None = None
        self.outlived = 0
        self.problem = SUPERVISOR_ENDED
        self.executed: list[bytes] = []
        """What it executed, as the supervisor reports it, if its plan asks for that."""
        self._executed_bytes = 0
        self._control, self._output = control, output
        self._ended = asyncio.Event()
        self._begun = False
        self._received = b""
        control.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(control.fileno(), self._on_message)

    @property
    def running(self) -> bool:
        return not self._ended.is_set()

    async def prepare(self, request: bytes) -> None:
        """Send the supervisor what to run. Until `begin` it only makes a process for it, which takes milliseconds."""
        with contextlib.suppress(OSError):  # the supervisor is gone already; `wait` reports it
            await self._loop.sock_sendall(self._control, request)

    async def begin(self, request: bytes = b"") -> None:
        """Start the program of `request`, or of the one that is prepared."""
        await self.prepare(request + GO)
        self._begun = True

    def discard(self) -> None:
        """Give up a process that did not begin, and whose output nobody reads."""
        self._disconnect()
        if self._output is not None:
            os.close(self._output)

    async def wait(self) -> None:
        """Wait until the program and everything it started have ended. Raises ToolError if it could not be started."""
        await self._ended.wait()
        if self.problem:
            raise ToolError(self.problem)

    async def end(self) -> None:
        """End the program and everything it started. Returns when they have ended, after `END_S` at the latest."""
        if self.running and not self._begun:
            self._disconnect()  # nothing was started: a request without its end, or without `GO`, is ignored
        elif self.running:
            with contextlib.suppress(OSError):  # already ending
                self._control.send(b"x")
        with contextlib.suppress(TimeoutError):  # blocked in the kernel (a dead disk); the supervisor keeps trying
            await asyncio.wait_for(self._ended.wait(), END_S)

    async def pump(self, on_output: Callable[[bytes], object]) -> None:
        """Read the output until it ends and pass it to `on_output`. If that returns a coroutine, it is awaited before more
        is read."""
        fd = self._output
        assert fd is not None
        reader = asyncio.StreamReader(limit=PIPE)
        pipe = os.fdopen(fd, "rb", buffering=0)
        transport, _ = await self._loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        closing = asyncio.create_task(self._close_pipe(reader))
        total = 0
        try:
            while data := await reader.read(READ):
                total += len(data)
                # fewer bytes than requested: the reader is empty, so it has not paused the pipe itself. Resuming a pipe
                # that the reader paused would make it buffer everything.
                flood = total > FLOOD and len(data) < READ
                if flood:
                    transport.pause_reading()
                pending = on_output(data)
                if asyncio.iscoroutine(pending):
                    await pending
                if flood:
                    await asyncio.sleep(FLOOD_S)
                    transport.resume_reading()
        finally:
            closing.cancel()
            transport.close()

    async def _close_pipe(self, reader: asyncio.StreamReader) -> None:
        """End the output `PIPE_S` after the program, even if an escaped process still holds the pipe open."""
        await self._ended.wait()
        await asyncio.sleep(PIPE_S)
        reader.feed_eof()

    @property
    def executed_whole(self) -> bool:
        """Whether `executed` has every report."""
        return self._executed_bytes <= EXECUTED

    def _on_message(self) -> None:
        try:
            data = self._control.recv(64 * 1024)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            if line.startswith(b"executed "):
                self._executed_bytes += len(line)
                if self._executed_bytes <= EXECUTED:
                    self.executed.append(line)
                continue
            word, _, rest = line.decode().partition(" ")
            if word == "started":
                self.problem = ""
            elif word == "failed":
                self.problem = f"The command could not be started: {rest}."
            elif word == "exited":
                self.exit_code = int(rest)
            elif word == "ended":
                self.outlived = int(rest)
        if not data:
            self._disconnect()

    def _disconnect(self) -> None:
        if self.running:
            self._loop.remove_reader(self._control.fileno())
            self._control.close()
        self._ended.set()


class SupervisorClient:
    """Starts processes through the launcher program (`supervisor.main`) of one workspace, which it runs when it is first
    needed. `limits` as in `LocalWorkspace`."""

    def __init__(self, environ: Mapping[str, str], limits: Mapping[str, int]) -> None:
        self._environ = dict(environ)
        self._limits = dict(limits)
        self._socket: socket.socket | None = None
        self._launcher: subprocess.Popen[bytes] | None = None
        self._starting = asyncio.Lock()
        self._early: asyncio.Future[None] | None = None
        """The start of the launcher before a command is ready for it."""
        self._closed = False

    def start_early(self) -> None:
        """Start the launcher, if none was started: it takes as long as judging and preparing a session's first command."""
        if self._launcher is None and self._early is None and not (self._starting.locked() or self._closed):
            self._early = asyncio.get_running_loop().run_in_executor(None, self._start)

    async def ready(self) -> None:
        """Start the launcher if it is not running. Raises ToolError if it cannot be started, or after `close`."""
        await asyncio.shield(self._ready())  # a cancelled caller leaves no launcher that `close` does not know

    async def _ready(self) -> None:
        async with self._starting:
            if self._closed:
                raise ToolError("The workspace is closed; no command can be started.")
            await self._started_early()
            if self._launcher is None or self._launcher.poll() is not None:
                self._close_socket()
                await asyncio.to_thread(self._start)

    async def _started_early(self) -> None:
        early, self._early = self._early, None
        if early is not None:
            with contextlib.suppress(ToolError, OSError):  # `ready` tries again
                await early

    def launch(self, agent: str, *, into: Sequence[int] = ()) -> Process:
        """A process that waits for its request. Its output goes to the files `into` (standard output, standard error, and
        the file of its standard input), or through a pipe. Raises ToolError."""
        assert self._socket is not None
        ours, theirs = socket.socketpair()
        pipes = () if into else (os.pipe(),)
        for reading, _ in pipes:  # more than the usual 64 KB, so that a program with much output waits less often
            with contextlib.suppress(AttributeError, OSError):
                fcntl.fcntl(reading, fcntl.F_SETPIPE_SZ, PIPE)
        try:
            socket.send_fds(self._socket, [b"+"], [theirs.fileno(), *into, *(writing for _, writing in pipes)])
        except OSError as error:
            ours.close()
            for reading, _ in pipes:
                os.close(reading)
            gone = isinstance(error, BrokenPipeError)
            raise ToolError(
                SUPERVISOR_ENDED if gone else f"Commands cannot be started: {error.strerror or error}."
            ) from error
        finally:
            theirs.close()
            for _, writing in pipes:
                os.close(writing)
        return Process(agent, ours, pipes[0][0] if pipes else None)

    def request(
        self,
        argv: Sequence[str],
        cwd: Path,
        environ: Mapping[str, str],
        *,
        plan: SandboxPlan | None = None,
        limits: Mapping[str, int] = MappingProxyType({}),
    ) -> bytes:
        """The request that a supervisor reads: folder, limits, sandbox plan, program with arguments, environment. `limits`
        apply in addition to those of the workspace. Raises ToolError for invalid arguments."""
        limited = " ".join(f"{name}={value}" for name, value in (*self._limits.items(), *limits.items()))
        try:
            words = [os.fsencode(word) for word in argv]
        except UnicodeEncodeError:
            raise ToolError("The command contains characters that are not valid text (lone surrogates).") from None
        if any(b"\0" in word for word in words):
            raise ToolError("The command contains a NUL character.")
        pairs = [os.fsencode(f"{name}={value}") for name, value in {**environ, "PWD": str(cwd)}.items()]
        sandbox = [b"0"] if plan is None else plan.fields()
        body = b"\0".join([os.fsencode(cwd), limited.encode(), *sandbox, str(len(words)).encode(), *words, *pairs])
        return len(body).to_bytes(8, "big") + body

    async def close(self) -> None:
        """Close the launcher, which ends all remaining processes and then itself."""
        async with self._starting:
            self._closed = True
            await self._started_early()
            self._close_socket()
        if self._launcher is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                # a process cannot be killed; the launcher waits for it
                await asyncio.to_thread(self._launcher.wait, END_S)

    def _close_socket(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        package = str(Path(__file__).parents[3])
        try:
            self._launcher = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _LAUNCHER, package, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=self._environ,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise ToolError(
                PROCESS_LIMIT if is_process_limit(error) else f"Commands cannot be started: {error}."
            ) from error
        finally:
            theirs.close()
        self._socket = ours
