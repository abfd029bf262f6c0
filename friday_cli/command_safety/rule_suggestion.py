"""The rule that "yes, from now on" offers for a command: the narrowest useful one, or none."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .readonly_programs import INTERPRETERS, RUNNERS
from .words import shown

_PREFIXES = re.compile(
    r"(?:npm|pnpm|yarn|bun) run [\w:@./-]+|(?:npm|pnpm|yarn|bun) test|(?:uv|poetry|hatch|pdm) run (?:pytest|ruff|mypy|tox)"
    r"|cargo (?:test|build|check|clippy|fmt)|git (?:add|commit)|ruff (?:check|format)|pytest|mypy|tox"
)
"""Commands that may be followed by anything and stay what they are."""


def suggested(argv: Sequence[str]) -> str:
    """A pattern for a plain command, "" where none should be offered.

    Never one for a program that runs what it is told, reaches out, or destroys; never one with a pattern of its own.
    """
    names = [word.rsplit("/", 1)[-1].lower() for word in argv]
    if not names or names[0] in RUNNERS or INTERPRETERS.fullmatch(names[0]):
        return ""
    text = shown(argv)
    if re.search(r"[*?\[\n]", text) or not text[:1].isalnum() or len(text) > 200:
        return ""
    if names[0] == "git" and (len(names) < 2 or names[1].startswith("-")):
        return ""
    words = text.split(" ")
    for keep in (3, 2, 1):
        if len(words) > keep and _PREFIXES.fullmatch(" ".join(words[:keep])):
            return f"{' '.join(words[:keep])} *"
    return "" if _runs_another(names) else text


def _runs_another(names: Sequence[str]) -> bool:
    """Whether the word behind `run` or `exec` is a program that runs what it is told."""
    later = names[2] if len(names) > 2 and names[1] in ("run", "exec", "x", "dlx") else ""
    return later in RUNNERS or INTERPRETERS.fullmatch(later) is not None
