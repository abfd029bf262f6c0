"""Finds the text that an edit replaces: an exact match, or one unique match that differs only in blanks."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from friday_cli.core.protocol.call_arguments import ToolArguments
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.text.lazy_regex import pattern

_MAX_LISTED = 10
"""Line numbers listed in an error."""
_PLACEHOLDER = pattern(
    r"^[ \t]*(?:(?://|\#|--|;|%|/?\*|<!--|\{/\*)[ \t]*)?(?:\.{3}|…)[ \t]*[(\[]?"
    r"(?=[^\n]*\b(?:rest|remaining|remainder|existing|unchanged|previous|omitted|same|other)\b)"
    r"[\w \t,'()\[\]/-]{0,70}(?:\.{3}|…)?[ \t]*(?:\*/\}?|-->)?[ \t]*$"
    r"|^[ \t]*(?://|\#|--|;|%|/?\*|<!--|\{/\*)[ \t]*(?:the[ \t]+)?(?:rest|remainder|existing|remaining)\b[\w \t,'()-]{0,50}"
    r"(?:unchanged|same|here|\.{3}|…)[.…]{0,3}[ \t]*(?:\*/\}?|-->)?[ \t]*$",
    re.I | re.M,
)


class Replacement(ToolArguments, frozen=True):
    aliases: ClassVar = {
        "old_string": "old", "old_str": "old", "new_string": "new", "new_str": "new", "allow_multiple": "replace_all",
    }  # fmt: skip
    old: str
    new: Annotated[str, Meta(description="Its replacement; empty: delete.")]
    replace_all: bool = False
    cell: Annotated[int, Meta(description="Of a notebook.")] = 0


def refuse_placeholder(new: str, present: str) -> None:
    """Raises ToolError if `new` has a placeholder line for omitted text that is not in the file already."""
    for found in _PLACEHOLDER().finditer(new):
        line = found[0].strip()
        if line not in present:
            hint = "Give the complete text, or edit only the part that changes."
            raise ToolError(f"{line!r} is a placeholder for omitted text.", hint=hint)


def apply(text: str, edit: Replacement, newline: str) -> tuple[str, str]:
    """`text` after the edit, and a remark ("" for an exact match). Raises ToolError. Matching ignores line ends.
    Unchanged lines keep theirs; new lines get `newline`."""
    if edit.old == edit.new:
        raise ToolError("old and new are identical.")
    flat = text.replace("\r\n", "\n")
    old, new = edit.old.replace("\r\n", "\n"), edit.new.replace("\r\n", "\n")
    if not old:
        if flat:
            raise ToolError("old is empty, but the file is not.", hint="Give the text to replace.")
        return new.replace("\n", newline), ""
    remark = ""
    starts = [found.start() for found in re.finditer(re.escape(old), flat)]
    spans = [(start, start + len(old), new) for start in starts]
    if not starts:
        spans = [_match_ignoring_blanks(flat, old, new)]
        first = flat.count("\n", 0, spans[0][0]) + 1
        last = first + flat.count("\n", *spans[0][:2])
        remark = f"matched lines {first}-{last} ignoring indentation or trailing blanks"
    elif len(starts) > 1 and not edit.replace_all:
        lines = [flat.count("\n", 0, start) + 1 for start in starts]
        listed = ", ".join(map(str, lines[:_MAX_LISTED])) + (", ..." if len(lines) > _MAX_LISTED else "")
        hint = "Add surrounding lines to make it unique, or set replace_all."
        raise ToolError(f"old occurs {len(starts)} times, at lines {listed}.", hint=hint)
    return _replace_spans(text, spans, newline), remark


def _replace_spans(text: str, spans: list[tuple[int, int, str]], newline: str) -> str:
    """`text` with spans replaced. The offsets of `spans` count CR LF as one character."""
    pairs = [found.start() - number for number, found in enumerate(re.finditer("\r\n", text))]

    def offset(position: int) -> int:
        return position + bisect_right(pairs, position - 1)

    out, at = [], 0
    for start, end, new in spans:
        out += [text[at : offset(start)], new.replace("\n", newline)]
        at = offset(end)
    return "".join((*out, text[at:]))


def _match_ignoring_blanks(text: str, old: str, new: str) -> tuple[int, int, str]:
    """The only match of whole lines with `old` that ignores trailing blanks or one common indentation. Raises ToolError."""
    lines, wanted = text.split("\n"), old.split("\n")
    ends = wanted[-1] == ""
    if ends:
        wanted.pop()
    matches = []
    if any(line.strip() for line in wanted):
        key = [line.strip() for line in wanted]
        stripped = [line.strip() for line in lines]
        for at in range(len(lines) - len(wanted) + 1):
            if stripped[at] == key[0] and stripped[at : at + len(key)] == key:
                shift = _shift(lines[at : at + len(key)], wanted)
                if shift is not None:
                    matches.append((at, shift))
    if len(matches) == 1:
        at, shift = matches[0]
        start = sum(len(line) + 1 for line in lines[:at])
        end = start + sum(len(line) + 1 for line in lines[at : at + len(wanted)]) - 1
        replacement = shift.apply(new[:-1] if ends and new.endswith("\n") else new)
        return start, end, replacement
    if matches:
        numbers = ", ".join(str(at + 1) for at, _ in matches[:_MAX_LISTED])
        hint = "Copy the exact blanks, with enough lines around it to be unique."
        raise ToolError(f"old is not found exactly; ignoring blanks it is at lines {numbers}.", hint=hint)
    raise ToolError(f"old is not found in the file.{_most_similar(lines, wanted)}")


class _IndentShift(msgspec.Struct, frozen=True):
    """The indentation to add to, or drop from, every line of a text."""

    add: str = ""
    drop: str = ""

    def apply(self, text: str) -> str:
        return "\n".join(self.add + line.removeprefix(self.drop) if line.strip() else line for line in text.split("\n"))


def _shift(have: list[str], wanted: list[str]) -> _IndentShift | None:
    """The common difference of indentation between `have` and `wanted`, None if it is not the same for all lines."""
    found: _IndentShift | None = None
    for mine, theirs in zip(have, wanted, strict=True):
        if not mine.strip():
            continue
        a, b = (line[: len(line) - len(line.lstrip())] for line in (mine, theirs))
        if a.endswith(b):
            one = _IndentShift(add=a[: len(a) - len(b)])
        elif b.endswith(a):
            one = _IndentShift(drop=b[: len(b) - len(a)])
        else:
            return None
        if found is not None and one != found:
            return None
        found = one
    return found


def _most_similar(lines: list[str], wanted: list[str]) -> str:
    """The most similar part of the file with line numbers, as text for an error message."""
    import difflib

    words = Counter(word for line in wanted for word in set(re.findall(r"\w+", line)))
    if not words:
        return ""
    scores = [
        sum(words[word] for word in set(re.findall(r"\w+", line[:500])) & words.keys()) for line in lines[:200_000]
    ]
    span = min(len(wanted), 12)
    running = sum(scores[:span])
    sums = [running]
    for at in range(span, len(scores)):
        running += scores[at] - scores[at - span]
        sums.append(running)
    best = sorted(range(len(sums)), key=lambda at: (-sums[at], at))[:8]
    target = "\n".join(wanted[:span])[:2000]
    ratio, at = max(
        (difflib.SequenceMatcher(None, "\n".join(lines[at : at + span])[:2000], target, False).ratio(), -at)
        for at in best
    )
    if ratio < 0.5:
        return " The file has no similar text: read it again."
    at = -at
    shown = "\n".join(f"{number}\t{line[:300]}" for number, line in enumerate(lines[at : at + span], at + 1))
    return f" The most similar text in the file:\n{shown}"
