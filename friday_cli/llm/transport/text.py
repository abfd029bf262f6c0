"""Reads text and JSON values from model services, which can be of any type and contain any character."""

from __future__ import annotations

import re
from typing import Any

from friday_cli.core.text.lazy_regex import pattern
from friday_cli.core.text.sanitize import map_strings

_HTML = pattern(r"\s*(<!doctype|<html|<head|<body|<\?xml|<center|<h1)", re.I)
_TITLE = pattern(r"<title[^>]*>(.*?)</title>", re.I | re.S)


def one_line(text: str, limit: int = 300) -> str:
    """`text` as one line of at most `limit` characters, without control, bidi or zero-width characters."""
    words = "".join(c if c.isprintable() else " " for c in text[: limit * 8]).split()
    line = " ".join(words)
    return line if len(line) <= limit else line[: limit - 1] + "…"


def is_html(text: str) -> bool:
    """Whether `text` is a web page."""
    return _HTML().match(text) is not None


def html_title(page: str) -> str:
    """The title of a web page without markup; "" if it has none."""
    found = _TITLE().search(page[:20_000])
    return one_line(re.sub(r"<[^>]*>|&\w+;", " ", found.group(1)), 80) if found else ""


def replace_surrogates(text: str) -> str:
    """`text` with surrogate pairs joined and lone surrogates replaced, so that it can be encoded as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def replace_surrogates_in(value: Any) -> Any:
    """`value` with `replace_surrogates` applied to every string in it, including dict keys."""
    return map_strings(value, replace_surrogates)


def deeper_than(value: Any, limit: int) -> bool:
    """Whether a JSON value has more than `limit` levels of nesting."""
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


def text_in(value: object) -> str:
    """`value` if it is a string, else ""."""
    return value if isinstance(value, str) else ""


def dict_in(value: object) -> dict[str, Any]:
    """`value` if it is a dict, else {}."""
    return value if isinstance(value, dict) else {}


def size_in(value: object) -> int:
    """`value` if it is a number of tokens that can be, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**31 else 0


def dicts_in(value: object) -> list[dict[str, Any]]:
    """The dicts in a list; empty if `value` is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


class StreamedText:
    """Joins the pieces of a streamed text. Some services split a surrogate pair between two pieces."""

    def __init__(self, text: str = "") -> None:
        self._parts: list[str] = []
        self._held = ""
        self.size = 0
        self.add(text)

    def add(self, piece: str) -> str:
        """Append a piece and return the text that can be shown now; half a surrogate pair is held back."""
        piece = self._held + piece
        self._held = ""
        if piece and "\ud800" <= piece[-1] <= "\udbff":
            piece, self._held = piece[:-1], piece[-1]
        piece = replace_surrogates(piece)
        if piece:
            self._parts.append(piece)
            self.size += len(piece)
        return piece

    @property
    def text(self) -> str:
        """The text so far; half a surrogate pair at the end shows as U+FFFD."""
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return (self._parts[0] if self._parts else "") + ("\ufffd" if self._held else "")
