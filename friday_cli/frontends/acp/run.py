"""Runs `friday acp` over standard input and output.

Source: agentclientprotocol.com, "Transports". Standard output carries messages and nothing else: what anything else in the
process prints goes to standard error.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from friday_cli.session.session import Options
from friday_cli.system import event_loop
from friday_cli.system.blocked_process import BlockedWatch
from friday_cli.system.paths import working_folder

from ..options import session_options
from .agent import AcpAgent

READ = 256 * 1024
"""Bytes that are read at once."""


def acp(values: Mapping[str, Any]) -> int:
    """Serve until standard input ends, or a signal comes; returns the exit code. `values`: those of `options.OPTIONS`."""
    sink, config = claim_stdout(), values["config"]
    file = Path(config).absolute() if config else None
    options = session_options(values, working_folder(None), resume=None, config_file=file)
    event_loop.run(_serve(options, sink))
    return 0


async def _serve(options: Options, sink: BinaryIO) -> None:
    agent = AcpAgent(options, StdioChannel(sys.stdin.buffer, sink))
    loop, signalled = asyncio.get_running_loop(), asyncio.Event()
    watch = BlockedWatch()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        loop.add_signal_handler(number, signalled.set)
    serving, waiting = asyncio.create_task(agent.connection.serve()), asyncio.create_task(signalled.wait())
    await asyncio.wait([serving, waiting], return_when=asyncio.FIRST_COMPLETED)
    watch.stopping(1)
    for task in (serving, waiting):
        task.cancel()
    await asyncio.gather(serving, waiting, return_exceptions=True)
    await agent.close()


class StdioChannel:
    """Reads `source` in a thread: standard input may be a file, which an event loop cannot wait for."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source, self._sink = source, sink
        self._came: asyncio.Queue[bytes] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, args=(loop,), daemon=True, name="acp input").start()

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        ended = False
        while not ended:
            data = os.read(self._source.fileno(), READ)
            ended = not data
            try:
                loop.call_soon_threadsafe(self._came.put_nowait, data)
            except RuntimeError:
                ended = True  # the loop is closed

    async def read(self) -> bytes:
        """What came, b"" at the end."""
        return await self._came.get()

    def write(self, data: bytes) -> None:
        """Raises OSError or ValueError if the client has closed its end."""
        self._sink.write(data)
        self._sink.flush()


def claim_stdout() -> BinaryIO:
    """The standard output for messages. From now on what else writes to file descriptor 1 is seen on standard error."""
    sys.stdout.flush()
    mine = os.fdopen(os.dup(1), "wb")  # a raw file may write a part only
    os.dup2(2, 1)
    return mine
