"""Asks on the plain terminal whether a folder is trusted, before any of its files is used."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from pathlib import Path
from typing import Literal

from friday_cli.core.text.sanitize import sanitize
from friday_cli.extensions import trust, trust_review

Word = Literal["trust", "not", "quit"]
_WORDS: dict[str, Word] = {word[:length]: word for word in ("trust", "not", "quit") for length in (1, len(word))}


def decided(cwd: Path, standing: trust.Trust) -> bool:
    """Ask about the project of `cwd` if it has files that steer Friday and are new or changed since the last decision.

    False when the user quits. Raises FridayError when the decision cannot be saved, or the project changed meanwhile.
    """
    if not trust_review.needs_decision(standing):
        return True
    print("\n".join(_question(standing)), flush=True)
    word = _answer()
    if word == "quit":
        return False
    trust.decide(cwd, word == "trust", seen=standing.files)
    return True


def _question(standing: trust.Trust) -> list[str]:
    root = sanitize(str(standing.root), keep="")
    rows = [f"This folder brings things that can steer Friday: {root}", ""]
    if standing.changed:
        rows = [
            f"What can steer Friday in {root} has changed since you decided on it",
            "(+ new, ~ changed, - gone):",
            "",
        ]
        rows += [f"  {row}" for row in trust_review.differences(standing)]
        rows += ["", "It holds now:", ""]
    for file, text in trust_review.lines(standing):
        rows += _wrapped(f"  {file}: ", text)
    return [*rows, "", "Trust it if you know who wrote this. Nothing of it has been used so far."]


def _wrapped(head: str, text: str) -> list[str]:
    width = max(40, shutil.get_terminal_size().columns - 1)
    return textwrap.wrap(head + text, width, subsequent_indent="      ", break_on_hyphens=False)


def _answer() -> Word:
    """The answer of the user; the end of the input and Ctrl+C mean "quit". What was typed before the question is ignored."""
    import termios

    before = termios.tcgetattr(sys.stdin)
    asking = termios.tcgetattr(sys.stdin)
    # Ctrl+C ends a line like Enter: a signal could come just before the reading begins
    asking[3] &= ~termios.ISIG
    asking[6][termios.VEOL] = b"\x03"
    termios.tcsetattr(sys.stdin, termios.TCSAFLUSH, asking)
    try:
        while True:
            print("[t] trust it  [n] not: go on without it  [q] quit > ", end="", flush=True)
            typed = os.read(sys.stdin.fileno(), 4096).decode("utf-8", "replace")  # one line, as the terminal gives it
            if not typed or "\x03" in typed:
                print()
                return "quit"
            if word := _WORDS.get(typed.strip().lower()):
                return word
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
