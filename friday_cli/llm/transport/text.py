"""Text that came over a wire: made whole, made plain."""

from __future__ import annotations

import re
from typing import Any

from friday_cli.core.text.lazy_regex import pattern

_HTML = pattern(r"\s*(<!doctype|<html|<head|<body|<\?xml|<center|<h1)", re.I)
_TITLE = pattern(r"<title[^>]*>(.*?)</title>", re.I | re.S)
_SURROGATE = pattern("[\ud800-\udfff]")


def plain(text: str, limit: int = 300) -> str:
    """`text` on one line without control, bidi or zero-width characters, at most `limit` characters long."""
    words = "".join(c if c.isprintable() else " " for c in text[: limit * 8]).split()
    line = " ".join(words)
    return line if len(line) <= limit else line[: limit - 1] + "…"


def is_html(text: str) -> bool:
    """Whether `text` is a web page and not an answer."""
    return _HTML().match(text) is not None


def title_of(page: str) -> str:
    """The title of a web page without markup, or ""."""
    found = _TITLE().search(page[:20_000])
    return plain(re.sub(r"<[^>]*>|&\w+;", " ", found.group(1)), 80) if found else ""


def whole(text: str) -> str:
    """`text` with surrogate pairs joined and single surrogates replaced, so that it can be written as UTF-8."""
    if not _SURROGATE().search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def whole_json(value: Any) -> Any:
    """`value` with `whole` applied to every string in it, keys included."""
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, dict):
        return {whole_json(k): whole_json(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [whole_json(v) for v in value]
    return value


def deeper_than(value: Any, limit: int) -> bool:
    """Whether JSON is nested in more than `limit` levels."""
    level = [value]
    for _ in range(limit):
        level = [
            child
            for node in level
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return False
    return any(isinstance(node, dict | list) for node in level)


class Pieces:
    """A text that comes in pieces, which some services cut in the middle of a surrogate pair."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._held = ""
        self.size = 0

    def add(self, piece: str) -> str:
        """Take a piece; what can be shown now (a half character waits for its other half)."""
        piece = self._held + piece
        self._held = ""
        if piece and "\ud800" <= piece[-1] <= "\udbff":
            piece, self._held = piece[:-1], piece[-1]
        piece = whole(piece)
        if piece:
            self._parts.append(piece)
            self.size += len(piece)
        return piece

    @property
    def text(self) -> str:
        """All of it so far; half a character at the end shows as U+FFFD."""
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return (self._parts[0] if self._parts else "") + ("\ufffd" if self._held else "")
