"""The analysis of a shell command, as data for permission rules."""

from __future__ import annotations

import msgspec

UNREAD = "a host that the command does not name"
"""In place of the name of a host, where a network program gets it in another way."""


class SimpleCommand(msgspec.Struct, frozen=True):
    """One simple command inside a shell command.

    `text` is its words as rules match them, without quotes; `raw` is its source text; `readings` are further forms that
    deny and ask rules must see (behind a wrapper, without its folder). `read_only`: it is known to only read in the
    workspace; `why` says why it is, or is not. `dynamic_arguments` says why no allow rule with a pattern may cover it,
    "" when one may. `dynamic_program`: the program that it runs is not known. `reads` and `writes` are path labels for
    rules about files; `changes` are those of files that it changes by naming them (a folder's ends with "/"); `searches` are the folders whose files it may read unnamed ("." is the workspace). `unread_words` says
    why not all of its words are in its text, `unread_program` why it may run any other program. `risky` are its options that write, run or read in other ways than the
    command usually does: only a rule that contains them allows them. `suggest` is the narrowest useful pattern for a rule, `runs_named` whether it runs a script, module or package that its words name, so that only a rule with its name covers it. `danger` says why it could destroy more
    than the current work, "" for no known danger.
    """

    text: str
    raw: str
    readings: tuple[str, ...] = ()
    read_only: bool = False
    why: str = ""
    dynamic_arguments: str = ""
    dynamic_program: bool = False
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    unread_words: str = ""
    unread_program: str = ""
    risky: tuple[str, ...] = ()
    suggest: str = ""
    runs_named: bool = False
    danger: str = ""


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
