"""Unified diffs as strips: line numbers, colours, and what changed within a line."""

from __future__ import annotations

import difflib
import re

from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from friday_cli.core.protocol.format import pluralize
from friday_cli.core.text.sanitize import show_invisible

from .styles import TextRenderer, chopped

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_WORDS = re.compile(r"\w+|\s+|.")
UNKNOWN = -1_000_000
"""Stands for a line number that is not known."""
COMPARED = 500
"""Characters of a line that are compared word by word."""


def draw_diff(diff: str, pen: TextRenderer, width: int, *, most: int) -> list[Strip]:
    """The lines of a unified diff, at most `most` of them; what is left out is said. A hunk that begins at line 0 has
    no numbers."""
    out: list[Strip] = []
    old = new = 0
    lines = show_invisible(diff).split("\n")
    at = 0
    while at < len(lines) and len(out) < most:
        text = lines[at]
        if text.startswith(("--- ", "+++ ")) and not old and not new:
            at += 1
        elif hunk := _HUNK.match(text):
            if out:
                out.append(pen.line(Text("   ⋮", style=pen.look.dim), width))
            old, new = int(hunk[1]) or UNKNOWN, int(hunk[2]) or UNKNOWN
            at += 1
        elif text.startswith(("-", "+")):
            gone = _run(lines, at, "-")
            come = _run(lines, at + len(gone), "+")
            out += _change(gone, come, old, new, pen, width)
            old, new, at = old + len(gone), new + len(come), at + len(gone) + len(come)
        else:
            if text.startswith(" "):
                out += _row(new, " ", Text(text[1:]), pen, width, pen.look.dim)
                old, new = old + 1, new + 1
            at += 1
    left = len(lines) - at + max(len(out) - most, 0)
    return (
        [*out[:most], pen.line(Text(f"… {pluralize(left, 'more line')}", style=pen.look.dim), width)] if left else out
    )


def proposed(pairs: list[tuple[str, str]]) -> str:
    """Replacements of text that were not made yet, as a diff without line numbers."""
    out = []
    for old, new in pairs:
        found = list(difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=2))
        out += ["@@ -0 +0 @@" if line.startswith("@@") else line for line in found[2:]]
    return "\n".join(out)


def _run(lines: list[str], at: int, sign: str) -> list[str]:
    found = []
    while at < len(lines) and lines[at].startswith(sign):
        found.append(lines[at][1:])
        at += 1
    return found


def _change(gone: list[str], come: list[str], old: int, new: int, pen: TextRenderer, width: int) -> list[Strip]:
    look = pen.look
    paired = len(gone) == len(come) <= 50
    minus, plus = [], []
    for number in range(max(len(gone), len(come))):
        a = Text(gone[number]) if number < len(gone) else None
        b = Text(come[number]) if number < len(come) else None
        if paired and a is not None and b is not None and max(len(a), len(b)) <= COMPARED:
            _mark(a, b, look.removed_word, look.added_word)
        if a is not None:
            minus += _row(old + number, "-", a, pen, width, look.removed)
        if b is not None:
            plus += _row(new + number, "+", b, pen, width, look.added)
    return [*minus, *plus]


def _mark(a: Text, b: Text, removed: Style, added: Style) -> None:
    """Show what is different between two lines that are mostly the same."""
    left, right = _WORDS.findall(a.plain), _WORDS.findall(b.plain)
    match = difflib.SequenceMatcher(None, left, right, autojunk=False)
    if match.ratio() < 0.4:
        return
    for tag, i1, i2, j1, j2 in match.get_opcodes():
        if tag != "equal":
            a.stylize(removed, len("".join(left[:i1])), len("".join(left[:i2])))
            b.stylize(added, len("".join(right[:j1])), len("".join(right[:j2])))


def _row(number: int, sign: str, text: Text, pen: TextRenderer, width: int, style: Style) -> list[Strip]:
    head = f"{number if number > 0 else '':>4} {sign} "
    room = max(width - len(head), 4)
    text.expand_tabs(4)
    pieces = [text] if text.cell_len <= room else _cut(text, room)
    out = []
    for piece in pieces[:200]:
        line = Text(head, style=style)
        line.append_text(piece)
        line.pad_right(max(width - line.cell_len, 0))
        line.stylize_before(style)
        out.append(pen.line(line, width))
        head = " " * len(head)
    if len(pieces) > 200:
        more = f"{head}… {sum(len(piece) for piece in pieces[200:])} more characters"
        out.append(pen.line(Text(more, style=pen.look.dim), width))
    return out


def _cut(text: Text, room: int) -> list[Text]:
    ends, at = [], 0
    for piece in chopped(text.plain, room)[:-1]:
        at += len(piece)
        ends.append(at)
    return list(text.divide(ends))
