"""The keys of the front matter of a profile, and the checked types of their values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from friday_cli.core.protocol.errors import FileError
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.core.text.suggest import closest_match

from .. import frontmatter
from . import claude_import

Choice = TypeVar("Choice", bound=str)
NOALIASES: Mapping[str, Literal[""]] = MappingProxyType({})

MAX_VALUE = 4_000
"""Longest text value; the rest is truncated."""

KEYS = (
    *("name", "description", "max_token_budget", "allowed_tools", "disallowed_tools", "max_iterations", "timeout"),
    *("max_cost", "model", "effort", "sub_agents", "memory", "mode", "project_context"),
    *("supervision", "isolation", "temperature", "result_chars", "mcp_servers", "skills", "preload_skills", "external"),
    *("models", "check", "ladder", "service_tier"),
)
"""The keys of a profile in snake_case; camelCase is accepted too."""
ALIASES = {
    "tools": "allowed_tools",
    "max_turns": "max_iterations",
    "timeout_mins": "timeout",
    "permission_mode": "mode",
    "reasoning_effort": "effort",
}
"""Keys of other tools that mean the same, in snake_case."""
CAMEL = {key: re.sub(r"_(\w)", lambda found: found[1].upper(), key) for key in KEYS if "_" in key}
"""The keys in camelCase."""


class ProfileFields:
    """The values of one file by key, with notices. Methods raise FileError with line, key and remedy. `imported`:
    written for another tool; unknown keys and values are ignored with a notice."""

    def __init__(self, path: str, page: frontmatter.MarkdownFile, *, imported: bool) -> None:
        self.path, self.imported = path, imported
        self.notices: list[str] = []
        self.values: dict[str, Any] = {}
        self.written: dict[str, str] = {}
        self._lines = page.lines
        for key, value in page.keys.items():
            self._take(key, value)

    def _take(self, key: str, value: object) -> None:
        snake = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", key).replace("-", "_").lower()
        name = ALIASES.get(snake, snake)
        if name not in KEYS:
            if key in claude_import.WITHOUT_EFFECT:
                self.note(f"{key} has no effect in Friday.")
                return
            known = [*KEYS, *CAMEL.values()]
            close = closest_match(key, known, 0.7) or closest_match(snake, known, 0.7)
            hint = f"Did you mean {CAMEL.get(close, close)}?" if close else f"Known: {listed(KEYS)}."
            if not self.imported:
                raise self._error(key, "unknown key.", hint)
            self.note(f"{key} is unknown and ignored.")
            return
        if name in self.values:
            raise self._error(key, f"is a duplicate of {self.written[name]}.", "Keep one of them.")
        if value is None or value == "":
            raise self._error(key, "has no value.", "Remove the line, or write [] for an empty list.")
        self.values[name], self.written[name] = value, key

    def _error(self, key: str, problem: str, hint: str = "") -> FileError:
        return FileError(self.path, problem, line=self._lines.get(key, 1), field=key, hint=hint)

    def fail(self, name: str, problem: str, hint: str = "") -> FileError:
        """The error to raise for the key `name`."""
        return self._error(self.written.get(name, name), problem, hint)

    def note(self, text: str) -> None:
        """Add a notice."""
        self.notices.append(text)

    def text(self, name: str, *, required: bool = False) -> str:
        """One line of text, "" without the key."""
        value = self.values.get(name)
        if value is None:
            if required:
                raise FileError(self.path, "is missing.", line=1, field=name, hint=f"Add a line {name}: ...")
            return ""
        if isinstance(value, bool):
            raise self.fail(name, "YAML reads yes, no, on and off as true or false.", "Put the value in quotes.")
        if isinstance(value, (dict, list)):
            raise self.fail(name, "expected text.")
        if not isinstance(value, str):
            raise self.fail(name, f"expected text, got {value}.", "Put the value in quotes.")
        return sanitize_line(value, MAX_VALUE)

    def choice(
        self, name: str, choices: tuple[Choice, ...], aliases: Mapping[str, Choice | Literal[""]] = NOALIASES
    ) -> Choice | Literal[""]:
        """One of `choices`, or "" without the key; `aliases`: the values of other tools."""
        value = self.text(name) if not isinstance(self.values.get(name), bool) or not self.imported else ""
        for known in choices:
            if value == known:
                return known
        if not value:
            return ""
        if self.written[name] == "permissionMode" or self.imported:
            if value in aliases:
                return aliases[value]
            self.note(f"{self.written[name]}: {value} is ignored.")
            return ""
        close = closest_match(value, choices)
        hint = f"Did you mean {close}?" if close else ""
        raise self.fail(name, f"{value!r} is not one of {', '.join(choices)}.", hint)

    def flag(self, name: str, *, default: bool) -> bool:
        """True or false."""
        value = self.values.get(name, default)
        if not isinstance(value, bool):
            raise self.fail(name, "expected true or false.")
        return value

    def number(self, name: str, *, whole: bool = False, least: float | None = None) -> Any:
        """A number above 0, or of `least` at least; None without the key."""
        value = self.values.get(name)
        if isinstance(value, str) and self.imported and re.fullmatch(r"\d{1,12}", value):
            value = int(value)
        if value is None:
            return None
        kinds = int if whole else (int, float)
        valid = isinstance(value, kinds) and not isinstance(value, bool)
        if not valid or not (value > 0 if least is None else value >= least) or value >= 1e12:
            range_ = "above 0" if least is None else f"of {least:g} or more"
            raise self.fail(name, f"expected a {'whole ' if whole else ''}number {range_}, got {str(value)[:40]}.")
        return value

    def entries(self, name: str) -> list[str]:
        """A list of texts; a comma-separated text is accepted as well."""
        value = self.values.get(name)
        entries = claude_import.items(value) if isinstance(value, str) else value
        if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
            raise self.fail(name, "expected a list of names.", "Write [a, b], or one `- name` per line.")
        return [entry.strip() for entry in entries]


def listed(names: Iterable[str]) -> str:
    """Names in camelCase on one line; a tuple keeps its order, others are sorted."""
    return ", ".join(CAMEL.get(name, name) for name in (names if isinstance(names, tuple) else sorted(names)))
