"""Asks on the plain terminal whether a folder is trusted, before any of its files is used."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from pathlib import Path
from typing import Literal, get_args

from friday_cli.core.text.sanitize import sanitize
from friday_cli.extensions import trust, trust_review

Word = Literal["trust", "information", "not now", "quit"]
_WORDS: dict[str, Word] = {key: word for word in get_args(Word) for key in (word[0], word)}
KEYS = "Type t, i, n or q (quit), then Enter >"
_CHOICES = (
    ("[t] trust it: ", "Friday uses all of this. When one of these files changes, it asks again."),
    (
        "[i] information only: ",
        "agents can read the instructions, but are told not to follow them. The rest is not used.",
    ),
    ("[n] not now: ", "{rest}, and Friday asks again at the next start."),
)


def decided(cwd: Path, trust_status: trust.Trust) -> bool:
    """Ask about the project of `cwd` if it has files or instructions that steer Friday and are new or changed since the last
    decision.

    False when the user quits. Raises FridayError when the decision cannot be saved, or the project changed meanwhile.
    """
    if not trust_review.needs_decision(trust_status):
        return True
    print("\n".join(_question(trust_status)), flush=True)
    word = _answer()
    if word in ("trust", "information"):
        trust.decide(cwd, word == "trust", seen=trust_status.seen)
    return word != "quit"


def _question(trust_status: trust.Trust) -> list[str]:
    root = sanitize(str(trust_status.root), keep="")
    rows = [f"This folder has files that tell Friday what to do: {root}", ""]
    if trust_status.changed or trust_status.outdated:
        rows = [
            f"The files that tell Friday what to do in {root} have changed since you decided",
            "(+ new, ~ changed, - removed):",
            "",
        ]
        rows += [f"  {row}" for row in trust_review.differences(trust_status)]
        rows += ["", "The files now:", ""]
    for file, text in trust_review.lines(trust_status):
        rows += _wrapped(f"  {file}: " if file else "  ", text)
    used = (
        "The changes have not been used"
        if trust_status.changed or trust_status.outdated
        else "None of it has been used"
    )
    rows += ["", *_wrapped("", f"Trust it only if you know who wrote this. {used} so far.", indent=""), ""]
    rest = (
        "the changed instructions are information only, the rest is used" if trust_status.ok else "as information only"
    )
    for head, text in _CHOICES:
        rows += _wrapped(f"  {head}", text.format(rest=rest))
    return [*rows, ""]


def _wrapped(head: str, text: str, indent: str = "      ") -> list[str]:
    width = max(40, shutil.get_terminal_size().columns - 1)
    return textwrap.wrap(head + text, width, subsequent_indent=indent, break_on_hyphens=False)


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
            print(f"{KEYS} ", end="", flush=True)
            typed = os.read(sys.stdin.fileno(), 4096).decode("utf-8", "replace")  # one line, as the terminal gives it
            if not typed or "\x03" in typed:
                print()
                return "quit"
            if word := _WORDS.get(typed.strip().lower()):
                return word
            print("That is none of these letters.")
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
