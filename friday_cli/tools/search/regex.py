"""One spelling of regular expressions for two engines: ripgrep's and Python's."""

from __future__ import annotations

import re

from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.text.lazy_regex import pattern

_POSIX = {
    "alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z", "space": r"\s",
    "punct": r"!-/:-@\[-`{-~", "xdigit": "0-9A-Fa-f", "word": r"\w", "blank": r" \t", "cntrl": r"\x00-\x1f\x7f",
}  # fmt: skip
_AROUND = pattern(r"\(\?<?[=!]|\(\?P=|(?<!\\)(?:\\\\)*\\[1-9]")
_TOKEN = pattern(
    r"(?P<escape>\\(?:[pP](?:\{[^}]*\}|.)|[xuU]\{[^}]*\}|.))|(?P<group>\(\?<(?![=!]))"
    r"|(?P<count>\{\d+(?:,\d*)?\})|(?P<brace>\{)|(?P<posix>\[:\^?\w+:\])|(?P<bracket>[\[\]])",
    re.S,
)


def needs_python(pattern: str) -> bool:
    """Whether the pattern looks around or back, which ripgrep's engine does not."""
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


def for_python(pattern: str) -> str:
    """The pattern as Python wants it, checked. Raises ToolError."""

    def spell(found: re.Match[str]) -> str:
        whole = found[0]
        if found["brace"]:
            return r"\{"
        if found["group"]:
            return "(?P<"
        if found["posix"]:
            name = whole[2:-2]
            if name not in _POSIX:
                raise ToolError(f"The pattern uses {whole}, which only ripgrep (not installed here) knows.")
            return _POSIX[name]
        if found["escape"]:
            if whole == r"\z":
                return r"\Z"
            if whole[1] in "xuU" and whole[2:3] == "{":
                return re.escape(chr(int(whole[3:-1], 16)))
            if whole[1] in "pP":
                raise ToolError(f"The pattern uses {whole}, which only ripgrep (not installed here) knows.")
        return whole

    try:
        spelled = _TOKEN().sub(spell, pattern)
        re.compile(spelled)
    except (re.error, ValueError, OverflowError, RecursionError) as error:
        raise invalid(str(error)) from None
    return spelled


def invalid(why: str) -> ToolError:
    """The error for a pattern no engine takes."""
    return ToolError(
        f"The pattern is not a valid regular expression: {why}.",
        hint="Escape ( ) [ ] { } . * + ? ^ $ | with a backslash to search for them, or set literal.",
    )
