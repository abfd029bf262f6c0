"""Terminal output: streams the answer as Markdown and redraws a few status lines below it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

from friday_cli.core.text.lazy_regex import pattern
from friday_cli.core.text.sanitize import sanitize

REFRESH_S = 0.1
TAIL_LINES, TAIL_CHARS = 6, 2000
"""What is shown of an incomplete block."""
BLOCK_CHARS = 30_000
"""Longest block that is rendered as Markdown; a longer one is printed as plain text, because rendering is slow."""
_BLANK = r"(?:\x1b\[[\d;]*m|\s)"
_BLANK_EDGES = pattern(rf"\A(?:{_BLANK}*\n)+|(?:\n{_BLANK}*)+\Z")
_STYLE = pattern(r"\x1b\[[\d;]*m")
_RUNNER_COMMAND = pattern(r"(^\s*:|##)(:|\[)")
_FENCE = pattern(r"\s{0,3}(```+|~~~+)")


def remark(text: str) -> None:
    """Show a message to the person on standard error; on a terminal it wraps between words. A closed standard error is
    ignored. No row is a command to the runner of a job: those begin with `::`, or have `##[` anywhere."""
    rows = [_RUNNER_COMMAND().sub(r"\1 \2", row) for row in f"friday: {sanitize(text)}".split("\n")]
    with suppress(OSError):
        if sys.stderr.isatty():
            import textwrap  # a run in a pipe does not need it

            width = _terminal_size().columns
            wrapped = (textwrap.wrap(row, width, subsequent_indent="  ", break_on_hyphens=False) for row in rows)
            rows = [piece for pieces in wrapped for piece in pieces or [""]]
        print("\n".join(rows), file=sys.stderr)


def can_redraw(stream: TextIO) -> bool:
    """Whether lines of this stream can be redrawn: a terminal that can move its cursor."""
    return stream.isatty() and (os.environ.get("TERM") or "dumb") not in ("dumb", "unknown")


def truncate_line(text: str, width: int) -> str:
    """`text` as one plain line of at most `width` columns."""
    from rich.cells import cell_len, set_cell_size

    text = sanitize(text, keep="")
    return text if cell_len(text) <= width else set_cell_size(text, max(0, width - 1)) + "…"


class StatusArea:
    """Status lines at the bottom, redrawn by one timer. Erase them before writing anything else."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._drawn: list[int] = []
        self._lines: Callable[[int], list[str]] = lambda width: []
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def update(self, lines: Callable[[int], list[str]]) -> None:
        """Draw `lines(width)` within REFRESH_S, and again until they are empty."""
        self._lines = lines
        if self._timer is None and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(REFRESH_S, self._draw)

    def erase(self) -> None:
        """Remove the lines from the terminal until the next redraw."""
        if self._drawn:
            self._write(f"{self._cursor_up(_terminal_size().columns)}\x1b[J")
            self._drawn = []

    def close(self) -> None:
        """Erase the lines and stop the timer."""
        self._closed = True
        if self._timer:
            self._timer.cancel()
        self.erase()

    def _draw(self) -> None:
        from rich.cells import cell_len

        self._timer = None
        size = _terminal_size()
        width = max(1, size.columns - 1)
        lines = [truncate_line(text, width) for text in self._lines(width)][-max(1, size.lines - 2) :]
        body = "".join(f"\x1b[K\x1b[2m{text}\x1b[0m\n" for text in lines)
        if body or self._drawn:
            self._write(f"{self._cursor_up(size.columns)}{body}\x1b[J")
        self._drawn = [cell_len(text) for text in lines]
        if lines:
            self._timer = asyncio.get_running_loop().call_later(REFRESH_S, self._draw)

    def _cursor_up(self, columns: int) -> str:
        """The sequence that moves to the first drawn line. In a terminal that became narrower a line takes several rows."""
        rows = sum(max(1, -(-width // max(1, columns))) for width in self._drawn)
        return f"\x1b[{rows}F" if rows else ""

    def _write(self, text: str) -> None:
        with suppress(OSError):  # a closed terminal sends SIGHUP
            self._stream.write(text)
            self._stream.flush()


class StreamedMarkdown:
    """Prints the text of the root as Markdown. A block is printed when it is complete; `tail` shows the rest."""

    def __init__(self, area: StatusArea | None) -> None:
        from rich.console import Console

        self._area = area
        self._console = Console(file=sys.stdout, highlight=False)
        self._attempt = (0, 0)
        self._pending: list[str] = []
        self._block: list[str] = []
        self._fence = ""
        self._seen = 0

    def tail(self, width: int) -> list[str]:
        """The last rows of the text that is not printed yet, `width` columns each."""
        from rich.text import Text

        rows: list[str] = []
        for text in [*self._block, "".join(self._pending)][-TAIL_LINES:]:
            rows += [row.plain.rstrip() for row in Text(text[-TAIL_CHARS:].expandtabs()).wrap(self._console, width)]
        return rows[-TAIL_LINES:] if self._block or self._pending else []

    def feed(self, text: str, *, attempt: tuple[int, int]) -> None:
        """Add text of a reply. A new attempt at the same reply, or an empty text, which begins it again, discards what is
        not printed."""
        again = attempt != self._attempt and attempt[0] == self._attempt[0]
        if self._seen and (again or not text):
            self._discard()
        self._attempt = attempt
        self._seen += len(text)
        *lines, rest = sanitize(text).split("\n")
        for line in lines:
            self._add_line("".join((*self._pending, line)))
            self._pending.clear()
        if rest:
            self._pending.append(rest)

    def finish_reply(self, text: str | None) -> None:
        """Print the rest of a complete reply; print `text` if nothing of it was streamed."""
        if text and not self._seen:
            self.feed(text, attempt=self._attempt)
        if self._pending:
            self._add_line("".join(self._pending))
            self._pending.clear()
        self._flush()
        self._seen = 0

    def _discard(self) -> None:
        self._pending, self._block, self._fence, self._seen = [], [], "", 0
        self._print("[The reply was interrupted and is restarted.]")

    def _add_line(self, line: str) -> None:
        match = _FENCE().match(line)
        if match and (not self._fence or line.strip().startswith(self._fence)):
            self._fence = "" if self._fence else match[1]
        if not line.strip() and not self._fence:
            self._flush()
            return
        if self._block and not self._fence and match is None and not line.startswith((" ", "\t")):
            last = self._block[-1]
            if last.startswith("#") or (_FENCE().match(last) and len(self._block) > 1):
                self._flush()  # a heading or a closed fence is complete without a blank line after it
        self._block.append(line)

    def _flush(self) -> None:
        if self._block:
            self._print("\n".join(self._block))
            self._block, self._fence = [], ""

    def _print(self, markdown: str) -> None:
        from ..markdown import MarkdownDocument, leaves_out, parser

        if self._area:
            self._area.erase()
        text = markdown
        if len(markdown) <= BLOCK_CHARS:
            tokens = parser().parse(markdown)
            with self._console.capture() as capture:
                self._console.print(MarkdownDocument(tokens))
            if not leaves_out(markdown, _STYLE().sub("", capture.get())):
                text = capture.get()
        sys.stdout.write(_BLANK_EDGES().sub("", text) + "\n\n")
        sys.stdout.flush()


def _terminal_size() -> os.terminal_size:
    import shutil  # a run in a pipe does not need it

    return shutil.get_terminal_size()
