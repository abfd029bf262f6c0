"""A program in a pseudo-terminal of 120 x 40 that is read as fast as it writes, with a clock."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

ALTERNATE = "\x1b[?1049h"
TICKS = os.sysconf("SC_CLK_TCK")
PATIENCE_S = 60.0


class Terminal:
    """A running program; `out` is all it wrote, from `alternate` on to its own screen. Times are monotonic seconds. It is killed at the end."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        self.out = bytearray()
        self.alternate = 0
        self.begun = time.monotonic()
        self.pid, self._fd = pty.fork()
        if not self.pid:
            os.chdir(cwd)
            os.execve(argv[0], list(argv), {**env, "TERM": "xterm-256color", "COLORTERM": "truecolor"})
        self.resize(120, 40, tell=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._fd)

    def resize(self, width: int, height: int, *, tell: bool = True) -> None:
        """Give the terminal another size."""
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        if tell:
            os.kill(self.pid, signal.SIGWINCH)

    def type(self, text: str) -> None:
        """Type a text, in one burst."""
        os.write(self._fd, text.encode())

    def read(self, seconds: float) -> bool:
        """Take what comes within a time; False when nothing came."""
        if not select.select([self._fd], [], [], max(seconds, 0))[0]:
            return False
        self.out += os.read(self._fd, 65_536)
        return True

    def rest(self, seconds: float) -> None:
        """Read for a time."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.read(left)

    def until(self, wanted: str, after: int = 0) -> float:
        """Read until a text is written behind the first `after` bytes; gives when. Raises RuntimeError without it."""
        sought = wanted.encode()
        end = time.monotonic() + PATIENCE_S
        while self.out.find(sought, after) < 0:
            if time.monotonic() > end:
                raise RuntimeError(f"{wanted!r} was not shown: {bytes(self.out[-3000:])!r}")
            self.read(0.5)
        return time.monotonic()

    def shown(self) -> float:
        """Read until the program has taken the screen: before it, the terminal itself shows what is typed."""
        when = self.until(ALTERNATE)
        self.alternate = self.out.find(ALTERNATE.encode())
        return when

    def echo_of(self, sign: str) -> float:
        """Type a sign that was never on the screen; gives the seconds until it is."""
        at, begun = len(self.out), time.monotonic()
        self.type(sign)
        return self.until(sign, at) - begun

    def cpu_s(self) -> float:
        """Processor seconds that its processes have used."""
        stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in self._processes()]
        return sum(int(fields[11]) + int(fields[12]) for fields in stats) / TICKS

    def memory_mb(self) -> float:
        """The memory of its processes now; pages that several have are divided among them."""
        rollups = [Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in self._processes()]
        return sum(int(rollup.partition("\nPss:")[2].split()[0]) for rollup in rollups) / 1024

    def _processes(self) -> Iterator[int]:
        """The process that the terminal started, which only waits, and those below it: one of them is the chat."""
        pids = [self.pid]
        for pid in pids:
            yield pid
            pids += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


def signs() -> Iterator[str]:
    """Letters that no screen shows otherwise, each once."""
    return (chr(code) for code in range(0x0100, 0x0250))
