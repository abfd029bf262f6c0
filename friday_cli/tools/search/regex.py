"""Patterns for ripgrep, and for Python's `re` where ripgrep is not installed or cannot search for them."""

from __future__ import annotations

import re
import warnings

from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.text.lazy_regex import pattern

_AROUND = pattern(r"\(\?<?[=!]|\(\?P=|(?<!\\)(?:\\\\)*\\[1-9]")
_TOKEN = pattern(
    r"(?P<escape>\\(?:[pP]\{[^}]*\}|[xuU]\{[^}]*\}|.))|(?P<group>\(\?<(?![=!]))|(?P<count>\{\d+(?:,\d*)?\})|(?P<brace>\{)",
    re.S,
)
_ESCAPE = "Escape ( ) [ ] { } . * + ? ^ $ | with a backslash to search for them, or set literal."
_DIALECT = (
    "Python's re is used where ripgrep is not installed, and for patterns that look around or back. It has no [[:alpha:]],"
    r" [a&&b], (?<name>...), \p{L}, \x{41} and \z. "
)


def needs_python(pattern: str) -> bool:
    """Whether the pattern looks around or back, which ripgrep's engine cannot."""
    return _AROUND().search(pattern) is not None


def for_ripgrep(pattern: str) -> str:
    """The pattern as ripgrep wants it: a brace that counts nothing (`interface{}`) is a brace."""

    def spell(found: re.Match[str]) -> str:
        if found["brace"]:
            return r"\{"
        if found["group"]:
            return "(?P<"
        return r"\z" if found[0] == r"\Z" else found[0]

    return _TOKEN().sub(spell, pattern)


def check_python(pattern: str) -> None:
    """Refuse a pattern that Python's `re` does not take, or takes for another one than ripgrep does. Raises ToolError."""
    try:
        with warnings.catch_warnings(action="error", category=FutureWarning):  # a set that ripgrep reads in another way
            re.compile(pattern)
    except (re.error, FutureWarning, OverflowError, RecursionError) as error:
        raise ToolError(
            f"The pattern is not a valid regular expression for Python's re: {error}.", hint=_DIALECT + _ESCAPE
        ) from None


def invalid(why: str) -> ToolError:
    """The error for a pattern that ripgrep does not take."""
    return ToolError(f"The pattern is not a valid regular expression: {why}.", hint=_ESCAPE)
