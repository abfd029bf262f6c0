"""How files written for other tools (Claude Code, Gemini CLI) say what Friday's profiles say."""

from __future__ import annotations

import re
from typing import Literal

from friday_cli.core.text.lazy_regex import pattern
from friday_cli.tool_catalog import BASH, TOOLS

from .profile import Memory, Mode

MODES: dict[str, Mode | Literal[""]] = {
    "default": "",
    "manual": "",
    "plan": "plan",
    "acceptEdits": "edits",
    "auto": "auto",
    "dontAsk": "",
}
"""Values of `permissionMode`. What is missing here (bypassPermissions) would widen rights and is never taken over."""

MEMORIES: dict[str, Memory] = {"user": "tagged", "project": "tagged", "local": "tagged"}
"""Values of `memory`: there a folder of their own, here notes marked with the agent's name."""

WITHOUT_EFFECT = frozenset(
    (
        *("color", "skills", "mcpServers", "hooks", "background", "isolation", "initialPrompt", "icon", "version"),
        *(
            "kind",
            "temperature",
            "display_name",
            "displayName",
            "category",
            "tags",
            "author",
            "license",
            "argument-hint",
        ),
    )
)
"""Keys that others know and that change nothing here."""

MARKS = frozenset(("tools", "permissionMode", "maxTurns", "color", "skills", "mcpServers", "hooks", "kind"))
"""Keys by which a file shows that it was written for another tool."""

_CALL = pattern(r"([A-Za-z_][\w-]*)\((.*)\)", re.S)


def items(value: str) -> list[str]:
    """`Read, Bash(git log, git diff), Agent(x, y)` as a list; commas inside parentheses do not part."""
    found, depth, start = [], 0, 0
    for at, char in enumerate(value):
        depth += (char == "(") - (char == ")")
        if char == "," and depth <= 0:
            found.append(value[start:at])
            start = at + 1
    found.append(value[start:])
    return [item.strip() for item in found if item.strip()]


def take_apart(item: str) -> tuple[tuple[str, ...], str | None]:
    """Our names for one entry of a tool list, and the pattern in its parentheses (None without)."""
    name, pattern = item, None
    if call := _CALL().fullmatch(item):
        name, pattern = call.group(1), call.group(2).strip()
    return TOOLS.named(name) or (name,), pattern


def rule(name: str, pattern: str) -> str:
    """A pattern in our spelling: `Bash(git diff:*)` is `bash(git diff *)`, `Read(./src/**)` is `read_file(src/**)`."""
    if name == BASH and pattern.endswith(":*"):
        pattern = pattern[:-2] + " *"
    return f"{name}({pattern.removeprefix('./')})"
