"""The difference of two texts as a unified diff."""

from __future__ import annotations

import re

from .lazy_regex import pattern

DIFF_LINES, DIFF_CHARACTERS = 400, 40_000
"""Limits of a diff that is shown."""
_DEFINITION = pattern(
    r"\s*(?:(?:export|default|public|private|protected|static|async|pub|abstract|final|override)\s+)*"
    r"(?:def|class|fn|func|function|impl|interface|struct|enum|trait|module)\b.*"
)
"""A line that begins a function or a class."""
_LOOKED_BACK = 2_000
"""Lines before a change in which its function is looked for."""
_COMPARED = 4_000_000
"""Product of the line counts up to which two texts are compared line by line."""


def difference(before: str, after: str) -> tuple[str, int, int]:
    """A unified diff of limited length, and the numbers of lines added and removed. A hunk names the function that it is in,
    unless its lines show that. Texts that are too large to compare count as replaced, except for equal lines at both ends."""
    import difflib

    old, new = (re.split(r"(?<=\n)", text.replace("\r\n", "\n")) for text in (before, after))
    old, new = ([line for line in lines if line] for lines in (old, new))
    if old == new:
        return ("", len(new), len(old)) if before != after else ("", 0, 0)
    top = 0
    while top < min(len(old), len(new)) and old[top] == new[top]:
        top += 1
    bottom = 0
    while bottom < min(len(old), len(new)) - top and old[-1 - bottom] == new[-1 - bottom]:
        bottom += 1
    start, tail, whole = max(top - 3, 0), max(bottom - 3, 0), old
    old, new = old[start : len(old) - tail], new[start : len(new) - tail]
    if len(old) * len(new) > _COMPARED:
        keep = slice(top - start, None)
        lines = [f"-{line}" for line in old[keep]] + [f"+{line}" for line in new[keep]]
        lines.insert(0, f"@@ -{top + 1},{len(old)} +{top + 1},{len(new)} @@\n")
    else:
        lines = [_moved(line, start) for line in list(difflib.unified_diff(old, new))[2:]]
        lines = [_with_function(line, whole) if line.startswith("@@") else line for line in lines]
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    return _clipped(lines), added, removed


def _with_function(hunk: str, old: list[str]) -> str:
    """The head of a hunk, with the first line of the function or class around it if its own lines do not show that."""
    found = re.match(r"@@ -(\d+)", hunk)
    first = int(found[1]) - 1 if found else 0
    changed = first + 3 if first > 0 else 0
    at = min(changed, len(old) - 1)
    indent = len(old[at]) - len(old[at].lstrip()) if old and old[at].strip() else 1_000
    while indent and changed - at < _LOOKED_BACK and at > 0:
        at -= 1
        line = old[at]
        width = len(line) - len(line.lstrip())
        if width >= indent or not line.strip(" \t\n(){}[];,") or line.lstrip()[0] in ")]}":
            continue
        if _DEFINITION().match(line):
            return hunk if at >= first else f"{hunk.rstrip()} {line.strip()[:120]}\n"
        indent = width
    return hunk


def new_lines(diff: str) -> tuple[tuple[int, int], ...]:
    """The first and last line, in the new text, of each hunk of a diff."""
    found = [(int(at), int(count or 1)) for at, count in re.findall(r"(?m)^@@ -\S+ \+(\d+)(?:,(\d+))? @@", diff)]
    return tuple((first, first + count - 1) for first, count in found if count)


def _moved(line: str, by: int) -> str:
    """A line of a diff, with the line numbers of its hunk moved by `by`."""
    if by and line.startswith("@@"):
        return re.sub(r"([-+])(\d+)", lambda found: f"{found[1]}{int(found[2]) + by}", line)
    return line


def _clipped(lines: list[str]) -> str:
    out: list[str] = []
    room = DIFF_CHARACTERS
    for line in lines[:DIFF_LINES]:
        if not line.endswith("\n"):
            line += "\n\\ No newline at end of file\n"
        room -= len(line)
        if room < 0:
            break
        out.append(line)
    if len(out) < len(lines):
        out.append(f"[{len(lines) - len(out):,} more lines of this diff]\n")
    return "".join(out)
