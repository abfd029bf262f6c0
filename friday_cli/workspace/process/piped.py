"""Runs a program that gets a text on its standard input and answers on its output, such as a hook."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from friday_cli.core.protocol.errors import ToolError

from .client import END_S, SUPERVISOR_ENDED, Process
from .output import unnamed_file

READ = 64 * 1024
"""Bytes that are read at once."""


class PipedProgram(NamedTuple):
    """A program to run: `argv` begins with an absolute path. `environ` is its whole environment, `given` its input. It is ended after `timeout_s` seconds, and when
    one of its outputs is longer than `limit` bytes. `confined`: in the sandbox of commands, where it may write
    only `writes` (None: what commands may write)."""

    argv: Sequence[str]
    given: bytes
    environ: Mapping[str, str]
    timeout_s: float
    limit: int
    cwd: Path | None = None
    confined: bool = False
    writes: tuple[Path, ...] | None = None


class PipedResult(NamedTuple):
    """How it ended. `exit_code` is None if it was ended (`ended` says why), or killed together with its supervisor."""

    exit_code: int | None
    out: bytes
    err: bytes
    ended: Literal["", "timeout", "output"] = ""


class OutputPipes:
    """Pipes for the output and the errors of a program. `theirs` are the program's ends and the file of its input."""

    def __init__(self, given: bytes) -> None:
        self._input = unnamed_file()
        self._input.write(given)
        self._input.seek(0)
        out, err = os.pipe(), os.pipe()
        self.ours = (out[0], err[0])
        self._writing = (out[1], err[1])
        self.theirs = (*self._writing, self._input.fileno())

    def close_theirs(self) -> None:
        """Close the ends that the program has copies of."""
        self._input.close()
        for fd in self._writing:
            os.close(fd)

    def close_ours(self) -> None:
        """Close the ends to read from, if nothing reads them."""
        for fd in self.ours:
            os.close(fd)


async def run_piped(process: Process, pipes: OutputPipes, request: bytes, program: PipedProgram) -> PipedResult:
    """Run `program` in `process`, until it and everything it started have ended. Raises ToolError if it could not be
    started."""
    loop = asyncio.get_running_loop()
    readers, transports = [], []
    for fd in pipes.ours:
        reader = asyncio.StreamReader(limit=READ)
        file = os.fdopen(fd, "rb", buffering=0)
        transport, _ = await loop.connect_read_pipe(lambda r=reader: asyncio.StreamReaderProtocol(r), file)  # type: ignore[misc]
        readers.append(reader)
        transports.append(transport)
    ended: Literal["", "timeout", "output"] = ""
    found = [bytearray(), bytearray()]
    tasks = [asyncio.create_task(_read(*pair, program.limit)) for pair in zip(readers, found, strict=True)]
    whole = asyncio.ensure_future(asyncio.gather(process.wait(), *tasks))
    try:
        await process.begin(request)
        async with asyncio.timeout(program.timeout_s):
            await whole
    except TimeoutError:
        ended = "timeout"
    except ToolError:
        if process.problem != SUPERVISOR_ENDED:
            raise
    except _TooMuch:
        ended = "output"
    finally:
        whole.cancel()
        await asyncio.shield(process.end())
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=END_S)
        for transport in transports:
            transport.close()
    return PipedResult(None if ended else process.exit_code, bytes(found[0]), bytes(found[1]), ended)


class _TooMuch(Exception):
    """The program wrote more than its limit."""


async def _read(reader: asyncio.StreamReader, found: bytearray, limit: int) -> None:
    while data := await reader.read(READ):
        found += data[: limit - len(found)]
        if len(data) and len(found) >= limit:
            raise _TooMuch
