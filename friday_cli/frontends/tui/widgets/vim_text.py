"""Rows and words of a text as vim counts them. A place `at` is an offset in characters; a range is (begin, end), the end not
part of it."""

from __future__ import annotations

import re

_WORD = re.compile(r"\w+|[^\w\s]+")
_BIG_WORD = re.compile(r"\S+")


def row_begin(text: str, at: int) -> int:
    """Where the row of `at` begins."""
    return text.rfind("\n", 0, at) + 1


def row_end(text: str, at: int) -> int:
    """Where the row of `at` ends: its line end, or the end of the text."""
    found = text.find("\n", at)
    return len(text) if found < 0 else found


def rows_from(text: str, at: int, count: int) -> tuple[int, int]:
    """The range of `count` rows from the one of `at`, with the last one's line end."""
    end = at
    for _ in range(count):
        end = min(row_end(text, end) + 1, len(text))
    return row_begin(text, at), end


def by_words(text: str, at: int, letter: str, count: int) -> int:
    """Where `w`, `b` or `e` leads; in upper case, words are what blanks separate."""
    words = [found.span() for found in (_BIG_WORD if letter.isupper() else _WORD).finditer(text)]
    for _ in range(count):
        if letter in "wW":
            at = next((begin for begin, _ in words if begin > at), len(text))
        elif letter in "eE":
            at = next((end - 1 for _, end in words if end - 1 > at), max(0, len(text) - 1))
        else:
            at = next((begin for begin, _ in reversed(words) if begin < at), 0)
    return at


def word_around(text: str, at: int, *, big: bool, blanks: bool) -> tuple[int, int]:
    """The word at `at`, or the blanks there; `blanks`: with those behind it."""
    for found in re.finditer(r"\S+|[^\S\n]+" if big else r"\w+|[^\w\s]+|[^\S\n]+", text):
        if found.start() <= at < found.end():
            behind = re.match(r"[^\S\n]*", text[found.end() :])
            return found.start(), found.end() + (behind.end() if blanks and behind else 0)
    return at, at


def find_character(text: str, at: int, keys: str, count: int) -> int | None:
    """Where `keys` (`f`, `F`, `t` or `T` with a character) leads in the row of `at`; None if it is not there."""
    how, character = keys[0], keys[1]
    begin, end = row_begin(text, at), row_end(text, at)
    for _ in range(count):
        found = text.find(character, at + 1, end) if how in "ft" else text.rfind(character, begin, at)
        if found < 0:
            return None
        at = found
    return at - 1 if how == "t" else at + 1 if how == "T" else at
