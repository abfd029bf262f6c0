"""A program that Friday talks to through its standard input and output, such as an MCP server."""

from __future__ import annotations

import asyncio
import contextlib
import os
from asyncio.streams import FlowControlMixin
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from friday_cli.core.protocol.errors import ToolError

from . import linux
from .client import END_S, PIPE, Process
from .output import HeadTailBuffer

CLOSE_S = 2.0
"""Seconds that a server has to end after its input was closed."""
ERRORS = 4_000
"""Bytes of the standard error output that are kept: its end."""
READ = 256 * 1024
"""Bytes that are read at once."""


class ServerProgram(NamedTuple):
    """A server program to run. `environ` is its whole environment. `confined`: in the sandbox of commands, with the network only if
    `network`. `cwd` None: the folder of the workspace. `data`: a folder of the server, which is made, and which it can write in the sandbox.
    `writes`: what else it may write there, and it reads no secret file of the workspace (None: as commands). `elsewhere`: folders that it
    sees at other places, by the place, which is made; only where `LocalWorkspace.can_show_elsewhere`. `freeze`: what exists inside of
    `writes` and must not change, which Landlock cannot prevent. `only_port` and `record` as in `SandboxPlan`."""

    argv: Sequence[str]
    environ: Mapping[str, str]
    cwd: Path | None = None
    confined: bool = False
    network: bool = False
    data: Path | None = None
    writes: tuple[Path, ...] | None = None
    freeze: tuple[Path, ...] = ()
    only_port: int = 0
    record: bool = False
    elsewhere: Mapping[Path, Path] = {}


class Executed(NamedTuple):
    """A program that a server or what it started executed: the number of its process, and of those above it (the nearest first)."""

    pid: int
    above: list[int]
    words: list[str]


class Pipes:
    """The pipes of a server. `theirs` are the ends of the server in the order of `SupervisorClient.launch`."""

    def __init__(self) -> None:
        out, err, given = os.pipe(), os.pipe(), os.pipe()
        self.theirs = (out[1], err[1], given[0])
        self.ours = (out[0], err[0], given[1])

    def close_theirs(self) -> None:
        """Close the ends that the server has copies of."""
        for fd in self.theirs:
            os.close(fd)

    def close_ours(self) -> None:
        """Close our ends, if no `ServerProcess` takes them."""
        for fd in self.ours:
            os.close(fd)


class ServerProcess:
    """A running server. Make one with `connect`."""

    def __init__(
        self,
        process: Process,
        reader: asyncio.StreamReader,
        errors: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        transports: Sequence[asyncio.BaseTransport],
        ended: Callable[[], Awaitable[None]] | None,
    ) -> None:
        self._process, self._reader, self._writer = process, reader, writer
        self._errors = HeadTailBuffer(0, ERRORS)
        self._transports, self._ended = transports, ended
        self._listening = asyncio.create_task(self._listen(errors))

    @classmethod
    async def connect(
        cls, process: Process, pipes: Pipes, ended: Callable[[], Awaitable[None]] | None
    ) -> ServerProcess:
        """The server behind our ends of `pipes`. `ended` is called after it has ended."""
        loop = asyncio.get_running_loop()
        readers, transports = [], []
        for fd in pipes.ours[:2]:
            reader = asyncio.StreamReader(limit=PIPE)
            file = os.fdopen(fd, "rb", buffering=0)
            transport, _ = await loop.connect_read_pipe(lambda r=reader: asyncio.StreamReaderProtocol(r), file)  # type: ignore[misc]
            readers.append(reader)
            transports.append(transport)
        input_file = os.fdopen(pipes.ours[2], "wb", buffering=0)
        sending, protocol = await loop.connect_write_pipe(FlowControlMixin, input_file)
        return cls(
            process, readers[0], readers[1], asyncio.StreamWriter(sending, protocol, None, loop), transports, ended
        )

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while unknown."""
        return self._process.exit_code

    @property
    def executed(self) -> list[Executed] | None:
        """The programs that it executed so far, itself the first; None if nothing was recorded."""
        import json  # few servers are recorded

        rows = [json.loads(line.partition(b" ")[2]) for line in self._process.executed]
        return [Executed(pid, above, words) for pid, above, words in rows] or None

    @property
    def recorded_whole(self) -> bool:
        """Whether `executed` has all of them: the report has a limit."""
        return self._process.executed_whole

    @property
    def errors(self) -> str:
        """The end of what it wrote to its standard error output."""
        return self._errors.text().strip()

    def memory(self) -> int:
        """Bytes of memory that it and all that it started take; 0 if that is not known. Blocks."""
        pipe = self._writer.transport.get_extra_info("pipe")
        return 0 if pipe.closed else linux.memory_behind(pipe.fileno())

    async def read(self) -> bytes:
        """The next bytes of its output, b"" at the end."""
        return await self._reader.read(READ)

    async def write_all(self, data: bytes) -> None:
        """Write to its input, and wait until most of it is read. Raises OSError if it reads no longer."""
        self._writer.write(data)
        await self._writer.drain()

    @property
    def unsent(self) -> int:
        """Bytes that it has not read yet."""
        return self._writer.transport.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        """As `write_all`, without waiting."""
        self._writer.write(data)

    async def wait(self) -> None:
        """Wait until it and all its processes have ended. Raises ToolError if it could not be started."""
        await self._process.wait()

    async def end(self, close_s: float = CLOSE_S) -> None:
        """Close its input, and end it with all its processes if it has not ended after `close_s`."""
        self._writer.close()
        with contextlib.suppress(TimeoutError, ToolError):
            await asyncio.wait_for(self._process.wait(), close_s)
        await self._process.end()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._listening, END_S)
        for transport in self._transports:
            transport.close()
        if self._ended is not None:
            await self._ended()

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(READ):
            self._errors.feed(data)
