"""File name patterns (`*`, `?`, `[..]`), read so that no program matches more names with them than Friday does."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from friday_cli.core.text.lazy_regex import pattern

MAX_MATCHES = 2_000
"""Names that a pattern may match; all of them are checked."""
MAX_ENTRIES = 50_000
"""Directory entries that are compared with the patterns of one command."""
_TOKEN = pattern(r"\\(.)|(\*)|(\?)|(\[[!^]?[\w.-]+\])|([\[{].*)|(.)", re.S)
"""An escaped character, `*`, `?`, a simple set of characters, syntax on which programs differ, any other character."""


@lru_cache(maxsize=512)
def name_regex(pattern: str) -> re.Pattern[str]:
    """A regular expression for a pattern of a name or path. It matches more than the pattern: a set of characters is any
    character, and a bracket or brace with unusual content, with the rest after it, is any text. Case is ignored."""
    out = ""
    for found in _TOKEN().finditer(pattern.replace("**/", "*")):
        escaped, star, any_one, simple, unusual, other = found.groups()
        if star or unusual:
            out += ".*" if not out.endswith(".*") else ""
        else:
            out += "." if any_one or simple else re.escape(escaped or other)
    return re.compile(out, re.S | re.I)


def matches_any(path: str, patterns: Sequence[str]) -> bool:
    """Whether one of the patterns may match the name of a file, or with a `/` in the pattern, the end of its `path`.
    Without patterns, always."""
    return not patterns or any(
        name_regex(f"*/{pattern.lstrip('/')}").fullmatch(f"/{path}")
        if "/" in pattern
        else name_regex(pattern).fullmatch(path.rpartition("/")[2])
        for pattern in patterns
    )


class NameMatcher:
    """Expands the patterns of one command as the shell would. `exhausted`: it read `MAX_ENTRIES` directory entries, and
    finds no more names."""

    def __init__(self) -> None:
        self._left = MAX_ENTRIES

    @property
    def exhausted(self) -> bool:
        return self._left <= 0

    def matching(self, pattern: str) -> list[str]:
        """The names that the shell would put in place of a pattern; not all above `MAX_MATCHES`."""
        return list(self._expand(pattern, MAX_MATCHES + 1))

    def _expand(self, pattern: str, limit: int) -> Iterator[str]:
        at = re.search(r"[*?\[]", pattern)
        if at is None:
            if os.path.lexists(pattern):
                yield pattern
            return
        start = pattern.rfind("/", 0, at.start()) + 1
        end = pattern.find("/", at.end())
        part, rest = (pattern[start:end], pattern[end + 1 :]) if end >= 0 else (pattern[start:], "")
        regex = name_regex(part)
        for name in _names(pattern[:start] or "."):
            self._left -= 1
            if self.exhausted or limit <= 0:
                return
            if (name.startswith(".") and not part.startswith(".")) or not regex.fullmatch(name):
                continue
            path = pattern[:start] + name
            for found in self._expand(f"{path}/{rest}", limit) if end >= 0 else (path,):
                yield found
                limit -= 1


def _names(folder: str) -> list[str]:
    """The names in a folder, with `..`: before bash 5.2, `.*` matches it."""
    try:
        return [".", "..", *os.listdir(folder)]
    except OSError:
        return []
