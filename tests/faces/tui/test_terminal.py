"""The real `friday` in a real pseudo-terminal: it starts, answers, and leaves the terminal as it was."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from pathlib import Path
from typing import Self

import pytest

ON = (b"\x1b[?1049h", b"\x1b[?1000h", b"\x1b[?2004h")
OFF = (b"\x1b[?1049l", b"\x1b[?1000l", b"\x1b[?2004l", b"\x1b[?25h")


class Terminal:
    """A terminal of 100 x 30 with `friday` in it."""

    def __init__(self, folder: Path, *args: str, script: str = "") -> None:
        self.out = b""
        self.pid, self._fd = pty.fork()
        if not self.pid:
            os.chdir(folder)
            os.environ.update(TERM="xterm-256color", PYTHONPATH=str(Path(__file__).parents[3]))
            os.execv(sys.executable, [sys.executable, *([script] if script else ["-m", "friday_cli"]), *args])
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))

    def __enter__(self) -> Self:
        return self

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

    def until(self, wanted: bytes, *, after: bytes = b"", seconds: float = 40.0) -> None:
        """Read until something is on the screen, behind the last `after`."""
        end = time.monotonic() + seconds
        while wanted not in self.out[self.out.rfind(after) if after else 0 :]:
            assert time.monotonic() < end, f"{wanted!r} did not come: {self.out[-2_000:]!r}"
            assert self.read(0.2), f"it ended: {self.out[-2_000:]!r}"

    def type(self, keys: bytes) -> None:
        os.write(self._fd, keys)

    def end(self, *, seconds: float = 20.0) -> int:
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

    def is_clean(self) -> bool:
        """Whether all that was switched on was switched off after it."""
        return all(self.out.rfind(off) > self.out.rfind(ON[0]) >= 0 for off in OFF)


def test_a_session_from_the_first_question_to_the_last_key(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello\n")
    with Terminal(tmp_path, "-m", "demo") as terminal:
        terminal.until(b"demo: scripted")
        terminal.type(b"read notes.txt\r")
        terminal.until(b"read_file")
        terminal.until(b"context")
        terminal.type(b"\x03")
        terminal.until(b"Ctrl+C again quits")
        terminal.type(b"\x03")
        assert terminal.end() == 0
        assert terminal.is_clean()
        assert b"is kept; `friday -r " in terminal.out


def test_what_is_typed_before_the_screen_is_there_is_not_lost(tmp_path: Path) -> None:
    with Terminal(tmp_path, "-m", "demo") as terminal:
        terminal.type(b"early bird")
        terminal.until(ON[0])
        terminal.out = terminal.out.partition(ON[0])[2]  # before it, the terminal itself shows what is typed
        terminal.until(b"early bird")


def test_the_title_is_given_back_and_a_person_who_looks_elsewhere_is_told(tmp_path: Path) -> None:
    with Terminal(tmp_path, "-m", "demo") as terminal:
        terminal.until(b"demo: scripted")
        terminal.type(b"run `git status`\r")
        terminal.until(b"wants to use bash")
        terminal.until(b"\x1b]0;? friday")
        assert b"\x1b]9;" not in terminal.out  # the window has the keys
        terminal.type(b"\x03")
        terminal.until(b"\x1b]0;friday", after=b"\x1b]0;? friday")
        terminal.type(b"run `git log`")
        terminal.until(b"run `git log`")
        terminal.type(b"\r\x1b[O")  # a key behind it would bring the window back
        terminal.until(b"\x1b]9;Friday needs you")
        terminal.type(b"\x11")
        terminal.end()
        assert terminal.out.rfind(b"\x1b[23;0t") > terminal.out.rfind(b"\x1b]0;") > terminal.out.find(b"\x1b[22;0t") > 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_a_signal_leaves_a_clean_terminal(tmp_path: Path, number: signal.Signals, code: int) -> None:
    with Terminal(tmp_path, "demo") as terminal:
        terminal.until(b"at work")
        os.kill(terminal.pid, number)
        assert terminal.end() == code
        assert terminal.is_clean()


def test_what_cannot_be_opened_is_one_line_on_a_clean_terminal(tmp_path: Path) -> None:
    with Terminal(tmp_path, "-m", "nonsense/x") as terminal:
        assert terminal.end() == 2
        assert terminal.is_clean()
        last = terminal.out[terminal.out.rfind(b"\x1b[?1006l") :]
        assert b"friday: Unknown provider 'nonsense'" in last
        assert b"Traceback" not in terminal.out


def test_a_defect_is_one_line_on_a_clean_terminal(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(
        "import runpy, sys\nfrom friday_cli.view.state import State\n"
        "def apply(self, envelope): raise RuntimeError('boom')\nState.apply = apply\n"
        "sys.argv = ['friday', 'demo']\nrunpy.run_module('friday_cli', run_name='__main__')\n"
    )
    with Terminal(tmp_path, script="broken.py") as terminal:
        assert terminal.end() == 1
        assert terminal.is_clean()
        assert b"Friday itself failed: " in terminal.out
        assert b"Traceback" not in terminal.out
