"""Finds commands in shell text without a syntax tree: in text that does not parse, and in arguments a program may run.

It splits at every character that could start another command, so it reports more commands than there are.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from friday_cli.core.text.lazy_regex import pattern

from . import destructive
from .readonly_programs import SHELLS, WRAPPERS

_SPLIT = pattern(r"[;&|\n\r()`{}]|\$\(|<\(|>\(")
_ASSIGNMENT = pattern(r"[A-Za-z_]\w*=")
_COMMAND_OPTION = pattern(r"-[A-Za-z]*c[A-Za-z]*")
_KEYWORDS = frozenset(("then", "do", "else", "elif", "if", "while", "until", "!"))
_RUN_BY_GIT = pattern(r"\b(?:submodule foreach(?: -\S+)*|bisect run|rebase .*?(?:-x ?|--exec[ =])) ?(.*)", re.S)
"""What git runs in a shell."""
_MAX_STARTS = 200
"""Words after a wrapper (`env`, `xargs`) that are tried as the start of a command: not all its options are known."""
MAX_CHARACTERS = 400_000
"""Total length of the commands found in one text, and of the texts in them; beyond it needs approval in every mode."""
MAX_FOUND = 20_000
"""Commands found in one text."""


class TextScan(NamedTuple):
    """The commands in a text, without wrappers, assignments and quotes; `danger`: why one is destructive, or ""."""

    commands: tuple[str, ...]
    danger: str


def scan(text: str, parsed: Iterable[Sequence[str]] = ()) -> TextScan:
    """Find the commands in `text`, and in the words of commands that are already `parsed`."""
    found: dict[str, None] = {}
    size = 0
    seen = set()
    left = [text]
    commands: Iterator[list[str]] = (command for words in parsed for command in _commands(list(words)))
    while True:
        for words in commands:
            size += sum(map(len, words))
            if size > MAX_CHARACTERS or len(found) > MAX_FOUND:
                beyond = f"{MAX_CHARACTERS:,} characters" if size > MAX_CHARACTERS else f"{MAX_FOUND:,} commands"
                return TextScan(tuple(found), f"it is too long to be checked: more than {beyond} in its parts")
            found[" ".join(words)] = None
            left.append(_script_of(words))
        commands = iter(())
        if not left:
            return TextScan(tuple(found), destructive.reason(text, found))
        part = left.pop()
        if part in seen:
            continue
        seen.add(part)
        if "\\\n" in part:  # a continued line, or two lines
            left += (part.replace("\\\n", ""), part.replace("\\\n", "\n"))
        else:
            commands = (command for piece in _SPLIT().split(part) for command in _commands(_words(piece)))


def _words(piece: str) -> list[str]:
    if not re.search(r"['\"\\]", piece):
        return re.split(r"[ \t\r]+", piece.strip(" \t\r")) if piece.strip(" \t\r") else []
    try:
        return shlex.split(piece)
    except ValueError:
        return piece.replace('"', "").replace("'", "").split()


def _commands(words: list[str]) -> Iterator[list[str]]:
    """The commands a list of words may run: itself, or after a wrapper one that starts at any later word."""
    skipped = itertools.takewhile(lambda word: _ASSIGNMENT().match(word) or word in _KEYWORDS, words)
    words = words[sum(1 for _ in skipped) :]
    if not words:
        return
    first = _without_folder(words)
    if first[0] not in WRAPPERS:
        yield first
        return
    starts = (i for i, word in enumerate(words[1:], 1) if not word.startswith("-"))
    yield from (_without_folder(words[i:]) for i in itertools.islice(starts, _MAX_STARTS))


def _without_folder(words: list[str]) -> list[str]:
    return [words[0].rsplit("/", 1)[-1] or words[0], *words[1:]]


def _script_of(words: list[str]) -> str:
    """The script in `sh -c script`, `eval`, `trap`, `alias` or a git command, with the words after it; "" for others."""
    if words[0] == "eval":
        return " ".join(words[1:])
    if words[0] in ("trap", "alias"):
        return "\n".join(word.partition("=")[2] if words[0] == "alias" else word for word in words[1:])
    if words[0] == "git" and (found := _RUN_BY_GIT().search(" ".join(words))):
        return found[1]
    if words[0] in SHELLS or words[0] == "su":
        for i, word in enumerate(words[1:], 1):
            if _COMMAND_OPTION().fullmatch(word):
                return " ".join(words[i + 1 :])
    return ""
