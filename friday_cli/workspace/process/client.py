"""Friday's end of the warden: start a program, hear of its end, end it with all it started."""

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

from friday_cli.core.protocol.errors import ToolError

from ..sandbox.plan import SandboxPlan

_WARDEN = "import sys; sys.path.append(sys.argv[1]); from friday_cli.workspace.process.supervisor import main; main(int(sys.argv[2]))"
END_S = 2.0
"""How long ending a command with all it started may take."""
PIPE = 512 * 1024
"""Bytes a pipe may hold, where the kernel lets us say so."""
READ = 256 * 1024
"""Bytes that are taken at once."""
FLOOD, FLOOD_S = 64 * 1024, 0.002
"""Bytes after which output counts as a flood, and the pause between two looks at it: a look at each line costs more."""
PIPE_S = 1.0
"""How long the pipes of a command that is gone may stay open."""


class Process:
    """A running program. `agent` owns it; `exit_code` is negative for a signal, None while unknown."""

    def __init__(self, agent: str, control: socket.socket, output: int | None) -> None:
        self.agent = agent
        self.exit_code: int | None = None
        self.left = 0
        self.problem = "Commands cannot be started: the program that keeps them ended."
        self._control, self._output = control, output
        self._gone = asyncio.Event()
        self._begun = False
        self._heard = b""
        control.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(control.fileno(), self._hear)

    @property
    def running(self) -> bool:
        return not self._gone.is_set()

    async def begin(self, request: bytes) -> None:
        """Hand the keeper what to run."""
        try:
            await self._loop.sock_sendall(self._control, request)
        except OSError:
            pass  # the keeper is gone already: `wait` tells
        self._begun = True

    async def wait(self) -> None:
        """Returns when the program and everything it started are gone. Raises ToolError when it could not be started."""
        await self._gone.wait()
        if self.problem:
            raise ToolError(self.problem)

    async def end(self) -> None:
        """End the program and everything it started; returns when they are gone, after `END_S` at the latest."""
        self.stop()
        if self.running:
            try:
                await asyncio.wait_for(self._gone.wait(), END_S)
            except TimeoutError:
                pass  # in the kernel's hands (a dead disk, say); the keeper goes on trying

    def stop(self) -> None:
        """Begin to end the program; `wait` tells when it is done."""
        if self.running and not self._begun:
            self._hang_up()  # nothing was started, and half a request is none
        elif self.running:
            try:
                self._control.send(b"x")
            except OSError:
                pass  # already ending

    async def pump(self, take: Callable[[bytes], object]) -> None:
        """Read the output until it ends and hand over what comes.

        `take` may return an awaitable, which is waited for before more is read.
        """
        fd = self._output
        assert fd is not None
        reader = asyncio.StreamReader(limit=PIPE)
        pipe = os.fdopen(fd, "rb", buffering=0)
        transport, _ = await self._loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        gone = asyncio.create_task(self._stay(reader))
        taken = 0
        try:
            while data := await reader.read(READ):
                taken += len(data)
                # with less than was asked for the reader is empty, so it has not paused the pipe itself: resuming a pipe
                # that it holds back would let it take in everything
                flood = taken > FLOOD and len(data) < READ
                if flood:
                    transport.pause_reading()
                waiting = take(data)
                if asyncio.iscoroutine(waiting):
                    await waiting
                if flood:
                    await asyncio.sleep(FLOOD_S)
                    transport.resume_reading()
        finally:
            gone.cancel()
            transport.close()

    async def _stay(self, reader: asyncio.StreamReader) -> None:
        """The pipe ends with its last holder; where one escaped all the same, it ends with our patience."""
        await self._gone.wait()
        await asyncio.sleep(PIPE_S)
        reader.feed_eof()

    def _hear(self) -> None:
        try:
            data = self._control.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            word, _, rest = line.decode().partition(" ")
            if word == "started":
                self.problem = ""
            elif word == "failed":
                self.problem = f"The command could not be started: {rest}."
            elif word == "exited":
                self.exit_code = int(rest)
            elif word == "ended":
                self.left = int(rest)
        if not data:
            self._hang_up()

    def _hang_up(self) -> None:
        self._loop.remove_reader(self._control.fileno())
        self._control.close()
        self._gone.set()


class SupervisorClient:
    """The helper program of one workspace, started when it is first needed."""

    def __init__(self, environ: Mapping[str, str], limits: Mapping[str, int]) -> None:
        self._environ = dict(environ)
        self._limits = " ".join(f"{name}={value}" for name, value in limits.items()).encode()
        self._door: socket.socket | None = None
        self._program: subprocess.Popen[bytes] | None = None
        self._starting = asyncio.Lock()

    async def ready(self) -> None:
        """Start the helper if it does not run. Raises ToolError."""
        async with self._starting:
            if self._program is None or self._program.poll() is not None:
                self._shut()
                await asyncio.to_thread(self._start)

    def launch(self, agent: str, *, into: Sequence[int] = ()) -> Process:
        """A process that waits for its request. What it prints goes to the files `into`, its standard output and errors,
        or comes through a pipe. Raises ToolError."""
        assert self._door is not None
        ours, theirs = socket.socketpair()
        pipes = () if into else (_pipe(),)
        try:
            socket.send_fds(self._door, [b"+"], [theirs.fileno(), *into, *(writing for _, writing in pipes)])
        except OSError as error:
            ours.close()
            for reading, _ in pipes:
                os.close(reading)
            raise ToolError(f"Commands cannot be started: {error.strerror or error}.") from error
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
        most: int = 0,
    ) -> bytes:
        """What a keeper reads: where, within which limits, how confined, what, in which environment. A program that
        writes more than `most` bytes to a file is ended."""
        limits = self._limits + b" fsize=%d" % most if most else self._limits
        environ = {**environ, "PWD": str(cwd)}
        try:
            words = [os.fsencode(word) for word in argv]
        except UnicodeEncodeError:
            raise ToolError("The command holds characters that are no text (lone surrogates).") from None
        if any(b"\0" in word for word in words):
            raise ToolError("The command holds a NUL character.")
        pairs = [os.fsencode(f"{name}={value}") for name, value in environ.items()]
        confined = [b"0"] if plan is None else plan.fields()
        body = b"\0".join([os.fsencode(cwd), limits, *confined, str(len(words)).encode(), *words, *pairs])
        return len(body).to_bytes(8, "big") + body

    async def close(self) -> None:
        """Let the helper go; it ends what may still be there, and itself."""
        async with self._starting:
            program = self._program
            self._shut()
        if program is not None:
            try:
                await asyncio.to_thread(program.wait, END_S)
            except subprocess.TimeoutExpired:
                pass  # something cannot be killed; the helper stays for it

    def _shut(self) -> None:
        if self._door is not None:
            self._door.close()
            self._door = None

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        package = str(Path(__file__).parents[3])
        try:
            self._program = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _WARDEN, package, str(theirs.fileno())],
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
            raise ToolError(f"Commands cannot be started: {error}.") from error
        finally:
            theirs.close()
        self._door = ours


def _pipe() -> tuple[int, int]:
    """A pipe that holds more than the usual 64 KB, so that a program with much to say waits less often."""
    reading, writing = os.pipe()
    with contextlib.suppress(AttributeError, OSError):
        fcntl.fcntl(reading, fcntl.F_SETPIPE_SZ, PIPE)
    return reading, writing
