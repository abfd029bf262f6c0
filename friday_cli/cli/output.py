"""What commands print: plain text through a pipe, a little colour and tables that fit on a terminal, JSON for programs.

Every string that is not ours is made plain here, whatever the command forgot.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
import unicodedata
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.text.sanitize import sanitize

Style = Literal["", "bold", "dim", "green", "yellow", "red", "cyan"]
_CODES = {"bold": "1", "dim": "2", "green": "32", "yellow": "33", "red": "31", "cyan": "36"}


NARROWEST = 12
"""Places that a wide column keeps in a table on a narrow terminal."""


class TableColumn(msgspec.Struct, frozen=True):
    """A column of a table. `right` aligns figures; a `wide` one takes what is left of the line and wraps."""

    title: str
    right: bool = False
    wide: bool = False


def on_terminal() -> bool:
    """Whether a person looks at standard output."""
    return sys.stdout is not None and sys.stdout.isatty()


def paint(text: str, style: Style) -> str:
    """`text` in a colour, where standard output shows colours. Made plain in any case."""
    text = sanitize(text)
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if style and coloured() else text


def places() -> int:
    """How many places a line of the terminal has."""
    return shutil.get_terminal_size().columns


def coloured() -> bool:
    """Whether standard output takes colours (a terminal that knows them, and NO_COLOR is not set)."""
    return on_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def show(text: str = "") -> None:
    """Print text, made plain, on standard output."""
    print(sanitize(text))


def show_painted(*parts: tuple[str, Style]) -> None:
    """Print one line of differently coloured parts."""
    print("".join(paint(text, style) for text, style in parts))


def show_hanging(indent: int, *parts: tuple[str, Style]) -> None:
    """Print parts as one line; on a terminal the last part wraps and goes on below, `indent` places from the left."""
    *before, (text, style) = parts
    rows = [sanitize(text)]
    if on_terminal():
        room = max(20, places() - indent)
        first = max(0, sum(_width(sanitize(head)) for head, _ in before) - indent)  # what stands left of it
        rows = _wrapped("\xa0" * first + sanitize(text, keep=""), room)
        rows[0] = rows[0][first:]
    show_painted(*before, (rows[0], style))
    for row in rows[1:]:
        show_painted((" " * indent, ""), (row, style))


def clipped(text: str) -> str:
    """One line that fits on the terminal; whole through a pipe."""
    if not on_terminal():
        return text
    room = places()
    return text if _width(text) <= room else _wrapped(text.replace(" ", "\xa0"), room - 1)[0].replace("\xa0", " ") + "…"


def remark(text: str) -> None:
    """Tell a person something beside the answer, on standard error, in order with what was printed."""
    sys.stdout.flush()
    print(f"friday: {sanitize(text)}", file=sys.stderr)


def show_json(document: Any) -> None:
    """Print structs or a document as JSON: exact for programs, with nothing in it that could steer a terminal."""
    text = json.dumps(msgspec.to_builtins(document), ensure_ascii=False, indent=2)
    print(re.sub(r"[^\n -~]", _escaped, text))


def _escaped(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1]


def show_table(columns: Sequence[TableColumn], rows: Sequence[Sequence[str]], *, groups: Sequence[str] = ()) -> None:
    """Print rows under their titles: fitted to a terminal, or aligned with blanks and never cut through a pipe.

    `groups` has a heading for each row, printed where it changes.
    """
    cells = [[sanitize(cell, keep="") for cell in row] for row in rows]
    widths = [max(_width(c.title), *(_width(row[i]) for row in cells)) for i, c in enumerate(columns)]
    if on_terminal():
        _shrink(columns, widths)
    show_painted((_row(columns, widths, [column.title for column in columns]), "bold"))
    for number, row in enumerate(cells):
        if groups and (number == 0 or groups[number] != groups[number - 1]):
            for piece in _wrapped(groups[number], places()) if on_terminal() else [groups[number]]:
                show_painted((piece, "cyan"))
        wrapped = [_wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
        for depth in range(max(map(len, wrapped))):
            print(_row(columns, widths, [lines[depth] if depth < len(lines) else "" for lines in wrapped]))


def _shrink(columns: Sequence[TableColumn], widths: list[int]) -> None:
    """Make the wide columns narrower until the table fits."""
    wide = [i for i, column in enumerate(columns) if column.wide]
    excess = sum(widths) + 2 * (len(widths) - 1) - places()
    while excess > 0 and wide:
        largest = max(wide, key=lambda i: widths[i])
        if widths[largest] <= NARROWEST:
            return
        widths[largest] -= 1
        excess -= 1


def _row(columns: Sequence[TableColumn], widths: Sequence[int], cells: Sequence[str]) -> str:
    parts = []
    for column, width, cell in zip(columns, widths, cells, strict=True):
        blanks = " " * (width - _width(cell))
        parts.append(blanks + cell if column.right else cell + blanks)
    return "  ".join(parts).rstrip()


def _wrapped(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` places, broken between words where that is possible."""
    lines, line = [], ""
    for word in text.split(" ") if _width(text) > width else [text]:
        if line and _width(line) + 1 + _width(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
        while _width(line) > width:
            most = next(n for n in range(len(line), 0, -1) if _width(line[:n]) <= width or n == 1)
            lines.append(line[:most])
            line = line[most:]
    return [*lines, line]


def _width(text: str) -> int:
    """How many places of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def when(at: float, *, short: bool = False) -> str:
    """A time (Unix seconds) on this machine's clock; a short one of this year does without the year."""
    then = time.localtime(at)
    return time.strftime("%m-%d %H:%M" if short and then[0] == time.localtime()[0] else "%Y-%m-%d %H:%M", then)


def confirm(question: str, *, yes: bool, otherwise: str) -> bool:
    """Whether a person agrees; `yes` is the answer given on the command line.

    Where nobody can be asked, raises UsageError with `otherwise`, which says that nothing was done.
    """
    if yes:
        return True
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(f"{otherwise}: nobody can be asked here.", hint="Add --yes to go ahead without asking.")
    print(f"{sanitize(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        print(file=sys.stderr)
    return answer.strip().lower() in ("y", "yes")
