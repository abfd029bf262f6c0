"""How files written for other tools (Claude Code, Gemini CLI) say what Friday's profiles say."""

from __future__ import annotations

import re
from typing import Literal

from friday_cli.core.text.lazy_regex import pattern

from .profile import Memory, Mode

TOOLS: dict[str, tuple[str, ...]] = {
    "Read": ("read_file",),
    "NotebookRead": ("read_file",),
    "Write": ("write_file",),
    "Edit": ("edit_file",),
    "MultiEdit": ("edit_file",),
    "NotebookEdit": ("edit_file",),
    "Bash": ("bash", "bash_output", "bash_kill"),
    "BashOutput": ("bash_output",),
    "KillShell": ("bash_kill",),
    "KillBash": ("bash_kill",),
    "Glob": ("glob",),
    "Grep": ("grep",),
    "LS": ("list_dir",),
    "WebFetch": ("web_fetch",),
    "WebSearch": ("web_search",),
    "TodoWrite": ("todo",),
    "TodoRead": ("todo",),
    "AskUserQuestion": ("ask_user",),
    "Task": ("delegate_task",),
    "Agent": ("delegate_task",),
    "search": ("web_search",),  # in the example of ADR 034, see docs/requirements.md
    "read_many_files": ("read_file",),
    "replace": ("edit_file",),
    "run_shell_command": ("bash", "bash_output", "bash_kill"),
    "search_file_content": ("grep",),
    "grep_search": ("grep",),
    "list_directory": ("list_dir",),
    "google_web_search": ("web_search",),
    "write_todos": ("todo",),
    "save_memory": ("memory_save",),
}
"""Their tool names, and ours."""

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
    return TOOLS.get(name, (name,)), pattern


def rule(name: str, pattern: str) -> str:
    """A pattern in our spelling: `Bash(git diff:*)` is `bash(git diff *)`, `Read(./src/**)` is `read_file(src/**)`."""
    if name == "bash" and pattern.endswith(":*"):
        pattern = pattern[:-2] + " *"
    return f"{name}({pattern.removeprefix('./')})"
