"""Tells pasted text from typed keys where the terminal does not say which is which (no bracketed paste: screen, serial lines,
programs that write into a terminal).

Text that arrives faster than a person types and has a line end before its last character is one paste. One line with a final
line end is typed: it is sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

QUIET_S = 0.03
"""Seconds without input after which a burst is over. Between two keys of a person, held keys included, there are more."""
FAST_S = 0.01
"""Two characters within so many seconds were not typed."""
LONG = 100
"""Characters in one piece that were not typed even if there is no line end among them."""
MAX_CHARS = 10_000_000
"""A burst is handed on when it has so many characters."""
MAX_SEQUENCE = 20
"""Characters of an escape sequence that is waited for."""

_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|O.|[^\[\]O])", re.DOTALL)
_PASTE_BEGINS, _PASTE_ENDS = "\x1b[200~", "\x1b[201~"
_KEY = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]")


@dataclass(frozen=True)
class Pasted:
    """Text that was pasted, with the line ends of the terminal (`\\r`)."""

    text: str


class Bursts:
    """Splits what a terminal sends into keys (str, in the terminal's own form) and pastes. Nothing is lost or reordered."""

    def __init__(self) -> None:
        self._held = ""
        self._held_is_paste = False
        self._bracketed = False
        self._sequence = ""
        self._last = float("-inf")

    @property
    def waiting(self) -> bool:
        """Whether text is held until it is clear what it is: `end` must be called after `QUIET_S` without input."""
        return bool(self._held or self._sequence)

    def feed(self, data: str, now: float) -> Iterator[str | Pasted]:
        """What is decided by the next piece of input, which was read at `now` (seconds, monotonic)."""
        fast = now - self._last < FAST_S
        self._last = now
        data, self._sequence = self._sequence + data, ""
        for text, keys in self._split(data):
            if text:
                yield from self._text(text, fast)
            if keys:
                yield from self.end()
                yield keys
            fast = True

    def end(self) -> Iterator[str | Pasted]:
        """What was held: no more of it comes."""
        held, is_paste, sequence = self._held, self._held_is_paste, self._sequence
        self._held, self._held_is_paste, self._sequence = "", False, ""
        if is_paste:
            yield Pasted(held)
        elif held:
            yield held
        if sequence:
            yield sequence

    def _text(self, text: str, fast: bool) -> Iterator[str | Pasted]:
        """Characters and line ends, without control characters."""
        text = self._held + text
        bare = text.strip("\r\n")
        inside = text[:-1]
        self._held = ""
        if self._held_is_paste or (bare and ("\r" in inside or "\n" in inside)):
            self._held, self._held_is_paste = text, True
            if len(text) > MAX_CHARS:
                yield from self.end()
        elif text[-1] in "\r\n" and (bare or (fast and len(text) == 1)):
            self._held = text  # typed, unless more follows at once
        elif len(text) > LONG:
            yield Pasted(text)
        else:
            yield text

    def _split(self, data: str) -> Iterator[tuple[str, str]]:
        """`data` as pairs of text and the keys behind it. What a terminal marks as a paste, and everything behind an escape
        sequence that is not complete, is left to the parser of keys."""
        at = 0
        while at < len(data):
            if self._bracketed:
                end = data.find(_PASTE_ENDS, at)
                stop = len(data) if end < 0 else end + len(_PASTE_ENDS)
                self._bracketed = end < 0
                yield "", data[at:stop]
                at = stop
                continue
            escape, key = data.find("\x1b", at), _KEY.search(data, at)
            first = min((n for n in (escape, key.start() if key else -1) if n >= 0), default=len(data))
            if first == len(data):
                yield data[at:], ""
                return
            if first != escape:
                yield data[at:first], data[first]
                at = first + 1
                continue
            found = _SEQUENCE.match(data, first)
            if found is None and data.startswith("\x1b[", first) and len(data) - first <= MAX_SEQUENCE:
                self._sequence = data[first:]  # its end comes with the next piece
                yield data[at:first], ""
                return
            stop = found.end() if found else len(data)
            self._bracketed = data[first:stop] == _PASTE_BEGINS
            yield data[at:first], data[first:stop]
            at = stop
