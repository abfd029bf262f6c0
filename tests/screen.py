"""A terminal that accepts only what Friday may send: text, line ends, and four sequences. Others fail the test."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.cells import cell_len

_PIECE = re.compile(
    r"\x1b\[(?P<number>[\d;]*)(?P<do>[FJKm])|(?P<control>[\x00-\x1f\x7f-\x9f])|(?P<text>[^\x00-\x1f\x7f-\x9f]+)"
)


class Screen:
    """Rows of text, `columns` wide; the last `height` of them can be overwritten."""

    def __init__(self, columns: int, height: int) -> None:
        self.columns, self.height = columns, height
        self.rows = [""]
        self.row = 0
        self.wrapped = 0
        self.codes: set[str] = set()
        self.lowest = 0
        self._rest = ""

    def feed(self, text: str) -> None:
        """Read output of a program; a sequence may be incomplete at the end."""
        text = self._rest + text
        cut = re.search(r"\x1b(?:\[[\d;]*)?\Z", text)
        self._rest = cut[0] if cut else ""
        for piece in _PIECE.finditer(text[: len(text) - len(self._rest)]):
            if piece["text"]:
                self._put(piece["text"])
            elif piece["control"]:
                assert piece["control"] in "\r\n", (
                    f"the control {piece['control']!r} before {text[piece.end() :][:80]!r}"
                )
                if piece["control"] == "\n":
                    self._down()
            else:
                self._do(piece["do"], piece["number"])

    def _put(self, text: str) -> None:
        for sign in text:
            if cell_len(self.rows[self.row]) + cell_len(sign) > self.columns:
                self.wrapped += 1
                self._down()
            self.rows[self.row] += sign

    def _down(self) -> None:
        self.row += 1
        if self.row == len(self.rows):
            self.rows.append("")
        self.lowest = max(self.lowest, self.row)

    def _do(self, what: str, number: str) -> None:
        if what == "m":
            self.codes |= set(number.split(";"))
        elif what == "F":
            up = int(number)
            assert up <= self.row, "above the first row"
            assert self.row - up > self.lowest - self.height, "drawn over rows that have scrolled away"
            self.row -= up
            self._column_0()
        elif what == "K":
            self._column_0()
        else:
            assert number == ""
            del self.rows[self.row :]
            self.rows.append("")

    def _column_0(self) -> None:
        """The next text replaces the row: Friday always writes the whole row."""
        self.rows[self.row] = ""

    @property
    def text(self) -> str:
        return "\n".join(row.rstrip() for row in self.rows).rstrip("\n")


class Terminal:
    """A program in a real pseudo-terminal, shown on a `Screen`. Use as a context manager."""

    def __init__(
        self,
        argv: list[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        columns: int = 80,
        height: int = 24,
        stdout: bool = True,
        stderr: bool = True,
    ) -> None:
        self.screen = Screen(columns, height)
        self.raw = ""
        self.frames: list[str] = []
        self._decode = codecs.getincrementaldecoder("utf-8")(
            "surrogateescape"
        ).decode  # a piece may end within a letter
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, columns, 0, 0))
        self._before = termios.tcgetattr(slave)
        self._slave = slave
        self.process = subprocess.Popen(
            argv,
            stdin=slave,
            stdout=slave if stdout else subprocess.DEVNULL,
            stderr=slave if stderr else subprocess.DEVNULL,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)
        os.close(self._slave)

    def until(self, met: Callable[[], object], seconds: float = 60.0) -> None:
        """Read until `met()` is true; each piece of output adds a frame."""
        end = time.monotonic() + seconds
        while not met():
            assert time.monotonic() < end, f"timeout; the screen shows:\n{self.screen.text}"
            self._read(0.05)

    def shows(self, words: str) -> None:
        """Read until the screen shows `words`."""
        self.until(lambda: words in self.screen.text)

    def end(self) -> int:
        """Read to the end of the program; returns its exit code."""
        self.until(lambda: self.process.poll() is not None)
        while self._read(0.05):
            pass
        return self.process.returncode

    @property
    def clean(self) -> bool:
        """Whether the modes of the terminal are as before, and no style is left on."""
        on = re.findall(r"\x1b\[\?\d+[hl]", self.raw)
        return (
            termios.tcgetattr(self._slave) == self._before
            and not on
            and self.raw.rfind("\x1b[0m") >= self.raw.rfind("\x1b[2m")
        )

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return False
        text = self._decode(os.read(self._master, 65536))
        self.raw += text
        self.screen.feed(text)
        self.frames.append(self.screen.text)
        return True


def friday(*argv: str) -> list[str]:
    """The command line of `friday` in this checkout."""
    return [sys.executable, "-m", "friday_cli", *argv]
