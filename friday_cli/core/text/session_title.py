"""The title of a session, made from its first message."""

from __future__ import annotations

from .lazy_regex import pattern
from .sanitize import sanitize_line

SHORTEST = 12
"""Characters of a sentence that can be a title; a shorter one (`Hello.`) is joined with the next."""
_CHIP = pattern(r"\[(?:(?:Pasted|Image) #\d+[^\]\n]*|round \d+ of \d+)\]")
_COMMAND = pattern(r"/[\w:.-]+\s+(?=\S)")
_END = pattern(r"[.!?](?=\s|$)")


def session_title(message: str) -> str:
    """The first sentence of a message in one line, without a command before it, chips of pastes and pictures, the round of a loop,
    and piped input after it."""
    first = message.strip().partition("\n\n")[0]
    text = _COMMAND().sub("", first) if first.startswith("/") and _COMMAND().match(first) else first
    if "[" in text:
        text = _CHIP().sub(" ", text)
    line = " ".join(text.split())
    ends = (found.end() for found in _END().finditer(line) if found.end() >= SHORTEST)
    return sanitize_line(line[: next(ends, len(line))].removesuffix(".") or first)
