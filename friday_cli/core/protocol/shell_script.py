"""The analysis of a shell command, as data for permission rules."""

from __future__ import annotations

import msgspec

UNREAD = "a host that the command does not name"
"""In place of the name of a host, where a network program gets it in another way."""


class SimpleCommand(msgspec.Struct, frozen=True):
    """One simple command inside a shell command. Files are named by path labels."""

    text: str
    """Its words as rules match them, without quotes."""
    raw: str
    """Its source text."""
    readings: tuple[str, ...] = ()
    """Further forms that deny and ask rules must see (behind a wrapper, without its folder)."""
    read_only: bool = False
    """Whether it is known to only read in the workspace."""
    why: str = ""
    """Why it is read-only, or why not."""
    dynamic_arguments: str = ""
    """Why no allow rule with a pattern may cover it; "" if one may."""
    dynamic_program: bool = False
    """Whether the program that it runs is not known."""
    reads: tuple[str, ...] = ()
    """Files that it reads."""
    guesses: tuple[str, ...] = ()
    """Those of `reads` and `changes` that are words of program text (`python -c`), which may not be files."""
    writes: tuple[str, ...] = ()
    """Files that it writes."""
    changes: tuple[str, ...] = ()
    """Files that it changes by naming them; a folder ends with "/"."""
    searches: tuple[str, ...] = ()
    """Folders whose files it may read without naming them; "." is the workspace."""
    unread_words: str = ""
    """Why not all of its words are in its text."""
    unread_program: str = ""
    """Why it may run any other program."""
    risky: tuple[str, ...] = ()
    """Its options that write, run or read in other ways than the command usually does: only a rule that contains them
    allows them."""
    suggest: str = ""
    """The narrowest useful pattern for a rule."""
    runs_named: bool = False
    """Whether it runs a script, module or package that its words name, so that only a rule with its name covers it."""
    danger: str = ""
    """Why it could destroy more than the current work; "" for no known danger."""


class CommandAnalysis(msgspec.Struct, frozen=True):
    """A whole shell command and its steps. `trouble` says why it could not be parsed: then no step can be trusted, and
    the last one is the whole text, read without a syntax tree. `hosts` are those it would contact, each with the URL or
    "". `leaves` is the part of it that leads out of the folder that it must stay in, "" for none.
    """

    steps: tuple[SimpleCommand, ...] = ()
    trouble: str = ""
    hosts: tuple[tuple[str, str], ...] = ()
    leaves: str = ""

    @property
    def dynamic_program(self) -> bool:
        """Whether it may run programs that are not known."""
        return bool(self.trouble) or any(step.dynamic_program for step in self.steps)
