"""Translates file name patterns into regular expressions. Standard library only."""

from __future__ import annotations

import re

from friday_cli.core.text.star_regex import FOLDERS, NAME, star_regex

_CLASS = re.compile(r"\[([!^]?)((?:\](?=[^\]]*\]))?(?:\[:[a-z]+:\]|\\.|[^\]\\])*)\]", re.S)
_ITEM = re.compile(r"\[:(?P<named>[a-z]+):\]|\\?(?P<first>.)(?:-\\?(?P<last>.))?", re.S)
_GREEDY = {NAME: "[^/]*", FOLDERS: "(?:.*/)?"}
_NAMED_CLASSES = {
    "alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z", "xdigit": "0-9a-fA-F", "space": r"\s", "blank": r" \t",
    "punct": r"!-/:-@\[-`{-~", "cntrl": r"\x00-\x1f\x7f", "graph": "!-~", "print": " -~",
}  # fmt: skip
"""The classes of POSIX, as in `[[:alpha:]]`."""


def to_regex(pattern: str, *, braces: bool) -> str:
    """The regular expression of a pattern for a whole path with `/`. `*` and `?` stop at `/`; `**` as a whole component does
    not. `[a-z]` and `[!a]` are classes, `\\` escapes the next character, and `{a,b}` are alternatives if `braces` is set.
    Raises ValueError for an unclosed `[` or `{` and an unknown class."""
    out, at, depth = list[str](), 0, 0
    while at < len(pattern):
        char = pattern[at]
        if char == "*":
            end = at + len(pattern[at:]) - len(pattern[at:].lstrip("*"))
            whole = end > at + 1 and (at == 0 or pattern[at - 1] in "/{,")
            if whole and pattern[end : end + 1] == "/":
                out.append(FOLDERS)
                at = end + 1
                continue
            out.append((".+" if at else ".*") if whole and end == len(pattern) else NAME)
            at = end - 1
        elif char == "?":
            out.append("[^/]")
        elif char == "[":
            found = _CLASS.match(pattern, at)
            if not found:
                raise ValueError("an unclosed [")
            inner = "".join(map(_of_class, _ITEM.finditer(found[2])))
            out.append(f"(?!/)[{'^' if found[1] else ''}{inner}]")
            at = found.end() - 1
        elif char == "\\" and at + 1 < len(pattern):
            at += 1
            out.append(re.escape(pattern[at]))
        elif braces and char == "{":
            depth += 1
            out.append("(?:")
        elif braces and depth and char == "}":
            depth -= 1
            out.append(")")
        elif braces and depth and char == ",":
            out.append("|")
        else:
            out.append(re.escape(char))
        at += 1
    if depth:
        raise ValueError("an unclosed {")
    regex = "".join(_GREEDY.get(piece, piece) for piece in out) if "(?:" in out else star_regex(out)
    re.compile(regex)
    return regex


def _of_class(item: re.Match[str]) -> str:
    """An item of a class: a class of POSIX, a character or a range, of which git matches the beginning also if it ends before it."""
    if named := item["named"]:
        if named not in _NAMED_CLASSES:
            raise ValueError(f"an unknown class [:{named}:]")
        return _NAMED_CLASSES[named]
    first, last = item["first"], item["last"]
    return re.escape(first) + (f"-{re.escape(last)}" if last and last >= first else "")


def compile_glob(pattern: str) -> re.Pattern[str]:
    """A matcher (use `fullmatch`) for paths relative to the searched folder. A pattern without `/` matches the last name at
    any depth. Raises ValueError."""
    pattern = pattern.removeprefix("./").removeprefix("/")
    try:
        inner = to_regex(pattern, braces=True)
        return re.compile(inner if "/" in pattern or pattern == "**" else f"(?:.*/)?(?:{inner})", re.S)
    except re.error as error:
        raise ValueError(str(error)) from None


def names_hidden(pattern: str) -> bool:
    """Whether the pattern explicitly matches names that begin with a dot."""
    return any(part.startswith((".", "{.", "[.")) or ",." in part for part in pattern.removeprefix("./").split("/"))


def last_name(pattern: str) -> str:
    """A simple pattern that the last name of a matching path must match, "" if none can be derived."""
    last = pattern.rpartition("/")[2]
    simple = re.fullmatch(r"[\w.*?{},+-]+", last, re.A) and last != "**" and pattern.count("{") == last.count("{")
    return last if simple else ""


def is_simple(pattern: str) -> bool:
    """Whether `last_name` is equivalent to the pattern: letters and stars, which every glob dialect reads alike."""
    return re.fullmatch(r"[\w.*+-]+", pattern, re.A) is not None and "**" not in pattern
