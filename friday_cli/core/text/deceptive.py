"""Marks characters that make a command look like another one, for permission questions."""

from __future__ import annotations

import re
import unicodedata

from .lazy_regex import pattern
from .sanitize import escaped, show_invisible

_BLANKS = pattern("[\xa0\u1680\u2000-\u200a\u202f\u205f\u2800\u3000\ufe0e\ufe0f\u2024\u2044\u2215\u29f8\ua789]")
"""Blanks that end no word in a shell, and the look-alikes of `.`, `/` and `:`."""
_DASHES = pattern(r"(?<!\S)[\u2010-\u2015\u2212\ufe58\ufe63\uff0d]+(?=[\w-])")
"""Dashes at the start of a word, which look like those of an option."""
_LETTERS = pattern(r"[^\W\d_]+")
_LATIN = pattern("[A-Za-z]")
_FOREIGN = pattern(
    "[\u0370-\u03ff\u0400-\u052f\u0530-\u058f\u13a0-\u13ff\u1c80-\u1c8f\u1d00-\u1dbf\u1f00-\u1fff\u2100-\u214f\u2160-\u217f"
    "\u0250-\u02af\u0131\u2c60-\u2dff\ua640-\ua69f\ua720-\ua7ff\uab30-\uabbf\uff21-\uff5a\U0001d400-\U0001d7ff]"
)
"""Letters of the scripts whose letters can be taken for Latin ones."""
_LOOKALIKES = frozenset("асеіјорѕухһԁԛԝӏкмнтгвАВЕКМНОРСТХУІЈЅԚԜοαρντυικχγηωΑΒΕΖΗΙΚΜΝΟΡΤΥΧ")
_RIGHT_TO_LEFT = frozenset(("R", "AL"))

MAX_COMMAND = 4_000
"""Longest command line that is shown; what is left out is counted."""


def show_deceptive(text: str) -> str:
    """`show_invisible`, and escapes for unusual blanks and for letters of other scripts that stand in for Latin ones.

    Such a letter is in a word with Latin letters, or in a word of look-alikes only that is part of a longer Latin name
    (`lib_с`). Whole words of another script stay readable.
    """
    shown = show_invisible(text)
    if shown.isascii():
        return shown
    shown = _DASHES().sub(lambda found: "".join(map(escaped, found[0])), _BLANKS().sub(_escape, shown))
    return re.sub(r"\S+", _mark_name, shown)


def deception_note(text: str) -> str:
    """What `show_deceptive` spells out in `text`, and letters that change the direction; "" if there is nothing."""
    if text.isascii() and (text.isprintable() or text.replace("\n", "").replace("\t", "").isprintable()):
        return ""
    shown = show_deceptive(text)
    marked = sorted(c for c in set(text) if text.count(c) > shown.count(c))
    notes = []
    if marked:
        named = ", ".join(f"{escaped(c)} {unicodedata.name(c, 'CONTROL CHARACTER')}" for c in marked[:4])
        more = f", and {len(marked) - 4} more" if len(marked) > 4 else ""
        notes.append(f"It has characters that hide or look like others, spelled out here: {named}{more}.")
    if any(unicodedata.bidirectional(c) in _RIGHT_TO_LEFT for c in shown):
        notes.append("It has letters written from right to left: the terminal may show its parts in another order.")
    return " ".join(notes)


def _mark_name(name: re.Match[str]) -> str:
    text = name[0]
    if text.isascii() or not _LATIN().search(text):
        return text
    return _LETTERS().sub(_mark_word, text)


def _mark_word(word: re.Match[str]) -> str:
    text = word[0]
    if text.isascii() or not (_LATIN().search(text) or _LOOKALIKES.issuperset(text)):
        return text
    return _FOREIGN().sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return escaped(found[0])


def show_command(text: str) -> str:
    """A command line or an address as one line for a person who decides about it, with hidden characters spelled out."""
    shown = show_deceptive(text).replace("\n", "\\n").replace("\t", "\\t")
    left = len(shown) - MAX_COMMAND
    return shown if left <= 0 else f"{shown[:MAX_COMMAND]} … ({left:,} more characters: read the file)"
