"""Unified diffs as strips: line numbers, colours, and the words that changed within a line."""

from __future__ import annotations

import difflib
from itertools import accumulate, zip_longest

from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from friday_cli.core.protocol.format import pluralize
from friday_cli.core.text.lazy_regex import pattern
from friday_cli.core.text.sanitize import show_invisible

from .styles import TextRenderer, split_cells

_HUNK = pattern(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)")
_WORDS = pattern(r"\w+|\s+|.")
UNKNOWN = -1_000_000
"""The line number of a diff without numbers."""
HIGHLIGHTED = 20_000
"""Longest hunk that is coloured, in characters."""
COMPARED = 500
"""Longest line compared word by word, in characters."""


def draw_diff(diff: str, renderer: TextRenderer, width: int, *, most: int, path: str = "") -> list[Strip]:
    """The lines of a unified diff, at most `most` of them, in the colours of the language of `path`. A last line counts what is
    left out. A hunk that begins at line 0 has no numbers."""
    out: list[Strip] = []
    old = new = 0
    lines = show_invisible(diff).split("\n")
    texts: list[Text] = []
    at = 0
    while at < len(lines) and len(out) < most:
        text = lines[at]
        if text.startswith(("--- ", "+++ ")) and not old and not new:
            at += 1
        elif hunk := _HUNK().match(text):
            if out or hunk[3]:
                out.append(renderer.line(Text(f"   ⋮{hunk[3]}", style=renderer.styles.dim), width))
            old, new = int(hunk[1]) or UNKNOWN, int(hunk[2]) or UNKNOWN
            at += 1
            end = next((n for n in range(at, len(lines)) if lines[n].startswith("@@")), len(lines))
            texts = [Text()] * at + _colored(lines[at : min(end, at + most)], path, renderer)
        elif text.startswith(("-", "+")):
            removed = _prefixed(lines, at, "-")
            added = _prefixed(lines, at + len(removed), "+")
            middle, end = at + len(removed), at + len(removed) + len(added)
            minus = texts[at:middle] if middle <= len(texts) else list(map(Text, removed))
            plus = texts[middle:end] if end <= len(texts) else list(map(Text, added))
            out += _change((minus, old), (plus, new), renderer, width)
            old, new, at = old + len(removed), new + len(added), end
        else:
            if text.startswith(" "):
                shown = texts[at] if at < len(texts) else Text(text[1:])
                out += _row(f"{_shown(new)}   ", shown, renderer, width, renderer.styles.dim)
                old, new = old + 1, new + 1
            at += 1
    if left := len(lines) - at + max(len(out) - most, 0):
        more = Text(f"… {pluralize(left, 'more line')}", style=renderer.styles.dim)
        out = [*out[:most], renderer.line(more, width)]
    return out


def _colored(lines: list[str], path: str, renderer: TextRenderer) -> list[Text]:
    """The lines of a hunk without their signs, in the colours of the language of `path`: those of the old text and those of
    the new one each together. Without colours where a theme has no background to tell removed and added lines apart."""
    plain = [Text(line[1:]) for line in lines]
    if not path or renderer.styles.added.bgcolor is None or sum(map(len, lines)) > HIGHLIGHTED:
        return plain
    from .markdown import highlighted  # takes 30 ms

    for sign in "-+":
        mine = [at for at, line in enumerate(lines) if line[:1] in (sign, " ", "")]
        colored = highlighted("\n".join(lines[at][1:] for at in mine), path, renderer)
        for at, text in zip(mine, colored, strict=False):
            plain[at] = text if text.plain == plain[at].plain else plain[at]
    return plain


def diff_of(pairs: list[tuple[str, str]]) -> str:
    """(old, new) texts as a diff without line numbers."""
    out = []
    for old, new in pairs:
        found = list(difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=2))
        out += ["@@ -0 +0 @@" if line.startswith("@@") else line for line in found[2:]]
    return "\n".join(out)


def _prefixed(lines: list[str], at: int, prefix: str) -> list[str]:
    """The lines from `at` that begin with `prefix`, without it."""
    found = []
    while at < len(lines) and lines[at].startswith(prefix):
        found.append(lines[at][1:])
        at += 1
    return found


def _change(
    before: tuple[list[Text], int], after: tuple[list[Text], int], renderer: TextRenderer, width: int
) -> list[Strip]:
    """Removed lines, then added lines; each list comes with the number of its first line."""
    (removed, old), (added, new) = before, after
    styles = renderer.styles
    paired = len(removed) == len(added) <= 50
    minus, plus = [], []
    for number, (a, b) in enumerate(zip_longest(removed, added)):
        if paired and a is not None and b is not None and max(len(a), len(b)) <= COMPARED:
            _highlight_words(a, b, styles.removed_word, styles.added_word)
        if a is not None:
            minus += _row(f"{_shown(old + number)} - ", a, renderer, width, styles.removed)
        if b is not None:
            plus += _row(f"{_shown(new + number)} + ", b, renderer, width, styles.added)
    return [*minus, *plus]


def _highlight_words(a: Text, b: Text, removed: Style, added: Style) -> None:
    """Highlight the words that differ between two similar lines."""
    left, right = _WORDS().findall(a.plain), _WORDS().findall(b.plain)
    match = difflib.SequenceMatcher(None, left, right, autojunk=False)
    if match.ratio() < 0.4:
        return
    for tag, i1, i2, j1, j2 in match.get_opcodes():
        if tag != "equal":
            a.stylize(removed, len("".join(left[:i1])), len("".join(left[:i2])))
            b.stylize(added, len("".join(right[:j1])), len("".join(right[:j2])))


def _shown(number: int) -> str:
    return f"{number if number > 0 else '':>4}"


def _row(head: str, text: Text, renderer: TextRenderer, width: int, style: Style) -> list[Strip]:
    """A line of a diff, wrapped; `head` is its number and sign."""
    available = max(width - len(head), 4)
    text.expand_tabs(4)
    cuts = list(accumulate(map(len, split_cells(text.plain, available)[:-1])))
    pieces = list(text.divide(cuts)) if cuts else [text]
    out = []
    for piece in pieces[:200]:
        line = Text(head, style=style)
        line.append_text(piece)
        line.pad_right(max(width - line.cell_len, 0))
        line.stylize_before(style)
        out.append(renderer.line(line, width))
        head = " " * len(head)
    if len(pieces) > 200:
        more = f"{head}… {sum(len(piece) for piece in pieces[200:])} more characters"
        out.append(renderer.line(Text(more, style=renderer.styles.dim), width))
    return out
