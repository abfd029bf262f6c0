"""What commands print: plain text through a pipe, a little colour and tables that fit on a terminal, JSON for programs.

Every string that is not ours is made plain here, whatever the command forgot.
"""

from __future__ import annotations

import json
import os
import re
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from ..core.plain import plain

Style = Literal["", "bold", "dim", "green", "yellow", "red", "cyan"]
_CODES = {"bold": "1", "dim": "2", "green": "32", "yellow": "33", "red": "31", "cyan": "36"}


class Column(msgspec.Struct, frozen=True):
    """A column of a table. `right` aligns figures; a `wide` one takes what is left of the line and wraps."""

    title: str
    right: bool = False
    wide: bool = False


def on_terminal() -> bool:
    """Whether a person looks at standard output."""
    return sys.stdout is not None and sys.stdout.isatty()


def paint(text: str, style: Style) -> str:
    """`text` in a colour, where standard output shows colours. Made plain in any case."""
    text = plain(text)
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if style and coloured() else text


def coloured() -> bool:
    """Whether standard output takes colours (a terminal that knows them, and NO_COLOR is not set)."""
    return on_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def show(text: str = "") -> None:
    """Print text, made plain, on standard output."""
    print(plain(text))


def show_painted(*parts: tuple[str, Style]) -> None:
    """Print one line of differently coloured parts."""
    print("".join(paint(text, style) for text, style in parts))


def remark(text: str) -> None:
    """Tell a person something beside the answer, on standard error."""
    print(f"friday: {plain(text)}", file=sys.stderr)


def show_json(document: Any) -> None:
    """Print a JSON document: exact for programs, with nothing in it that could steer a terminal."""
    text = json.dumps(document, ensure_ascii=False, indent=2)
    print(re.sub(r"[^\n -~]", _escaped, text))


def _escaped(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1]


def show_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under their titles: fitted to a terminal, or aligned with blanks and never cut through a pipe."""
    cells = [[plain(cell, keep="") for cell in row] for row in rows]
    if on_terminal():
        _fitted(columns, cells)
        return
    widths = [max(_width(c.title), *(_width(row[i]) for row in cells)) for i, c in enumerate(columns)]
    for row in ([column.title for column in columns], *cells):
        parts = []
        for column, width, cell in zip(columns, widths, row, strict=True):
            blanks = " " * (width - _width(cell))
            parts.append(blanks + cell if column.right else cell + blanks)
        print("  ".join(parts).rstrip())


def _fitted(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(
            Text(column.title), justify="right" if column.right else "left", overflow="fold",
            no_wrap=not column.wide, ratio=1 if column.wide else None,
        )  # fmt: skip
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False, no_color=not coloured())
    for line in console.render_lines(table, pad=False):
        print("".join(_segment(s.text, s.style is not None and s.style.bold is True) for s in line).rstrip())


def _segment(text: str, bold: bool) -> str:
    return paint(text, "bold") if bold and text.strip() else text


def _width(text: str) -> int:
    """How many places of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def tidy(path: str | Path) -> str:
    """A path for people: the home folder is `~`."""
    text, home = str(path), os.path.expanduser("~")
    if len(home) > 1 and (text == home or text.startswith(home.rstrip("/") + "/")):
        return "~" + text[len(home.rstrip("/")) :]
    return text


def confirm(question: str, *, yes: bool, otherwise: str) -> bool:
    """Whether a person agrees; `yes` is the answer given on the command line.

    Where nobody can be asked, raises UsageError with `otherwise`, which says that nothing was done.
    """
    from ..core.errors import UsageError

    if yes:
        return True
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(f"{otherwise}: nobody can be asked here.", hint="Add --yes to go ahead without asking.")
    print(f"{plain(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        print(file=sys.stderr)
    return answer.strip().lower() in ("y", "yes")
