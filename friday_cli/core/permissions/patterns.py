"""Patterns of rules for paths, names and hosts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import product

from ..text import lazy_regex
from ..text.star_regex import ANY, FOLDERS, NAME, star_regex

DOMAIN = "domain:"
"""How the pattern of a rule for a host begins, and its subject."""
LOCAL_HOST = lazy_regex.pattern(r"localhost|.*\.localhost|127\.[\d.]+|0\.0\.0\.0|\[?::1?\]?")
"""A host on this machine."""


@lru_cache(maxsize=512)
def glob(pattern: str) -> re.Pattern[str]:
    """A path pattern as a regular expression: `*` and `?` do not match `/`, `**` does."""
    return re.compile(_expression(pattern), re.S)


@lru_cache(maxsize=512)
def strict_glob(*patterns: str) -> re.Pattern[str]:
    """The patterns of a deny or ask rule as one regular expression for texts of `plain`. A pattern that ends in a name means
    what is below it, too: a rule for a folder holds for its files. `[ab]` and `{a,b}` mean themselves and what they mean to
    other programs."""
    found: dict[str, None] = {}
    for pattern in dict.fromkeys(one for each in patterns for one in _alternatives(plain(each))):
        pattern = pattern.removeprefix("./").rstrip("/")
        below = "" if re.search(r"[*?]", pattern.rpartition("/")[2]) else "(?:/.*)?"
        for classes in _class_choices(pattern):
            found[f"(?:{_expression(pattern, classes)}{below})" if pattern not in ("", ".") else ".*"] = None
    return re.compile("|".join(found), re.S)


def _class_choices(pattern: str) -> Iterable[tuple[bool, ...]]:
    """Which of the classes of a pattern mean letters: every choice (`[id]/[a-z].ts`), with many of them none or all."""
    count = sum(len(_CLASS().findall(re.escape(token))) for token in _STARS().split(pattern))
    return product((False, True), repeat=count) if count <= _MOST_CLASSES else ((False,) * count, (True,) * count)


def _class(found: re.Match[str]) -> str:
    """`[a-z]` in an escaped pattern as one of these letters."""
    letters = f"[{'^/' if found[1] else ''}{found[2]}]".replace(r"\-", "-")
    try:
        re.compile(letters)
    except re.error:
        return found[0]
    return letters


_BRACES = lazy_regex.pattern(r"\{([^{}]*,[^{}]*)\}")
_CLASS = lazy_regex.pattern(r"\\\[(!|\\\^)?((?:(?!\\\]|/).)+)\\\]")
"""`[a-z]` in an escaped pattern."""
_STARS = lazy_regex.pattern(r"((?:^|(?<=/))\*\*/|/\*\*$|\*\*|\*|\?)")
_MOST_ALTERNATIVES = 200
_MOST_CLASSES = 3
"""For which every choice of their meanings is tried."""


def _alternatives(pattern: str) -> list[str]:
    """A pattern, and those that its braces stand for."""
    found = [pattern]
    for one in found:
        if len(found) < _MOST_ALTERNATIVES and (braces := _BRACES().search(one)):
            found += [one[: braces.start()] + word + one[braces.end() :] for word in braces[1].split(",")]
    return found


def profile_pattern(written: str) -> str:
    """A pattern for names of profiles as a person may write it, in the letters that these names have: `Senior Coder` is `senior-coder`."""
    return re.sub(r"[^a-z0-9_*?\[\]!{},-]+", "-", written.lower()).strip("-") or written


def plain(text: str) -> str:
    """A text for comparison: without case, and with composed letters. Some file systems see no difference either."""
    if text.isascii():
        return text.lower()
    import unicodedata  # few names need it

    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def _expression(pattern: str, classes: Sequence[bool] = ()) -> str:
    """`classes`: whether `[a-z]` means one of these letters, for each class; else it means itself."""
    meaning = {"**/": FOLDERS, "/**": "(?:/.*)?", "**": ANY, "*": NAME, "?": "[^/]"}
    pieces, choices = [], iter(classes)
    for token in _STARS().split(pattern.removeprefix("./")):
        literal = _CLASS().sub(lambda found: _class(found) if next(choices, False) else found[0], re.escape(token))
        pieces.append(meaning.get(token) or literal)
    return star_regex(pieces)


def any_depth(pattern: str) -> str:
    """A pattern of Claude Code for deny and ask rules: as in a .gitignore file, a name without a folder is meant in every
    folder."""
    return pattern if "/" in pattern.rstrip("/") or not pattern.strip("*") else f"**/{pattern}"


def host_pattern(text: str) -> str:
    """The pattern for the host of an address such as `https://example.org/*`, or of a bare name."""
    authority = text.partition("://")[2] or text
    host = re.split(r"[/?#]", authority, maxsplit=1)[0].rpartition("@")[2]
    return f"{DOMAIN}{host if host.startswith('[') else host.partition(':')[0]}"


def names_host(pattern: str, host: str) -> bool:
    """Whether the pattern of a rule is a domain that is `host` or a parent domain of it."""
    if not pattern.startswith(DOMAIN):
        return False
    host, wanted = _ascii_host(host), _ascii_host(pattern.removeprefix(DOMAIN).strip("."))
    return host == wanted or host.endswith("." + wanted.removeprefix("*."))


def _ascii_host(host: str) -> str:
    """A host in lower case, with its letters beyond ASCII encoded as in requests."""
    host = host.lower().rstrip(".")
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        return host
