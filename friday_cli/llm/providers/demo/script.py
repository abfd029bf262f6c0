"""What the parts of the demo share: steps, ends, and reading tool results, whose text is never trusted."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from friday_cli.core.protocol.messages import ToolResult
from friday_cli.core.text.sanitize import sanitize_line

_MARKUP = re.compile(r"!\[[^\]]*\]\([^)]*\)|<[^<>]{1,300}>|(?<=\])\([^)\s]*\)|[`*<>|#\[\]\\~]")


class Call(NamedTuple):
    """A tool call that a script wants."""

    tool: str
    arguments: dict[str, Any]


class Step(NamedTuple):
    """A reply that calls tools."""

    text: str
    calls: tuple[Call, ...]


class End(NamedTuple):
    """The last reply. `findings` are (claim in Markdown, evidence as plain text) of a sub-agent."""

    text: str
    findings: tuple[tuple[str, str], ...] = ()
    success: bool = True


Rounds = Sequence[Sequence[ToolResult]]
"""The tool results so far: one sequence per step of the script, in the order of its calls."""
Script = Callable[[Rounds], Step | End]
"""A script has no state: what comes next follows from the results so far, so that another process can resume it."""


class SearchMatches(NamedTuple):
    """What a search shows, as (place, text), and how many there are; `cut` tells that there may be more."""

    rows: list[tuple[str, str]]
    total: int
    cut: bool

    def amount(self, what: str) -> str:
        """The total in words: `at least 2,000 lines`."""
        if self.cut and not self.total:
            return f"0 or more {what}s"
        return ("at least " if self.cut else "") + amount(self.total, what)


def amount(count: int, what: str) -> str:
    """A count with its noun: `1 file`, `2,000 lines`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def code(text: str, limit: int = 100) -> str:
    """Untrusted text as one line of Markdown code."""
    text = sanitize_line(text, limit) or " "
    ticks = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def quoted(text: str, limit: int = 200) -> str:
    """Untrusted prose as a quotation in one line, without its markup."""
    return f"“{sanitize_line(_MARKUP.sub('', text[: limit * 20]), limit)}”"


def failure(result: ToolResult) -> str:
    """Why a call brought nothing, in words."""
    ended = {"denied": "was refused", "cancelled": "was stopped"}.get(result.status, "failed")
    return f"{ended}: {quoted(result.text.partition('. ')[0])}"


def matches(text: str) -> SearchMatches:
    """The result of `grep`, read by the place of its rows: no line and no name of a file can pass for a count."""
    rows = text.split("\n")
    found: list[tuple[str, str]] = []
    path = rows.pop(0)
    while path != "No match." or found:
        while rows and (row := re.fullmatch(r"(\d+):(.*)", rows[0])):
            found.append((f"{path}:{row[1]}", row[2].strip()))
            rows.pop(0)
        if rows[:1] != [""]:
            break
        path = rows[1]
        del rows[:2]
    more = re.match(r"\[([\d,]+) more matching lines;", rows[0]) if rows else None
    hidden = int(more[1].replace(",", "")) if more else 0
    return SearchMatches(found, len(found) + hidden, len(rows) > (more is not None))


def files(text: str) -> SearchMatches:
    """The result of `glob`. Its last rows are remarks where not all files are shown."""
    rows = text.split("\n")
    shown = [] if len(rows) == 1 and rows[0].startswith("No file matches ") else list(rows)
    while shown and re.fullmatch(r"\[.* .*\]", shown[-1]):
        shown.pop()
    return SearchMatches([(row, "") for row in shown], len(shown), bool(shown) and len(shown) < len(rows))
