"""The real `friday` in a real pseudo-terminal, for tests."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from pathlib import Path
from typing import Any, Self

ON = (b"\x1b[?1049h", b"\x1b[?1000h", b"\x1b[?2004h")
OFF = (b"\x1b[?1049l", b"\x1b[?1000l", b"\x1b[?2004l", b"\x1b[?25h")


STYLES = re.compile(rb"\x1b\[[0-9;]*[mH]")
"""Styles and moves of the cursor part words where one pane ends behind another."""


def scripted(folder: Path, agents: dict[str, Any]) -> str:
    """A scenario as the name of a model."""
    (folder / ".scenario.json").write_text(json.dumps({"agents": agents, "badge": ""}))
    return f"scripted:{folder}/.scenario.json"


def _set_size(terminal: int, size: tuple[int, int]) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))


class Terminal:
    """A terminal with `friday` in it, of `size` columns and rows."""

    def __init__(
        self, folder: Path, *args: str, script: str = "", size: tuple[int, int] = (100, 30), **env: str
    ) -> None:
        self.out = b""
        self.pid, self._fd = pty.fork()
        if not self.pid:
            _set_size(0, size)
            os.chdir(folder)
            os.environ.update(TERM="xterm-256color", PYTHONPATH=str(Path(__file__).parents[3]))
            os.environ.update(env)
            program = [script] if script else ["-m", "friday_cli"]
            os.execve(
                sys.executable, [sys.executable, *program, *args], os.environ
            )  # not what readline set below Python

    def __enter__(self) -> Self:
        return self

    def resize(self, columns: int, rows: int) -> None:
        """Give the window another size."""
        _set_size(self._fd, (columns, rows))

    def __exit__(self, *_: object) -> None:
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        os.close(self._fd)

    def read(self, seconds: float) -> bool:
        """Take what comes; False when nothing more will."""
        if select.select([self._fd], [], [], seconds)[0]:
            try:
                data = os.read(self._fd, 65_536)
            except OSError:
                return False
            self.out += data
            return bool(data)
        return True

    def until(self, *texts: bytes, after: bytes = b"", seconds: float = 90.0) -> None:
        """Read until each text is on the screen, behind the last `after`."""
        end = time.monotonic() + seconds
        for wanted in texts:
            while wanted not in self._seen(wanted, after):
                assert time.monotonic() < end, f"{wanted!r} did not come: {self.out[-2_000:]!r}"
                assert self.read(0.2), f"it ended: {self.out[-2_000:]!r}"

    def _seen(self, wanted: bytes, after: bytes) -> bytes:
        out = self.out[self.out.rfind(after) if after else 0 :]
        return out if b"\x1b" in wanted else STYLES.sub(b"", out)

    def until_quiet(self, *, seconds: float = 0.8) -> None:
        """Read until nothing came for a while; also the grace in which nothing can be answered is over then."""
        size = -1
        while size != len(self.out):
            size = len(self.out)
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                self.read(0.1)

    def type(self, keys: bytes, *, until: bytes = b"") -> None:
        """Type keys, and read until a text is on the screen."""
        os.write(self._fd, keys)
        if until:
            self.until(until)

    def quit(self) -> int:
        """Leave by Ctrl+C; gives the exit code. Two presses are one wish where little time is between them: the two that
        come at once are, however late they are for the first."""
        self.type(b"\x03")
        self.until(b"Press Ctrl+C again to quit")
        self.type(b"\x03\x03")
        return self.end()

    def end(self, *, seconds: float = 60.0) -> int:
        """Read to the end; gives the exit code."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.read(0.2):
            pass
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        while not pid:
            assert time.monotonic() < end + 5, "it did not end"
            time.sleep(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status)

    def until_stopped(self) -> None:
        """Wait until the system has stopped the program, as a shell does before it resumes it."""
        assert os.WIFSTOPPED(os.waitpid(self.pid, os.WUNTRACED)[1])

    def hang_up(self, *, seconds: float = 60.0) -> None:
        """Close the window; the program has to end by itself."""
        os.close(self._fd)
        self._fd = os.open(os.devnull, os.O_RDONLY)
        end = time.monotonic() + seconds
        while not os.waitpid(self.pid, os.WNOHANG)[0]:
            assert time.monotonic() < end, "it did not end with its window"
            time.sleep(0.05)

    def ends_clean(self, code: int) -> None:
        """Read to the end, and check the exit code and that the terminal is as it was."""
        assert self.end() == code
        assert self.is_clean()

    def is_clean(self) -> bool:
        """Whether all that was switched on was switched off after it."""
        return all(self.out.rfind(off) > self.out.rfind(ON[0]) >= 0 for off in OFF)
