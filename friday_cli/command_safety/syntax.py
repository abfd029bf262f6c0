"""Parses a shell command into a syntax tree, or tells why the tree cannot be trusted."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from friday_cli.core.text.lazy_regex import pattern

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_CHARACTERS = 6_000
"""Longest command that is parsed; a longer one needs approval."""
MAX_DEPTH = 60
"""Levels of the syntax tree that are analyzed."""
_CONTROL = pattern(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_CONTINUED = pattern(r"\\\n")
_LINE_JOIN = pattern(r"('[^']*'|\"(?:[^\"\\]|\\.)*\"|\\[^\n])|[ \t]\\\n", re.S)
"""Quoted or escaped text, or else a blank with a line continuation."""
_HIDES_QUOTES = pattern(r"[#`]|<<|\$[({'\"\[]")
"""Syntax inside which quotes and backslashes may have another meaning."""


class Unparseable(Exception):
    """A command that cannot be analyzed; the text tells a person why."""


class TooLong(Unparseable):
    """A command whose analysis would take too much work. It is asked about in every mode."""

    def __init__(self, size: str) -> None:
        super().__init__(f"it is too long to be checked: {size}")


@cache
def parser() -> Parser:
    """The parser, imported for the first command to keep start-up fast."""
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def parse(command: str) -> tuple[Node, bytes]:
    """The root of the syntax tree, and the source its positions refer to. Raises Unparseable."""
    if len(command) > MAX_CHARACTERS:
        raise Unparseable(f"it is longer than {MAX_CHARACTERS:,} characters")
    if not command.isascii():
        for char in command:
            if char > "\x7f" and unicodedata.category(char)[0] in "ZC":
                raise Unparseable(f"it contains the invisible or look-alike character U+{ord(char):04X}")
    if bad := _CONTROL().search(command):
        raise Unparseable(f"it contains the control character U+{ord(bad[0]):04X}")
    if _CONTINUED().search(command) and not _HIDES_QUOTES().search(command):
        command = _LINE_JOIN().sub(lambda found: found[1] or " ", command)
    if _CONTINUED().search(command):
        raise Unparseable("a line ends with a backslash")
    source = command.encode()
    root = parser().parse(source).root_node
    if root.has_error:
        raise Unparseable("it cannot be parsed")
    return root, source


def raw(node: Node, source: bytes) -> str:
    """The source text of a node."""
    return source[node.start_byte : node.end_byte].decode()


def children(node: Node, source: bytes) -> list[Node]:
    """The children of a node without comments. Raises Unparseable if the tree skips text or misreads a comment."""
    kept = []
    end = node.start_byte
    for child in node.children:
        if source[end : child.start_byte].strip(b" \t\n"):
            raise Unparseable("a part of it cannot be parsed")
        end = child.end_byte
        if child.type != "comment":
            kept.append(child)
            continue
        before, line = source[: child.start_byte], raw(child, source)
        if "\n" in line or (before and before[-1:] not in b" \t\n;") or before[-2:-1] == b"\\":
            raise Unparseable("the start of a comment is ambiguous")
    if node.children and source[end : node.end_byte].strip(b" \t\n"):
        raise Unparseable("a part of it cannot be parsed")
    return kept


def assigned_names(node: Node, source: bytes) -> Iterator[str]:
    """The variables that are set anywhere below a node."""
    stack = [node]
    while stack:
        current = stack.pop()
        if current.type == "variable_assignment" and current.children:
            yield raw(current.children[0], source)
        elif current.type == "for_statement":
            yield from (raw(child, source) for child in current.children if child.type == "variable_name")
        elif current.type == "command":
            text = re.sub(r"['\"\\]", "", raw(current, source))
            if re.match(r"(?:read|getopts|mapfile|readarray)\b|printf\b.*-v", text, re.S):
                yield from re.findall(r"[A-Za-z_]\w*", text)
        stack += current.children
