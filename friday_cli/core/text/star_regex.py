"""Regular expressions of patterns with stars that take little time for any pattern and name. Standard library only.

The text after a star is taken where it occurs first and never looked for again (an atomic group) where the next star can take what lies
between that place and any later one. Without this a pattern such as `*a*a*a*a*a*b` is matched for ever.
"""

from __future__ import annotations

from collections.abc import Sequence

NAME, ANY, FOLDERS = "*", "**", "**/"
"""Stars: any text without `/`, any text, and nothing or any text that ends in `/`."""
_LAZY = {NAME: "[^/]*?", ANY: ".*?", FOLDERS: "(?:[^/]*/)*?"}


def star_regex(pieces: Sequence[str]) -> str:
    """The regular expression (with `re.S`, for a whole text) of stars and of regular expressions of the text between them, each of
    which matches texts of one length only."""
    found = ""
    parts = _split(pieces, (ANY, FOLDERS))
    for number, (star, between) in enumerate(parts):
        within = _split(between, (NAME,))
        text = "".join(
            _text(one, "".join(fixed), once=bool(one) and place + 1 < len(within))
            for place, (one, fixed) in enumerate(within)
        )
        following = parts[number + 1][0] if number + 1 < len(parts) else ""
        at_folder = text.endswith("/") or (not text and star == FOLDERS)
        found += _text(star, text, once=bool(star) and (following == ANY or (following == FOLDERS and at_folder)))
    return found


def _split(pieces: Sequence[str], stars: tuple[str, ...]) -> list[tuple[str, list[str]]]:
    """The pieces after each of the stars, with that star; "" at the beginning."""
    found: list[tuple[str, list[str]]] = [("", [])]
    for piece in pieces:
        if piece in stars:
            found.append((piece, []))
        else:
            found[-1][1].append(piece)
    return found


def _text(star: str, text: str, *, once: bool) -> str:
    return f"(?>{_LAZY[star]}{text})" if once else _LAZY.get(star, "") + text
