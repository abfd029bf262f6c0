"""What a command prints: the beginning and the end in memory, all of it in a file, some of it live."""

from __future__ import annotations

import asyncio
import codecs
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

HEAD, TAIL = 10_000, 20_000
"""Bytes of a command's output that are kept in memory and given to a model."""
SPILL = 64 * 1024 * 1024
"""Bytes of a command's output that are kept on disk."""


class OverflowFolder:
    """The folder for output too long to keep in memory: the one that is given, else a temporary one, made where it is
    wanted. `path` is None until then."""

    def __init__(self, folder: Path | None) -> None:
        self.path = Path(os.path.realpath(folder)) if folder is not None else None
        self._temporary: Path | None = None

    def folder(self) -> Path:
        """The folder (0700), which is there from now on. Raises OSError."""
        if self.path is None:
            self.path = self._temporary = Path(os.path.realpath(tempfile.mkdtemp(prefix="friday-")))
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.path

    def close(self) -> None:
        """Remove a temporary one."""
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)


class HeadTailBuffer:
    """The first `head` and the last `tail` bytes of a stream of any length."""

    def __init__(self, head: int = HEAD, tail: int = TAIL) -> None:
        self._most, self._last = head, tail
        self._head, self._tail = bytearray(), bytearray()
        self.total = 0
        self._lines = 0

    @property
    def cut(self) -> bool:
        """Whether something between head and tail is lost here."""
        return self.total > self._most + self._last

    def feed(self, data: bytes) -> None:
        """Take more of the stream."""
        self.total += len(data)
        self._lines += data.count(b"\n")
        if room := self._most - len(self._head):
            self._head += data[:room]
            data = data[room:]
        self._tail += data[-self._last :]
        if len(self._tail) > 4 * self._last:
            del self._tail[: -self._last]

    def whole(self) -> bytes:
        """All that came, while nothing is cut."""
        return bytes(self._head + self._tail)

    def text(self, where: str = "") -> str:
        """Head and tail as text, cut at line ends where one is near; `where` says where the rest is."""
        if not self.cut:
            return self.whole().decode("utf-8", "replace")
        head, tail = bytes(self._head), bytes(self._tail[-self._last :])
        if (end := head.rfind(b"\n")) > len(head) - 2000:
            head = head[: end + 1]
        if 0 <= (start := tail.find(b"\n")) < 2000:
            tail = tail[start + 1 :]
        lines = self._lines - head.count(b"\n") - tail.count(b"\n")
        gone = f"[... {self.total - len(head) - len(tail):,} bytes, {lines:,} lines left out{where} ...]"
        first = head.decode("utf-8", "replace")
        return f"{first}{'' if first.endswith(chr(10)) else chr(10)}{gone}\n{tail.decode('utf-8', 'replace')}"


class OutputCapture:
    """A command's whole output: a window on it, and a file with all of it once the window does not hold it any more.

    `folder` gives (and makes) the folder of that file when it is needed; the window holds `shown` bytes.
    """

    def __init__(self, folder: Callable[[], Path], *, shown: int = HEAD + TAIL, most: int = SPILL) -> None:
        self._folder, self._most, self._shown = folder, most, shown
        self._window = HeadTailBuffer(shown // 3, shown - shown // 3)
        self.fresh = HeadTailBuffer()
        """What came since somebody last looked; replaced by the one who looks."""
        self._file: int | None = None
        self._kept = 0
        self._problem = ""
        self.spill = ""

    @property
    def total(self) -> int:
        return self._window.total

    def wants_disk(self, data: bytes) -> bool:
        """Whether feeding `data` will write to disk."""
        return self.total + len(data) > self._shown and not self._problem and self._kept < self._most

    def feed(self, data: bytes) -> None:
        """Take more output. May block on the disk: see `wants_disk`."""
        if self.wants_disk(data):
            self._write(data)
        self._window.feed(data)
        self.fresh.feed(data)

    def close(self) -> None:
        """Close the file; what was kept stays."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def text(self) -> str:
        """Head and tail, with where the rest is."""
        return self._window.text(self.where())

    def where(self) -> str:
        """Words that say where the whole output is, for the gap between head and tail."""
        if self._problem:
            return f"; the rest could not be kept: {self._problem}"
        if self.total > self._kept:
            return f"; the first {self._kept:,} bytes of it all are in {self.spill}"
        return f"; all of it is in {self.spill}" if self.spill else ""

    def _write(self, data: bytes) -> None:
        try:
            if self._file is None and not self.spill:
                self._file, self.spill = tempfile.mkstemp(prefix="output-", suffix=".txt", dir=self._folder())
                data = self._window.whole() + data
            if self._file is not None:
                data = data[: self._most - self._kept]
                while data:
                    written = os.write(self._file, data)
                    self._kept += written
                    data = data[written:]
        except OSError as error:
            self._problem = error.strerror or str(error)
            self.close()


def unnamed() -> BinaryIO:
    """A file without a name, in memory where the system has such: a program is done sooner with it than with a pipe,
    which somebody has to empty."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("output"), "w+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)


class LiveOutput:
    """Passes output on to a person's eyes: now and then, as text, and of a flood only the end of each portion."""

    def __init__(self, show: Callable[[str], None], *, every_s: float = 0.05, most: int = 8192) -> None:
        self._show, self._every, self._most = show, every_s, most
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._waiting = ""
        self._timer: asyncio.TimerHandle | None = None

    def feed(self, data: bytes) -> None:
        self._waiting = (self._waiting + self._decode(data))[-self._most :]
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._every, self.flush)

    def flush(self) -> None:
        """Show what waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            text, self._waiting = self._waiting, ""
            self._show(text)
