"""Waits for a line of a command's output, in time that is linear in the output whatever the pattern is."""

from __future__ import annotations

LONGEST = 65_536
"""Bytes of an unfinished line that are looked at."""


class LineWatch:
    """Looks for a line that contains one of the texts of `pattern`, which `|` separates; `*` stands for anything within a line.
    `found`: it came. An unfinished line counts too, such as a prompt."""

    def __init__(self, pattern: str) -> None:
        self.found = False
        self._texts = [
            [piece.encode("utf-8", "replace") for piece in text.split("*") if piece] for text in pattern.split("|")
        ]
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Look at more output."""
        if self.found:
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[-LONGEST:]
        self.found = any(self._matches(line) for line in (*lines, self._rest))

    def _matches(self, line: bytes) -> bool:
        return any(pieces and _in_order(pieces, line) for pieces in self._texts)


def _in_order(pieces: list[bytes], line: bytes) -> bool:
    """Whether a line has all pieces one after the other. The first place of each is always right, so nothing is tried twice."""
    at = 0
    for piece in pieces:
        place = line.find(piece, at)
        if place < 0:
            return False
        at = place + len(piece)
    return True
