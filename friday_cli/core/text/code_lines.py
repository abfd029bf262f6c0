"""The lines of a file as language servers count them (Language Server Protocol 3.17, text documents)."""

from __future__ import annotations

from .lazy_regex import pattern

_LINE = pattern(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


def code_lines(text: str) -> list[str]:
    """The lines of `text` with their ends. Only \\n, \\r\\n and \\r end one, unlike for `str.splitlines`."""
    found: list[str] = _LINE().findall(text)
    return found
