"""Names what a part of a shell command holds, for a person who does not see that part. It decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from friday_cli.core.text.sanitize import sanitize_line

from .syntax import parser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

MAX_BYTES = 200_000
"""Longest command that is parsed for this."""
MAX_NAMES = 5
"""Programs that are named."""
_KINDS = {
    "heredoc_body": "here-document", "comment": "comments", "string": "quoted text", "raw_string": "quoted text",
    "ansi_c_string": "quoted text",
}  # fmt: skip


def outline(command: str, start: int, end: int) -> str:
    """What the characters from `start` to `end` of `command` hold, such as "here-document; runs curl, rm"."""
    part = command[start:end]
    if not part.strip():
        return "blanks only"
    source = command.encode(errors="replace")
    if len(source) > MAX_BYTES:
        return "too long to be read"
    first = len(command[:start].encode(errors="replace"))
    last = first + len(part.encode(errors="replace"))
    root = parser().parse(source).root_node
    names: dict[str, None] = {}
    kinds: dict[str, None] = {"cannot be read as commands": None} if root.has_error else {}
    for node in _nodes_between(root, first, last):
        if node.type in _KINDS:
            kinds[_KINDS[node.type]] = None
        elif node.type == "command_name" and node.start_byte >= first:
            names[sanitize_line(source[node.start_byte : node.end_byte].decode(errors="replace"), 30)] = None
    if names:
        more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
        kinds[f"runs {', '.join(list(names)[:MAX_NAMES])}{more}"] = None
    return "; ".join(kinds) or "arguments"


def _nodes_between(root: Node, first: int, last: int) -> Iterator[Node]:
    """All nodes that overlap the bytes from `first` to `last`, in order."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node.end_byte > first and node.start_byte < last:
            yield node
            stack += reversed(node.children)
