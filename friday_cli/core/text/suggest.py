"""Suggestions for unknown words."""

from __future__ import annotations

from collections.abc import Iterable


def closest_match(word: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """The word of `known` that is most similar to `word`, "" for none. `likeness` is the least ratio of difflib, 0 to 1. A
    word with the same letters comes first: `model` for `modle`, not `mode`."""
    from difflib import get_close_matches  # needed for error messages only

    close = get_close_matches(word, list(known), 3, likeness)
    return next((name for name in close if sorted(name) == sorted(word)), next(iter(close), ""))
