"""What a word that is not known was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """The one of `known` that is most like `word`, "" where none is; `likeness` is the least ratio of difflib, 0 to 1."""
    from difflib import get_close_matches  # only ever needed on the way to an error

    return next(iter(get_close_matches(word, list(known), 1, likeness)), "")
