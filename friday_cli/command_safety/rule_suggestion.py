"""Suggests the rule that "always allow" adds for a command: the narrowest useful one, or none."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .readonly_programs import INTERPRETERS, RUNNERS
from .words import quote_words

_PREFIXES = re.compile(
    r"(?:npm|pnpm|yarn|bun) run \w[\w:@./-]*|(?:npm|pnpm|yarn|bun) test|(?:uv|poetry|hatch|pdm) run (?:pytest|ruff|mypy|tox)"
    r"|cargo (?:test|build|check|clippy|fmt)|git (?:add|commit)|ruff (?:check|format)|pytest|mypy|tox"
)
"""Commands whose further arguments do not change what they are: their rule ends with ` *`."""


def suggest_rule(argv: Sequence[str]) -> str:
    """A rule pattern for a command, or "" if none should be suggested. None for programs that run other programs, use
    the network or delete, and none for a command that contains a pattern."""
    names = [word.rsplit("/", 1)[-1].lower() for word in argv]
    if not names or names[0] in RUNNERS or INTERPRETERS.fullmatch(names[0]):
        return ""
    text = quote_words(argv)
    if re.search(r"[*?\[\n]", text) or not text[:1].isalnum() or len(text) > 200:
        return ""
    if names[0] == "git" and (len(names) < 2 or names[1].startswith("-")):
        return ""
    words = text.split(" ")
    for keep in (3, 2, 1):
        if len(words) > keep and _PREFIXES.fullmatch(" ".join(words[:keep])):
            return f"{' '.join(words[:keep])} *"
    later = names[2] if len(names) > 2 and names[1] in ("run", "exec", "x", "dlx") else ""
    return "" if later in RUNNERS or INTERPRETERS.fullmatch(later) else text
