"""What a word that is not known was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable


def closest_match(word: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """The one of `known` that is most like `word`, "" where none is; `likeness` is the least ratio of difflib, 0 to 1. One
    with the same letters comes first: `modle` is no `mode`."""
    from difflib import get_close_matches  # only ever needed on the way to an error

    close = get_close_matches(word, list(known), 3, likeness)
    return next((name for name in close if sorted(name) == sorted(word)), next(iter(close), ""))
