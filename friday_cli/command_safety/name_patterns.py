"""File name patterns (`*`, `?`, `[..]`), read so that no program matches more names with them than Friday does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

_TOKEN = re.compile(r"\\(.)|(\*)|(\?)|(\[[!^]?[\w.-]+\])|([\[{].*)|(.)", re.S)
"""An escaped character, `*`, `?`, a simple set of characters, syntax on which programs differ, any other character."""


@lru_cache(maxsize=512)
def name_regex(pattern: str) -> re.Pattern[str]:
    """A regular expression for a pattern of a name or path. It matches more than the pattern: a set of characters is any
    character, and a bracket or brace with unusual content, with the rest after it, is any text. Case is ignored."""
    out = ""
    for found in _TOKEN.finditer(pattern.replace("**/", "*")):
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
