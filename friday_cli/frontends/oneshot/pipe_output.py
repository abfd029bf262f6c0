"""Standard output and errors of a one-shot run that go into pipes: a thread of their own writes them, so that a reader who
stops reading blocks neither the session's clock nor its signals."""

from __future__ import annotations

import io
import os
import stat
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from typing import TextIO

MAX_PENDING = 64 * 2**20
"""Unread bytes after which writing fails: nobody reads."""
STUCK_S = 2.0
"""Seconds without progress after which a run that was stopped or has reached its time limit ends without its reader."""


class _PipeWriter:
    """Writes to descriptors in order, on a daemon thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._pieces: deque[tuple[int, bytes]] = deque()
        self._pending = 0
        self._errors: dict[int, OSError] = {}
        threading.Thread(target=self._run, name="pipe-output", daemon=True).start()

    def put(self, fd: int, data: bytes) -> None:
        """Write later. Raises the OSError of an earlier write to `fd`, or when too much is unread."""
        with self._changed:
            if error := self._errors.get(fd):
                raise error
            if self._pending + len(data) > MAX_PENDING:
                raise OSError(f"nobody reads it ({self._pending >> 20} MB are waiting)")
            self._pieces.append((fd, data))
            self._pending += len(data)
            self._changed.notify_all()

    def drain(self, fd: int, *, wait: bool) -> None:
        """Wait until all is written; unless `wait`, only as long as something is read. Raises the OSError of a write to `fd`."""
        with self._changed:
            while self._pending:
                before = self._pending
                self._changed.wait(None if wait else STUCK_S)
                if not wait and self._pending == before:
                    return
            if error := self._errors.get(fd):
                raise error

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._pieces:
                    self._changed.wait()
                fd, data = self._pieces.popleft()
            while data:
                try:
                    count = os.write(fd, data)
                except OSError as error:
                    self._errors[fd], count = error, len(data)
                data = data[count:]
                with self._changed:
                    self._pending -= count
                    self._changed.notify_all()


class _Raw(io.RawIOBase):
    def __init__(self, writer: _PipeWriter, fd: int) -> None:
        self._writer, self._fd = writer, fd

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def write(self, data: object) -> int:
        piece = bytes(data)  # type: ignore[call-overload]
        self._writer.put(self._fd, piece)
        return len(piece)


class PipeOutput:
    """What was redirected, for the end of the run."""

    def __init__(self) -> None:
        self._writer: _PipeWriter | None = None
        self._streams: list[io.TextIOWrapper] = []

    def redirect(self, stream: TextIO) -> TextIO:
        """A stream in place of one that goes into a pipe or a socket; any other as it is."""
        try:
            fd = stream.fileno()
            mode = os.fstat(fd).st_mode
        except (OSError, ValueError):
            return stream
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            return stream
        stream.flush()
        self._writer = self._writer or _PipeWriter()
        raw = io.BufferedWriter(_Raw(self._writer, fd))
        made = io.TextIOWrapper(
            raw, encoding=stream.encoding, errors=stream.errors, line_buffering=stream is sys.stderr
        )
        self._streams.append(made)
        return made

    def finish(self, *, wait: bool) -> None:
        """Write what is left; unless `wait`, only as long as something is read. Raises OSError, BrokenPipeError among them, if
        standard output could not be written."""
        for stream in self._streams:
            stream.flush()
        if self._writer is not None:
            self._writer.drain(sys.__stdout__.fileno() if sys.__stdout__ is not None else 1, wait=wait)


@contextmanager
def pipe_output() -> Iterator[PipeOutput]:
    """Redirect standard output and errors that go into pipes."""
    output = PipeOutput()
    with ExitStack() as stack:
        stack.enter_context(redirect_stdout(output.redirect(sys.stdout)))
        stack.enter_context(redirect_stderr(output.redirect(sys.stderr)))
        yield output
