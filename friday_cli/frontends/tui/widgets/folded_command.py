"""A long command in few rows: its beginning and its end, and between them how much is folded and what that holds."""

from __future__ import annotations

import msgspec

from friday_cli.core.protocol.format import pluralize
from friday_cli.core.text.deceptive import show_deceptive

from .styles import split_cells

MIN_ROWS = 3
"""Rows of a folded command: its first, the fold, its last."""


class CommandRows(msgspec.Struct, frozen=True):
    """A command as rows of a width. `fold` tells what is left out between `head` and `tail`; "": nothing."""

    head: list[str]
    fold: str = ""
    tail: list[str] = []


def command_rows(command: str, width: int, most: int | None = None) -> CommandRows:
    """`command` in rows of `width` cells, folded to `most` of them (None: all). Misleading characters are spelled out."""
    if not command:
        return CommandRows([])
    rows: list[tuple[int, str]] = []
    """Each row with its position in `shown`."""
    at = 0
    shown = "\n".join(show_deceptive(line).expandtabs(4) for line in command.split("\n"))
    for line in shown.split("\n"):
        for piece in split_cells(line, width):
            rows.append((at, piece))
            at += len(piece)
        at += 1
    most = len(rows) if most is None else max(most, MIN_ROWS)
    if len(rows) <= most:
        return CommandRows([piece for _, piece in rows])
    head, tail = most // 2, most - most // 2 - 1
    fold = _describe(shown, rows[head][0], rows[-tail][0])
    return CommandRows([piece for _, piece in rows[:head]], fold, [piece for _, piece in rows[-tail:]])


def _describe(shown: str, start: int, end: int) -> str:
    """How much lies between two positions, and what kind of thing it is."""
    from friday_cli.command_safety.outline import outline  # only long commands need the parser

    lines = shown.count("\n", start, end)
    amount = pluralize(end - start, "character")
    amount = f"{pluralize(lines, 'line')}, {amount}" if lines > 1 else amount
    return f"… {amount} folded: {outline(shown, start, end)} …"
