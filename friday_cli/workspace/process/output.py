"""The output of a command: head and tail in memory, all of it in a file, and a live view."""

from __future__ import annotations

import asyncio
import codecs
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from friday_cli.system.temporary_folder import TemporaryFolder

HEAD, TAIL = 10_000, 20_000
"""Bytes of a command's output that are kept in memory and returned to a model."""
SPILL = 64 * 1024 * 1024
"""Bytes of a command's output that are kept on disk."""
LIVE_S, LIVE = 0.05, 8192
"""Seconds between two looks of a person at running output, and the characters that each shows."""


class OverflowFolder:
    """The folder for output too long for memory: the given one, or a temporary one that is created when it is first
    needed. `path` is None until then."""

    def __init__(self, folder: Path | None) -> None:
        self.path = Path(os.path.realpath(folder)) if folder is not None else None
        self._temporary: TemporaryFolder | None = None

    def folder(self) -> Path:
        """Create the folder (mode 0700) if needed and return it. Raises OSError."""
        if self.path is None:
            from friday_cli.system.temporary_folder import TemporaryFolder  # most outputs fit into memory

            self._temporary = TemporaryFolder()
            self.path = Path(self._temporary.path)
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.path

    def close(self) -> None:
        """Remove the folder if it is a temporary one."""
        if self._temporary is not None:
            self._temporary.close()


class HeadTailBuffer:
    """The first `head` and the last `tail` bytes of a stream of any length."""

    def __init__(self, head: int = HEAD, tail: int = TAIL) -> None:
        self._head_size, self._tail_size = head, tail
        self._head, self._tail = bytearray(), bytearray()
        self.total = 0
        self._lines = 0

    @property
    def cut(self) -> bool:
        """Whether bytes between head and tail were dropped."""
        return self.total > self._head_size + self._tail_size

    def feed(self, data: bytes) -> None:
        """Append bytes of the stream."""
        self.total += len(data)
        self._lines += data.count(b"\n")
        if room := self._head_size - len(self._head):
            self._head += data[:room]
            data = data[room:]
        self._tail += data[-self._tail_size :]
        if len(self._tail) > 4 * self._tail_size:
            del self._tail[: -self._tail_size]

    def whole(self) -> bytes:
        """The whole stream; only valid while `cut` is False."""
        return bytes(self._head + self._tail)

    def text(self, where: str = "") -> str:
        """Head and tail as text, cut at nearby line ends; `where` says where the full output is."""
        if not self.cut:
            return self.whole().decode("utf-8", "replace")
        head, tail = bytes(self._head), bytes(self._tail[-self._tail_size :])
        if (end := head.rfind(b"\n")) > len(head) - 2000:
            head = head[: end + 1]
        if 0 <= (start := tail.find(b"\n")) < 2000:
            tail = tail[start + 1 :]
        lines = self._lines - head.count(b"\n") - tail.count(b"\n")
        omitted = f"[... {self.total - len(head) - len(tail):,} bytes, {lines:,} lines left out{where} ...]"
        first = head.decode("utf-8", "replace")
        return f"{first}{'' if first.endswith(chr(10)) else chr(10)}{omitted}\n{tail.decode('utf-8', 'replace')}"


class OutputCapture:
    """Captures a command's output: head and tail (`shown` bytes) in memory, and once it is longer, all of it in a file of
    at most `SPILL` bytes. `folder` returns (and creates) the folder of that file; `output_file` is its path, "" before."""

    def __init__(self, folder: Callable[[], Path], *, shown: int = HEAD + TAIL) -> None:
        self._folder, self._shown = folder, shown
        self._buffer = HeadTailBuffer(shown // 3, shown - shown // 3)
        self.fresh = HeadTailBuffer()
        """The output since it was last read; the reader replaces it."""
        self._file: int | None = None
        self._saved = 0
        self._problem = ""
        self.output_file = ""

    @property
    def total(self) -> int:
        """Bytes of output so far."""
        return self._buffer.total

    def wants_disk(self, data: bytes) -> bool:
        """Whether feeding `data` will write to disk."""
        return self.total + len(data) > self._shown and not self._problem and self._saved < SPILL

    def feed(self, data: bytes) -> None:
        """Append output. May block on the disk: see `wants_disk`."""
        if self.wants_disk(data):
            self._write(data)
        self._buffer.feed(data)
        self.fresh.feed(data)

    def close(self) -> None:
        """Close the file, which stays."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def text(self) -> str:
        """Head and tail as text, with the path of the full output."""
        return self._buffer.text(self.where())

    def where(self) -> str:
        """Where the full output is, as a clause for the marker between head and tail."""
        if self._problem:
            return f"; the full output could not be saved: {self._problem}"
        if self.total > self._saved:
            return f"; the first {self._saved:,} bytes of the output are in {self.output_file}"
        return f"; the full output is in {self.output_file}" if self.output_file else ""

    def _write(self, data: bytes) -> None:
        try:
            if self._file is None and not self.output_file:
                import tempfile

                self._file, self.output_file = tempfile.mkstemp(prefix="output-", suffix=".txt", dir=self._folder())
                data = self._buffer.whole() + data
            if self._file is not None:
                data = data[: SPILL - self._saved]
                while data:
                    written = os.write(self._file, data)
                    self._saved += written
                    data = data[written:]
        except OSError as error:
            self._problem = error.strerror or str(error)
            self.close()


def keep_output(folder: Callable[[], Path], data: bytes) -> str:
    """Write `data` to a new file; returns its path. Raises OSError."""
    import tempfile

    file, path = tempfile.mkstemp(prefix="result-", suffix=".txt", dir=folder())
    with os.fdopen(file, "wb") as stream:
        stream.write(data)
    return path


def unnamed_file() -> BinaryIO:
    """A file without a name, in memory if the system supports it. A program finishes sooner with it than with a pipe that
    must be drained."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("output"), "w+b", buffering=0)
    import tempfile

    return tempfile.TemporaryFile(buffering=0)


class LiveOutput:
    """Passes output to `show` as text, every `LIVE_S` seconds at most, and each time its last `LIVE` characters."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._pending = ""
        self._timer: asyncio.TimerHandle | None = None

    def feed(self, data: bytes) -> None:
        self._pending = (self._pending + self._decode(data))[-LIVE:]
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LIVE_S, self.flush)

    def flush(self) -> None:
        """Show the pending text now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._pending:
            text, self._pending = self._pending, ""
            self._show(text)
