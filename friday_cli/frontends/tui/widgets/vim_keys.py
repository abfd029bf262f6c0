"""Vim keys for the prompt: normal, insert and visual mode, with counts, operators and one register.

Places are offsets into the text, in characters. A range is (begin, end), the end not part of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from textual.widgets import TextArea
from textual.widgets.text_area import Document

from .vim_text import by_words, find_character, row_begin, row_end, rows_from, word_around

VimMode = Literal["insert", "normal", "visual", "visual line"]

_NAMED = {"left": "h", "right": "l", "home": "0", "end": "$", "backspace": "h", "space": "l", "delete": "x"}
"""Keys that mean a letter in normal mode."""
_SHORT = {"D": "d$", "C": "c$", "Y": "yy", "x": "dl", "X": "dh", "s": "cl", "S": "cc"}
"""Keys that stand for an operator and a motion."""
_INSERTS = {"i": "", "a": "l", "I": "^", "A": "$"}
"""Keys that begin insert mode, with where the cursor goes first."""
MOST = 1_000
"""Largest count."""


@dataclass(frozen=True)
class VimText:
    """The text field of `VimKeys`."""

    area: TextArea
    whole: Callable[[tuple[int, int], bool], tuple[int, int]]
    """A location (row, column) moved out of the chip that it is inside of: to its begin if True, else to its end."""
    beyond: Callable[[str], bool]
    """Go to an earlier prompt (`k`) or a later one (`j`). False if there is none."""
    show: Callable[[str], None]
    """Show the mode and the keys of an unfinished command."""

    @property
    def text(self) -> str:
        return self.area.text

    @property
    def document(self) -> Document:
        document = self.area.document
        assert isinstance(document, Document)
        return document

    def location(self, at: int) -> tuple[int, int]:
        """(row, column) of a place."""
        return self.document.get_location_from_index(min(max(at, 0), len(self.text)))

    def cursor(self, *, marking: bool) -> int:
        """Where the cursor is; `marking`: on the last marked character."""
        start, end = self.area.selection
        return self.document.get_index_from_location(end) - (marking and end > start)

    def in_row(self, by: int) -> int:
        """The place in the same column, `by` rows below."""
        document = self.document
        row, column = self.area.cursor_location
        row = min(max(row + by, 0), document.line_count - 1)
        return document.get_index_from_location((row, min(column, len(document.get_line(row)))))

    def whole_at(self, at: int, *, left: bool) -> int:
        """A place moved out of a chip."""
        return self.document.get_index_from_location(self.whole(self.location(at), left))

    def range(self, begin: int, end: int) -> tuple[int, int]:
        """A range that cuts no chip."""
        return self.whole_at(begin, left=True), self.whole_at(end, left=False)

    def motion(self, letter: str, at: int, count: int, row: int | None, *, behind: bool) -> int | None:
        """Where a key leads to from `at`, `count` times or to the `row` (from 1); None if it is not a motion. `behind`: it may be
        behind the last character of a row."""
        text = self.text
        begin, end = row_begin(text, at), row_end(text, at)
        match letter:
            case "h":
                return max(begin, at - count)
            case "l":
                return min(end, at + count)
            case "0":
                return begin
            case "^" | "_":
                return begin + len(text[begin:end]) - len(text[begin:end].lstrip())
            case "$":
                return end if behind else max(begin, end - 1)
            case "j" | "k" | "+" | "-":
                return self.in_row(count if letter in "j+" else -count)
            case "G":
                rows = [0, *(found.end() for found in re.finditer("\n", text))]
                return rows[min(row or len(rows), len(rows)) - 1]
            case "w" | "W" | "b" | "B" | "e" | "E":
                return by_words(text, at, letter, count)
        return None

    def put(self, text: str, at: int, *, after: bool) -> int:
        """Insert at `at`, whole rows below the row or above it. Returns where the cursor is then."""
        if text.endswith("\n"):
            place = row_end(self.text, at) if after else row_begin(self.text, at)
            self.change(place, place, "\n" + text[:-1] if after else text)
            return place + after
        place = self.range(at, min(at + 1, row_end(self.text, at)))[1] if after else at
        self.change(place, place, text)
        return place + len(text) - 1

    def join(self, at: int) -> int:
        """Join the row of `at` with the next one. Returns where the cursor is then."""
        end = row_end(self.text, at)
        gap = re.match(r"\n[ \t]*", self.text[end:])
        if gap is None:
            return at
        self.change(end, end + gap.end(), " ")
        return end

    def change(self, begin: int, end: int, text: str) -> None:
        """Replace a range, as one step of undo."""
        self.area.history.checkpoint()
        self.area.replace(text, self.location(begin), self.location(end))
        self.area.history.checkpoint()


class VimKeys:
    """Reads the keys of a text field in vim's way. `mode` is insert at first; Esc is normal mode."""

    def __init__(self, text: VimText) -> None:
        self._field, self._prompt = text, text.area
        self.mode: VimMode = "insert"
        self._count = self._before = self._operator = self._waits_for = self._register = ""
        self._anchor = 0
        """Where the marked text begins in visual mode."""

    @property
    def shown(self) -> str:
        """The mode and the keys of an unfinished command, for the prompt's line."""
        unfinished = f"{self._before}{self._operator}{self._count}{self._waits_for}"
        return f"{self.mode.upper()} {unfinished}".strip()

    def insert(self) -> None:
        """Go on in insert mode."""
        self._forget()
        self._prompt.history.checkpoint()
        self._enter("insert")

    def escape(self) -> bool:
        """Go to normal mode, or drop an unfinished command. False if there was neither to do."""
        if self.mode == "normal" and not (self._count or self._operator or self._waits_for):
            return False
        before = self.mode
        self._forget()
        self._enter("normal")
        at = self._at
        self._move(at - 1 if before == "insert" and at > row_begin(self._field.text, at) else at)
        return True

    def press(self, key: str, character: str | None) -> bool:
        """Act on a key. False if it means here what it means without vim keys."""
        if self.mode == "insert":
            return False
        letter = _NAMED.get(key, character or "")
        if len(letter) != 1 or not letter.isprintable():
            return False
        if not self._prompt.text and not self._operator and not self._waits_for and letter in "/!@#":
            self.insert()  # a command, a file or a note begins with it
            return False
        self._read(letter)
        self._field.show(self.shown)
        return True

    def _read(self, letter: str) -> None:
        if self._waits_for:
            first, self._waits_for = self._waits_for, ""
            return self._two_keys(first, letter)
        if letter.isdigit() and (self._count or letter != "0"):
            self._count = str(min(int(self._count + letter), MOST))
        elif letter in "fFtTrg" or (letter in "ia" and (self._operator or self.mode != "normal")):
            self._waits_for = letter
        elif self.mode != "normal" and letter in "dxycsXYDCvVpo":
            self._on_marked(letter)
        elif self._operator and letter == self._operator:
            self._operate(rows_from(self._field.text, self._at, self._number), rows=True)
        elif letter in "dcy" and not self._operator:
            self._operator, self._before, self._count = letter, self._count, ""
        elif letter in _SHORT and not self._operator:
            for part in _SHORT[letter]:
                self._read(part)
        elif (target := self._motion(letter)) is not None:
            self._go(letter, target)
        elif not self._operator:
            self._command(letter)
        else:
            self._forget()

    def _two_keys(self, first: str, letter: str) -> None:
        """A command of two keys: `fx`, `rx`, `gg`, `iw`."""
        if first == "r" and not self._operator and self.mode == "normal":
            begin, end = self._field.range(self._at, min(self._at + self._number, row_end(self._field.text, self._at)))
            self._field.change(begin, end, letter * (end - begin))
            self._move(max(begin, end - 1))
            self._forget()
        elif first == "g" and letter == "g":
            self._go("g", 0)
        elif first in "ia" and letter in "wW":
            self._on_range(word_around(self._field.text, self._at, big=letter == "W", blanks=first == "a"))
        elif (
            first in "fFtT"
            and (found := find_character(self._field.text, self._at, first + letter, self._number)) is not None
        ):
            self._go(first, found)
        else:
            self._forget()

    def _command(self, letter: str) -> None:
        """A key of normal mode that is neither a motion nor an operator."""
        count, at = self._number, self._at
        self._forget()
        if letter in _INSERTS:
            if where := _INSERTS[letter]:
                target = (
                    min(at + 1, row_end(self._field.text, at)) if where == "l" else self._motion(where, insert=True)
                )
                self._move(target or 0, free=True)
            self.insert()
        elif letter in "oO":
            place = row_end(self._field.text, at) if letter == "o" else row_begin(self._field.text, at)
            self._field.change(place, place, "\n")
            self._move(place + (letter == "o"), free=True)
            self.insert()
        elif letter in "vV":
            self._anchor = at
            self._enter("visual" if letter == "v" else "visual line")
            self._move(at)
        elif letter in "pP":
            self._put(after=letter == "p", count=count)
        elif letter in "uU":
            for _ in range(count):
                (self._prompt.undo if letter == "u" else self._prompt.redo)()
            self._move(self._at)
        elif letter == "J":
            self._move(self._field.join(at))
        elif letter == "~":
            begin, end = self._field.range(at, min(at + count, row_end(self._field.text, at)))
            self._field.change(begin, end, self._field.text[begin:end].swapcase())
            self._move(end)

    def _on_marked(self, letter: str) -> None:
        """A key on the marked text."""
        begin, end = self._marked
        whole_rows = self.mode == "visual line"
        if letter in "vV":
            wanted: VimMode = "visual" if letter == "v" else "visual line"
            self._enter("normal" if wanted == self.mode else wanted)
            self._move(self._at)
        elif letter == "o":
            self._anchor, at = self._at, self._anchor
            self._move(at)
        elif letter == "p":
            taken = self._register
            self._operator = "d"
            self._operate((begin, end), rows=whole_rows)
            self._register, removed = taken, self._register
            self._put(after=begin >= len(self._field.text), count=1)
            self._register = removed
        else:
            self._operator = {"y": "y", "Y": "y", "c": "c", "s": "c", "C": "c"}.get(letter, "d")
            self._operate((begin, end), rows=whole_rows)

    def _go(self, letter: str, target: int) -> None:
        """Move to `target`, or act on the text from here to there."""
        at = self._at
        if not self._operator:
            same_row = row_begin(self._field.text, target) == row_begin(self._field.text, at)
            beyond = letter in "jk" and self.mode == "normal" and same_row
            if beyond and self._field.beyond(letter):
                self._forget()
                return
            self._forget()
            self._move(target, left=target < at)
        elif letter in "jkgG":
            self._operate(
                (row_begin(self._field.text, min(at, target)), rows_from(self._field.text, max(at, target), 1)[1]),
                rows=True,
            )
        else:
            inclusive = letter in "eEft$" and target >= at and bool(self._field.text[target : target + 1].strip("\n"))
            if letter in "wW" and self._operator == "c" and self._field.text[at : at + 1].strip():
                target = at + len(self._field.text[at:target].rstrip())  # as vim: `cw` leaves the blank behind the word
            elif letter in "wW" and "\n" in self._field.text[at:target]:
                target = at + len(self._field.text[at:target].rstrip()) if self._number == 1 else target
            self._operate((min(at, target), max(at, target) + inclusive))

    def _on_range(self, found: tuple[int, int]) -> None:
        if self._operator:
            return self._operate(found)
        self._forget()
        self._anchor = found[0]
        self._move(found[1] - 1)

    def _operate(self, found: tuple[int, int], *, rows: bool = False) -> None:
        """Delete, change or copy a range; `rows`: whole rows."""
        begin, end = self._field.range(*found)
        operator, text = self._operator, self._field.text[begin:end]
        self._forget()
        self._enter("normal")
        self._register = text.rstrip("\n") + "\n" if rows else text
        if operator == "y":
            return self._move(begin)
        if rows and operator == "c":
            end -= text.endswith("\n")
        elif rows and not text.endswith("\n") and begin > 0:
            begin -= 1  # the last row goes with the line end before it
        self._field.change(begin, end, "")
        self._move(
            row_begin(self._field.text, min(begin, len(self._field.text))) if rows and operator == "d" else begin,
            free=True,
        )
        if operator == "c":
            self.insert()
        else:
            self._move(self._at)

    def _put(self, *, after: bool, count: int) -> None:
        """Insert the register behind the cursor or before it."""
        if self._register:
            self._move(self._field.put(self._register * count, self._at, after=after))

    def _motion(self, letter: str, *, insert: bool = False) -> int | None:
        """Where a key leads to; None if it is not a motion. `insert`: it may be behind the last character of a row."""
        row = int(self._count) if self._count else None
        return self._field.motion(letter, self._at, self._number, row, behind=insert or bool(self._operator))

    @property
    def _number(self) -> int:
        return min(int(self._before or 1) * int(self._count or 1), MOST)

    @property
    def _marked(self) -> tuple[int, int]:
        begin, last = sorted((self._anchor, self._at))
        if self.mode == "visual line":
            return row_begin(self._field.text, begin), rows_from(self._field.text, last, 1)[1]
        return self._field.range(begin, min(last + 1, len(self._field.text)))

    def _move(self, at: int, *, left: bool = True, free: bool = False) -> None:
        """Put the cursor at `at`; in normal mode on a character, unless `free`. Marks the text up to there in visual mode."""
        prompt = self._prompt
        at = self._field.whole_at(at, left=left)
        if self.mode == "normal" and not free and at == row_end(self._field.text, at) > row_begin(self._field.text, at):
            at = self._field.whole_at(at - 1, left=True)
        where = self._field.location
        if not self.mode.startswith("visual"):
            prompt.move_cursor(where(at))
            return
        begin, end = (self._anchor, at + 1) if at >= self._anchor else (self._anchor + 1, at)
        length = len(self._field.text)
        prompt.selection = type(prompt.selection)(where(min(begin, length)), where(min(end, length)))

    def _enter(self, mode: VimMode) -> None:
        if self.mode.startswith("visual") and not mode.startswith("visual"):
            at = self._at
            self.mode = mode
            self._prompt.move_cursor(self._field.location(at))
        self.mode = mode
        self._field.show(self.shown)

    @property
    def _at(self) -> int:
        return self._field.cursor(marking=self.mode.startswith("visual"))

    def _forget(self) -> None:
        self._count = self._before = self._operator = self._waits_for = ""
