"""Prints text, tables and JSON: plain in a pipe, with colors and fitted tables on a terminal.

All text is sanitized here.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import unicodedata
from collections.abc import Collection, Sequence
from itertools import zip_longest
from typing import Any, Literal

import msgspec

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.text.known_keys import mask_keys_in
from friday_cli.core.text.sanitize import escape_json, sanitize

Style = Literal["", "bold", "dim", "green", "yellow", "red", "cyan"]
_CODES = {"bold": "1", "dim": "2", "green": "32", "yellow": "33", "red": "31", "cyan": "36"}
MIN_WIDTH = 12
"""Narrowest width of a wide column, in terminal columns."""


def on_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def paint(text: str, style: Style) -> str:
    """Sanitized `text`, colored if standard output shows colors."""
    text = sanitize(text)
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if style and has_colors() else text


def terminal_width() -> int:
    """The number of columns of the terminal."""
    return shutil.get_terminal_size().columns


def has_colors() -> bool:
    """Whether standard output is a terminal with colors, and NO_COLOR is not set."""
    return on_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def show(text: str = "") -> None:
    """Print sanitized text to standard output."""
    print(sanitize(text))


def show_painted(*parts: tuple[str, Style]) -> None:
    """Print one line of styled parts."""
    print("".join(paint(text, style) for text, style in parts))


def show_hanging(indent: int, *parts: tuple[str, Style], margin: str = "") -> None:
    """Print parts as one line; on a terminal the last part wraps, indented by `indent` columns or the `margin` of that
    width."""
    *before, (text, style) = parts
    rows = [sanitize(text)]
    if on_terminal():
        width = max(20, terminal_width() - indent)
        first = max(0, sum(_width(sanitize(head)) for head, _ in before) - indent)  # columns beyond the indent
        rows = _wrapped("\xa0" * first + sanitize(text, keep=""), width)
        rows[0] = rows[0][first:]
    show_painted(*before, (rows[0], style))
    for row in rows[1:]:
        show_painted((margin or " " * indent, "dim"), (row, style))


def truncate_line(text: str) -> str:
    """`text` truncated to the width of the terminal; unchanged in a pipe."""
    if not on_terminal():
        return text
    width = terminal_width()
    if _width(text) <= width:
        return text
    return _wrapped(text.replace(" ", "\xa0"), width - 1)[0].replace("\xa0", " ") + "…"


def remark(text: str) -> None:
    """Print a message for the person to standard error, after flushing standard output."""
    sys.stdout.flush()
    print(f"friday: {sanitize(text)}", file=sys.stderr)


def show_json(document: Any) -> None:
    """Print structs or a document as JSON. Control characters are escaped, known keys are masked."""
    print(escape_json(json.dumps(mask_keys_in(msgspec.to_builtins(document)), ensure_ascii=False, indent=2)))


def has_table(rows: Sequence[Any], *, as_json: bool, none: str) -> bool:
    """Whether `rows` are to be shown as a table. If not, they are shown as JSON, or `none` because there are none."""
    if as_json:
        show_json(rows)
    elif not rows:
        remark(none)
    return bool(rows) and not as_json


def show_table(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Collection[str] = (),
    wide: Collection[str] = (),
    groups: Sequence[str] = (),
) -> None:
    """Print rows under their titles: fitted to the terminal, or aligned and complete in a pipe. `right`: columns that
    are aligned right; `wide`: columns that may be narrowed to fit the terminal, and wrap. `groups`: a heading for each
    row, printed when it changes."""
    cells = [[sanitize(cell, keep="") for cell in row] for row in rows]
    widths = [max(_width(title), *(_width(row[i]) for row in cells)) for i, title in enumerate(titles)]
    if on_terminal():
        _shrink(widths, [i for i, title in enumerate(titles) if title in wide])

    def line(row: Sequence[str]) -> str:
        pads = [" " * (width - _width(cell)) for width, cell in zip(widths, row, strict=True)]
        aligned = zip(titles, pads, row, strict=True)
        return "  ".join(pad + cell if title in right else cell + pad for title, pad, cell in aligned).rstrip()

    show_painted((line(titles), "bold"))
    for number, row in enumerate(cells):
        if groups and (number == 0 or groups[number] != groups[number - 1]):
            for piece in _wrapped(groups[number], terminal_width()) if on_terminal() else [groups[number]]:
                show_painted((piece, "cyan"))
        wrapped = [_wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
        for pieces in zip_longest(*wrapped, fillvalue=""):
            print(line(pieces))


def _shrink(widths: list[int], wide: Sequence[int]) -> None:
    """Make the wide columns narrower until the table fits."""
    excess = sum(widths) + 2 * (len(widths) - 1) - terminal_width()
    while excess > 0 and wide:
        largest = max(wide, key=lambda i: widths[i])
        if widths[largest] <= MIN_WIDTH:
            return
        widths[largest] -= 1
        excess -= 1


def _wrapped(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` columns, broken between words if possible."""
    lines, line = [], ""
    for word in text.split(" ") if _width(text) > width else [text]:
        if line and _width(line) + 1 + _width(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
        while _width(line) > width:
            end = next(n for n in range(len(line), 0, -1) if _width(line[:n]) <= width or n == 1)
            lines.append(line[:end])
            line = line[end:]
    return [*lines, line]


def _width(text: str) -> int:
    """The width of a text in terminal columns."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def when(at: float, *, short: bool = False) -> str:
    """Format a time (Unix seconds) in local time; `short`: without the current year."""
    then = time.localtime(at)
    return time.strftime("%m-%d %H:%M" if short and then[0] == time.localtime()[0] else "%Y-%m-%d %H:%M", then)


def confirm(question: str, *, yes: bool, otherwise: str) -> bool:
    """Ask the person for confirmation; `yes`: already confirmed on the command line. `otherwise` says that nothing was
    done: after "no" it is reported. Without a terminal raises UsageError with it."""
    if yes:
        return True
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(
            f"{otherwise}: this needs your confirmation, and there is no terminal to ask in.",
            hint="Add --yes to confirm.",
        )
    show_question(question)
    return read_confirmation(otherwise)


def show_question(question: str) -> None:
    """Print a question that is answered with y or n."""
    print(f"{sanitize(question)} [y/N] ", end="", file=sys.stderr, flush=True)


def read_confirmation(otherwise: str) -> bool:
    """Read the answer to it from standard input; see `confirm`."""
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        print(file=sys.stderr)
    confirmed = answer.strip().lower() in ("y", "yes")
    if not confirmed and otherwise:
        remark(otherwise[0].lower() + otherwise[1:])
    return confirmed
