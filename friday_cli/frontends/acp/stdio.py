"""Standard input and output as the channel of the Agent Client Protocol.

Source: agentclientprotocol.com, "Transports". Standard output carries messages and nothing else: what anything else in the
process prints goes to standard error.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from typing import BinaryIO

READ = 256 * 1024
"""Bytes that are read at once."""


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
