"""Places in files that findings name as evidence."""

from __future__ import annotations

import re
from typing import NamedTuple

_PLACE = re.compile(r"`?(?:\./)?([^\s:`][^:`\n]*):(\d{1,9})(?:([-:])(\d{1,9}))?`?")


class Location(NamedTuple):
    """A file relative to the project, and its first and last line."""

    path: str
    first: int
    last: int

    def properties(self) -> dict[str, str | int]:
        """As properties of an annotation."""
        return {"file": self.path, "line": self.first, "endLine": self.last}


def location_of(evidence: str) -> Location | None:
    """The first `path:line` or `path:line-line` of an evidence; None if it is something else, or a path outside the project."""
    for part in re.split(r"[,;\n]\s+", evidence):
        found = _PLACE.fullmatch(part.strip())
        if found is None or part.strip().startswith(("/", "~")) or ".." in found[1].split("/"):
            continue
        if "://" in part:
            continue
        first = int(found[2])
        last = int(found[4]) if found[3] == "-" else first
        if 1 <= first <= last:
            return Location(found[1], first, last)
    return None
