"""Says how a command that was written for another program differs here, in one line for each difference."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from friday_cli.core.protocol.errors import FileError
from friday_cli.core.protocol.tool_info import EXTERNAL_PREFIXES
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.core.tool_catalog import TOOLS

from . import commands, frontmatter
from .profiles import claude_import

FOLDER = "commands"
"""Markdown files in folders of this name are commands."""
MAX_FILES = 10_000
_MEANING = {
    "model": "the model of the session is used",
    "agent": "the main agent runs it",
    "subtask": "the main agent runs it",
}


def is_command(path: Path, top: Path) -> bool:
    """Whether a file below `top`, or `top` itself, is in a folder of commands."""
    return FOLDER in (top.name, *path.relative_to(top).parts[:-1]) or (path == top and path.parent.name == FOLDER)


def check(top: Path) -> tuple[list[tuple[str, list[str]]], list[FileError]]:
    """The path of each command below `top` (or that file) with its differences, and the errors of files that cannot be used."""
    good: list[tuple[str, list[str]]] = []
    bad: list[FileError] = []
    paths = [top] if top.is_file() else sorted(path for path in islice(top.rglob("*.md"), MAX_FILES) if path.is_file())
    for path in paths:
        if not is_command(path, top) or path.name == "SKILL.md":
            continue
        raw = frontmatter.contents(path)
        name = path.stem.lower()
        try:
            if isinstance(raw, FileError):
                raise raw
            good.append((str(path), differences(commands.parse(str(path), name, raw, "claude"), raw)))
        except FileError as error:
            bad.append(error)
    return good, bad


def differences(command: commands.CustomCommand, raw: bytes) -> list[str]:
    """What is different here for a command with the content `raw`."""
    return list(_differences(command, raw))


def _differences(command: commands.CustomCommand, raw: bytes) -> Iterator[str]:
    text = frontmatter.decode(command.path, raw)
    keys = frontmatter.read(command.path, text, known=commands.KEYS).keys if frontmatter.split(text) else {}
    for key, value in keys.items():
        known = key.lower().replace("_", "-")
        if known not in commands.KEYS:
            why = f": {_MEANING[known]}" if known in _MEANING else ""
            yield f"{sanitize_line(key, 60)} has no effect in Friday{why}."
        elif known == "allowed-tools":
            for entry in claude_import.items(value) if isinstance(value, str) else value or ():
                names, _ = claude_import.parse_entry(str(entry), imported=True)
                if any(name not in TOOLS.names and not name.startswith(EXTERNAL_PREFIXES) for name in names):
                    yield f"allowed-tools: {sanitize_line(str(entry), 80)} is unknown and ignored."
    if note := command.skipped_note():
        yield note
    if "$ARGUMENTS[" in command.text:
        yield "$ARGUMENTS[N] is replaced by all arguments and [N]: write $1 for the first word."
