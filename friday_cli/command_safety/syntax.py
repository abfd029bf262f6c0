"""From the text of a shell command to a syntax tree that may be trusted, or the reason why there is none."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

LONGEST = 6_000
"""Characters of a command that is still taken apart; a longer one is put to a person."""
DEEPEST = 60
"""Levels of the tree that are followed."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_CONTINUED = re.compile(r"\\\n")
_JOINT = re.compile(r"('[^']*'|\"(?:[^\"\\]|\\.)*\"|\\[^\n])|[ \t]\\\n", re.S)
"""What stands in quotes or behind a backslash, or else the end of a line that goes on behind a blank."""
_HIDES_QUOTES = re.compile(r"[#`]|<<|\$[({'\"\[]")
"""Where quotes and backslashes may mean something else than at the top of a command."""


class Unparseable(Exception):
    """A command whose meaning cannot be told; the text says why, for a person."""


@cache
def _parser() -> Parser:
    """The parser, loaded when the first command is judged: start-up does without it."""
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def parse(command: str) -> tuple[Node, bytes]:
    """The root of the tree and the text it speaks of. Raises Unclear."""
    if len(command) > LONGEST:
        raise Unparseable(f"it is longer than {LONGEST:,} characters")
    if not command.isascii():
        for char in command:
            if char > "\x7f" and unicodedata.category(char)[0] in "ZC":
                raise Unparseable(f"it holds the invisible or look-alike character U+{ord(char):04X}")
    if bad := _CONTROL.search(command):
        raise Unparseable(f"it holds the control character U+{ord(bad[0]):04X}")
    if _CONTINUED.search(command) and not _HIDES_QUOTES.search(command):
        command = _JOINT.sub(lambda found: found[1] or " ", command)
    if _CONTINUED.search(command):
        raise Unparseable("a line is continued with a backslash")
    source = command.encode()
    root = _parser().parse(source).root_node
    if root.has_error:
        raise Unparseable("it cannot be parsed")
    return root, source


def raw(node: Node, source: bytes) -> str:
    """The text of a node."""
    return source[node.start_byte : node.end_byte].decode()


def children(node: Node, source: bytes) -> list[Node]:
    """The parts of a node, comments left out. Raises Unclear where the tree passes over text, or a comment is none."""
    kept = []
    end = node.start_byte
    for child in node.children:
        if source[end : child.start_byte].strip(b" \t\n"):
            raise Unparseable("a part of it is not understood")
        end = child.end_byte
        if child.type != "comment":
            kept.append(child)
            continue
        before, line = source[: child.start_byte], raw(child, source)
        if "\n" in line or (before and before[-1:] not in b" \t\n;") or before[-2:-1] == b"\\":
            raise Unparseable("it is not clear where a comment begins")
    if node.children and source[end : node.end_byte].strip(b" \t\n"):
        raise Unparseable("a part of it is not understood")
    return kept


def names(node: Node, source: bytes) -> Iterator[str]:
    """The variables that are set somewhere below a node."""
    stack = [node]
    while stack:
        here = stack.pop()
        if here.type == "variable_assignment" and here.children:
            yield raw(here.children[0], source)
        elif here.type == "for_statement":
            yield from (raw(child, source) for child in here.children if child.type == "variable_name")
        elif here.type == "command":
            name = here.child_by_field_name("name")
            program = raw(name, source) if name is not None else ""
            if program in ("read", "getopts", "mapfile", "readarray") or (
                program == "printf" and "-v" in raw(here, source)
            ):
                yield from re.findall(r"[A-Za-z_]\w*", raw(here, source))
        stack += here.children
