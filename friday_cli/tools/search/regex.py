"""Translates and checks patterns for ripgrep and for Python's `re`."""

from __future__ import annotations

import re
import warnings

from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.text.lazy_regex import pattern

_PYTHON_ONLY = pattern(r"\(\?<?[=!]|\(\?P=|(?<!\\)(?:\\\\)*\\[1-9]")
_TOKEN = pattern(
    r"(?P<escape>\\(?:[pP]\{[^}]*\}|[xuU]\{[^}]*\}|.))|(?P<group>\(\?<(?![=!]))|(?P<count>\{\d+(?:,\d*)?\})|(?P<brace>\{)",
    re.S,
)
_ESCAPE = "Escape ( ) [ ] { } . * + ? ^ $ | with a backslash to search for them, or set literal."
_DIALECT = (
    "Python's re is used without ripgrep, and for look-around and back-references. It does not support [[:alpha:]],"
    r" [a&&b], (?<name>...), \p{L}, \x{41} and \z. "
)


def needs_python(pattern: str) -> bool:
    """Whether the pattern has look-around or back-references, which ripgrep does not support."""
    return _PYTHON_ONLY().search(pattern) is not None


def for_ripgrep(pattern: str) -> str:
    """The pattern in ripgrep syntax. A brace that is not a repetition (`interface{}`) is escaped."""

    def translate(found: re.Match[str]) -> str:
        if found["brace"]:
            return r"\{"
        if found["group"]:
            return "(?P<"
        return r"\z" if found[0] == r"\Z" else found[0]

    return _TOKEN().sub(translate, pattern)


def check_python(pattern: str) -> None:
    """Raises ToolError for a pattern that is invalid in Python's `re`, or means something else there than in ripgrep."""
    try:
        with warnings.catch_warnings(action="error", category=FutureWarning):  # a set with another meaning in ripgrep
            re.compile(pattern)
    except (re.error, FutureWarning, OverflowError, RecursionError) as error:
        raise ToolError(
            f"The pattern is not a valid regular expression for Python's re: {error}.", hint=_DIALECT + _ESCAPE
        ) from None


def refused(text: str) -> ToolError:
    """The error for a pattern that ripgrep refuses with the message `text`."""
    errors = [line.removeprefix("error: ") for line in text.splitlines() if line.startswith("error: ")]
    why = errors[-1] if errors else " ".join(text.split())[:300]
    return ToolError(f"The pattern is not a valid regular expression: {why}.", hint=_ESCAPE)
