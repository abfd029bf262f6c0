"""Finds texts in drawn rows, also where a text goes on in the next row."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from friday_cli.core.text.lazy_regex import pattern

URL = pattern(r"https?://[^\s<>\"'`|\\^{}\[\]]+")
Piece = tuple[int, int, int]
"""A part of a text in one row: (row, first column, column after the last)."""


@lru_cache(16)
def pattern_for(text: str) -> re.Pattern[str]:
    """A pattern for a text in rows that are joined by line ends; upper and lower case are alike."""
    words = text.split()
    spelled = (r"(?:\n[\s│]*)?".join(map(re.escape, word)) for word in words)
    return re.compile(r"[\s│]+".join(spelled), re.IGNORECASE)


def find_in_rows(rows: Sequence[str], pattern: re.Pattern[str]) -> list[list[Piece]]:
    """Where the text is, as its pieces in order."""
    text = "\n".join(rows)
    found: list[list[Piece]] = []
    row = start = 0
    for match in pattern.finditer(text):
        if match.end() == match.start():
            continue
        while match.start() > start + len(rows[row]):
            start, row = start + len(rows[row]) + 1, row + 1
        pieces: list[Piece] = []
        at, of_row, begin = row, start, match.start()
        while begin < match.end():
            end = of_row + len(rows[at])
            piece = text[begin : min(end, match.end())]
            margin = len(piece) - len(piece.lstrip(" │")) if pieces else 0
            if piece.strip():
                pieces.append((at, begin - of_row + margin, min(end, match.end()) - of_row))
            at, of_row, begin = at + 1, end + 1, end + 1
        found.append(pieces)
    return found
