"""Finds things by words of their names and descriptions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol, TypeVar

MOST = 20
"""Things in a result."""
_IN_NAME = 3
"""Weight of a word in the name, against one in the description."""


class Described(Protocol):
    """An object with a name and a description, such as a tool or a profile."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...


D = TypeVar("D", bound=Described)


def find_by_words(things: Sequence[D], query: str) -> list[D]:
    """The things with the most words of `query` at the beginning of a word, the best first, at most `MOST`."""
    words = set(re.findall(r"\w+", query.casefold()))

    def score(one: D) -> int:
        name, about = (re.findall(r"[^\W_]+", text.casefold()) for text in (one.name, one.description))
        return sum(
            _IN_NAME * any(part.startswith(word) for part in name) + any(part.startswith(word) for part in about)
            for word in words
        )

    scores = {one.name: score(one) for one in things}
    found = sorted((one for one in things if scores[one.name]), key=lambda one: (-scores[one.name], one.name))
    return found[:MOST]
