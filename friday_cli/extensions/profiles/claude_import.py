"""Translates keys and tool lists of files written for Claude Code and Gemini CLI."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Literal

from friday_cli.config.settings import ConfiguredMode
from friday_cli.core.text.lazy_regex import pattern
from friday_cli.core.tool_catalog import BASH, TOOLS

from .profile import Memory

CLAUDE_MODES: dict[str, ConfiguredMode | Literal[""]] = {
    "default": "", "manual": "", "plan": "plan", "acceptEdits": "edits", "auto": "auto", "dontAsk": "",
}  # fmt: skip
"""Values of `permissionMode`. Others (bypassPermissions) would extend permissions and are ignored."""

CLAUDE_MEMORIES: dict[str, Memory] = {"user": "tagged", "project": "tagged", "local": "tagged"}
"""Values of `memory`: a separate folder there, notes tagged with the agent here."""

WITHOUT_EFFECT = frozenset(
    (
        "color",
        "hooks",
        "background",
        "isolation",
        "initialPrompt",
        "icon",
        "version",
        "kind",
        "display_name",
        "displayName",
        "category",
        "tags",
        "author",
        "license",
        "argument-hint",
    )
)
"""Keys of other tools that have no effect here."""

CLAUDE_KEYS = frozenset(
    (
        "tools",
        "permissionMode",
        "maxTurns",
        "color",
        "mcp-servers",
        "hooks",
        "kind",
        "target",
        "infer",
        "handoffs",
        "user-invocable",
        "disable-model-invocation",
    )
)
"""Keys that identify a file of another tool."""

_COPILOT = {
    "search": ("Grep", "Glob"), "read": ("Read", "LS"), "edit": ("Edit", "Write"), "execute": ("Bash",), "agent": ("Task",),
    "web": ("WebFetch", "WebSearch"),
}  # fmt: skip
"""Names of groups of tools in files of GitHub Copilot (`search`, `search/codebase`)."""

_CALL = pattern(r"([A-Za-z_][\w-]*)\((.*)\)", re.S)


def items(value: str) -> list[str]:
    """`Read, Bash(git log, git diff), Agent(x, y)` as a list; commas inside parentheses do not separate."""
    found, depth, start = [], 0, 0
    for at, char in enumerate(value):
        depth += (char == "(") - (char == ")")
        if char == "," and depth <= 0:
            found.append(value[start:at])
            start = at + 1
    found.append(value[start:])
    return [item.strip() for item in found if item.strip()]


def parse_entry(item: str, *, imported: bool) -> tuple[tuple[str, ...], str | None]:
    """The Friday tools for one entry of a tool list, and the pattern in its parentheses (None without). `imported`: the list
    was written for another tool."""
    call = _CALL().fullmatch(item)
    name, pattern = (call[1], call[2].strip()) if call else (item, None)
    if imported and (group := _COPILOT.get(name.partition("/")[0])):
        return tuple(dict.fromkeys(tool for alias in group for tool in TOOLS.named(alias))), pattern
    return TOOLS.named(name) or (name,), pattern


def narrowed(entries: Collection[tuple[Sequence[str], str | None]]) -> tuple[str, ...]:
    """Rules for the tools of which the entries (see `parse_entry`) name only some calls."""
    only = [(tools[0], pattern) for tools, pattern in entries if pattern and pattern != "*"]
    whole = {tools[0] for tools, pattern in entries if not pattern or pattern == "*"}
    return tuple(dict.fromkeys(rule(name, pattern) for name, pattern in only if name not in whole))


def rule(name: str, pattern: str) -> str:
    """A rule in Friday syntax: `Bash(git diff:*)` is `bash(git diff *)`, `Read(./src/**)` is `read_file(src/**)`."""
    if name == BASH and pattern.endswith(":*"):
        pattern = pattern[:-2] + " *"
    return f"{name}({pattern.removeprefix('./')})"
