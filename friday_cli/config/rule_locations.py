"""Where each permission rule of the settings stands: file and line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from .loader import PROJECT_FILES, line_of, parse_toml, text, user_file


def rule_places(project: Path | None = None, environ: Mapping[str, str] | None = None) -> dict[tuple[str, str], str]:
    """(decision, rule) -> `file:line`, the user's own file first. `project` is the root of a trusted project.

    Raises FileError for a file that cannot be read.
    """
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
        at = line_of(content, ("permissions", decision))
        for rule in permissions.get(decision, ()):
            inside = (n for n in range(at, len(lines) + 1) if n and str(rule) in lines[n - 1])
            yield decision, str(rule), next(inside, at)
    for entry in permissions.get("rules", ()):
        rule = str(entry.get("rule", ""))
        line = next((n for n, words in enumerate(lines, 1) if rule in words and words.lstrip().startswith("rule")), 0)
        yield str(entry.get("decision", "")), rule, line
