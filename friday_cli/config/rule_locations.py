"""Finds the file and line of each permission rule in the settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from .loader import PROJECT_FILES, line_of, parse_toml, text, user_file


def rule_places(project: Path | None = None, environ: Mapping[str, str] | None = None) -> dict[tuple[str, str], str]:
    """Maps (decision, rule) to `file:line`; the user's file wins. `project` is the root of a trusted project. Raises
    FileError if a file cannot be read."""
    files = [user_file(environ), *((project / part for part in PROJECT_FILES) if project is not None else ())]
    found: dict[tuple[str, str], str] = {}
    for file in files:
        content = text(file)
        for decision, rule, line in _rules(str(file), content):
            found.setdefault((decision, rule), f"{file}:{line}" if line else str(file))
    return found


def _rules(path: str, content: str) -> Iterator[tuple[str, str, int]]:
    permissions = parse_toml(path, content).get("permissions", {}) if content else {}
    lines = content.splitlines()
    for decision in ("allow", "ask", "deny"):
        first = line_of(content, ("permissions", decision))
        for rule in permissions.get(decision, ()):
            matching = (n for n in range(first, len(lines) + 1) if n and str(rule) in lines[n - 1])
            yield decision, str(rule), next(matching, first)
    for entry in permissions.get("rules", ()):
        rule = str(entry.get("rule", ""))
        line = next((n for n, text in enumerate(lines, 1) if rule in text and text.lstrip().startswith("rule")), 0)
        yield str(entry.get("decision", "")), rule, line
