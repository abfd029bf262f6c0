"""Reads shell text without a syntax tree: text that does not parse, and text that a program may run in its own way.

It splits at every character by which a shell could start another command, so it finds more commands than there are.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from . import destructive
from .readonly_programs import SHELLS, WRAPPERS

_SPLIT = re.compile(r"[;&|\n\r()`{}]|\$\(|<\(|>\(")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_COMMAND_OPTION = re.compile(r"-[A-Za-z]*c[A-Za-z]*")
_KEYWORDS = frozenset(("then", "do", "else", "elif", "if", "while", "until", "!"))
_STARTS = 200
"""Words after a wrapper at which a command may begin: its options are too many to know."""
MOST = 2_000_000
"""Characters of commands that are found in one text; one that holds more is asked about in every mode."""


class Found(NamedTuple):
    """The commands in a text, each with wrappers, assignments and quotes removed, and why one of them could destroy
    more than the work at hand ("" when none could)."""

    commands: tuple[str, ...]
    danger: str


def read(text: str, parsed: Iterable[Sequence[str]] = ()) -> Found:
    """The commands in `text`, and in the words of commands that are `parsed` already."""
    found: dict[str, None] = {}
    size = 0
    seen = set()
    left = [text]
    commands = [command for words in parsed for command in _commands(list(words))]
    while left or commands:
        for words in commands:
            size += sum(map(len, words))
            if size > MOST:
                return Found(tuple(found), "it holds too many commands to read them all")
            found[" ".join(words)] = None
            left.append(_script(words))
        commands, part = [], left.pop() if left else ""
        if part in seen:
            continue
        seen.add(part)
        if "\\\n" in part:  # the line may be continued on the next, or not
            left += (part.replace("\\\n", ""), part.replace("\\\n", "\n"))
        else:
            commands = [command for piece in _SPLIT.split(part) for command in _commands(_words(piece))]
    return Found(tuple(found), destructive.reason(text, found))


def _words(piece: str) -> list[str]:
    try:
        return shlex.split(piece)
    except ValueError:
        return piece.replace('"', "").replace("'", "").split()


def _commands(words: list[str]) -> list[list[str]]:
    """What a command may run: itself, or behind a wrapper what begins at any later word."""
    while words and (_ASSIGNMENT.match(words[0]) or words[0] in _KEYWORDS):
        words = words[1:]
    if not words:
        return []
    first = _named(words)
    if first[0] not in WRAPPERS:
        return [first]
    starts = [i for i, word in enumerate(words[1:], 1) if not word.startswith("-")]
    return [_named(words[i:]) for i in starts[:_STARTS]]


def _named(words: list[str]) -> list[str]:
    return [words[0].rsplit("/", 1)[-1] or words[0], *words[1:]]


def _script(words: list[str]) -> str:
    """The text that a shell is given to run, with the words after it."""
    if words[0] == "eval":
        return " ".join(words[1:])
    if words[0] in SHELLS:
        for i, word in enumerate(words[1:], 1):
            if _COMMAND_OPTION.fullmatch(word):
                return " ".join(words[i + 1 :])
    return ""
