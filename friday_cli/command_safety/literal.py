"""Tells whether a shell command is a literal argument vector: what it runs can be read from its text alone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from friday_cli.core.text.lazy_regex import pattern

from .readonly_programs import INTERPRETERS, SHELLS, WRAPPERS, word_set
from .syntax import Unparseable, children, parse, raw

if TYPE_CHECKING:
    from tree_sitter import Node

_LISTS = frozenset(("program", "list", "pipeline", "redirected_statement", "command", "negated_command"))
_OPERATORS = frozenset((";", "\n", "&&", "||", "|", "!"))
_CONSTANTS = pattern(r"\$(?:HOME|PWD|\{HOME\}|\{PWD\})")
_PLAIN = pattern(r"(?:[^\s;&|<>()$`\"'\\*?\[{!]|\{[^{},.]*\}|\\[^\n])+|!=")
_REDIRECTION = pattern(r"\d?>&\d|[12&]?>>?\s*[\w./-]+|\d?<\s*/dev/null")
"""Output to a file with a plain name is allowed: it is decided as a separate write."""
_RUN_PROGRAM_TEXT = (
    word_set("xargs jq bc dc coproc eval source . exec trap alias read export declare typeset set") | SHELLS
)
"""Programs that run other commands, or a program in a language of their own, besides the interpreters."""
_LINES = pattern(r"-n \d+(?:,(?:\d+|\$))?p(?: [^-\s]\S*)*")
"""Arguments of `sed` that only print numbered lines."""
_OPTIONS_THAT_RUN = {
    "find": re.compile(r"-(?:exec|ok)"),
    **dict.fromkeys(("fd", "fdfind"), re.compile(r"-\w*[xX]|--exec")),
    "env": re.compile(r"-\w*S|--s"),
}


def is_literal_command(command: str) -> bool:
    """Whether each part of `command` is a program with literal arguments: no variables except `$HOME` and `$PWD`, no
    assignments, functions, conditions, loops, background, patterns, substitutions, here-documents, redirections except
    output to a file with a plain name, and no programs in another language (`sh -c`, `awk`, `xargs`, `find -exec`). Lists and pipes of
    such commands are literal, too. This is a check of form: `rm x` is a literal command."""
    try:
        root, source = parse(command)
        return bool(children(root, source)) and _is_literal(root, source)
    except (Unparseable, UnicodeEncodeError, RecursionError):
        return False


def _is_literal(node: Node, source: bytes) -> bool:
    """Whether a statement is literal. Raises Unparseable if the tree skips a part of the text."""
    if node.type not in _LISTS:
        return _REDIRECTION().fullmatch(raw(node, source)) is not None if node.type == "file_redirect" else False
    if node.type == "command":
        return _is_literal_command(node, source)
    return all(child.type in _OPERATORS or _is_literal(child, source) for child in children(node, source))


def _is_literal_command(node: Node, source: bytes) -> bool:
    words: list[str] = []
    for child in children(node, source):
        if child.type == "file_redirect":
            if not _is_literal(child, source):
                return False
            continue
        word = children(child, source)[0] if child.type == "command_name" else child
        text = _literal_text(word, source)
        if text is None:
            return False
        words.append(text)
    names = [word.rsplit("/", 1)[-1] for word in words]
    if not words or "$" in words[0]:
        return False
    programs = names if names[0] in WRAPPERS else names[:1]
    return not any(_runs_text(name, words[at + 1 :]) for at, name in enumerate(programs))


def _runs_text(name: str, words: list[str]) -> bool:
    """Whether a program gets program text in its arguments."""
    if name == "sed":
        return _LINES().fullmatch(" ".join(words)) is None
    if name in _OPTIONS_THAT_RUN:
        return any(_OPTIONS_THAT_RUN[name].match(word) for word in words)
    return INTERPRETERS.fullmatch(name) is not None or name in _RUN_PROGRAM_TEXT


def _literal_text(node: Node, source: bytes) -> str | None:
    """The text of a literal word, a constant as its name; None if its value depends on anything."""
    text = raw(node, source)
    if node.type in ("word", "number", "concatenation") and _PLAIN().fullmatch(text):
        return re.sub(r"\\(.)", r"\1", text)
    if node.type == "raw_string":
        return text[1:-1]
    if node.type in ("simple_expansion", "expansion"):
        return text if _CONSTANTS().fullmatch(text) else None
    if node.type == "string":
        inner = text[1:-1]
        bare = re.sub(r"\\.", "", _CONSTANTS().sub("", inner), flags=re.S)
        return None if re.search(r'[$`"]|\\\Z', bare) else re.sub(r"\\([$`\"\\])", r"\1", inner)
    if node.type == "concatenation":
        end, parts = node.start_byte, []
        for child in node.children:
            part = _literal_text(child, source) if child.start_byte == end else None
            if part is None:
                return None
            end = child.end_byte
            parts.append(part)
        return "".join(parts)
    return None
