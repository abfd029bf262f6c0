"""What a judge of shell commands found out: data for the desk, which decides."""

from __future__ import annotations

import msgspec


class SimpleCommand(msgspec.Struct, frozen=True):
    """One simple command inside a shell command.

    `text` is its words as rules match them, quotes taken off; `raw` how it stands there; `readings` are further forms
    that deny and ask rules must see (behind a wrapper, without its folder). `looks` tells that it is known only to
    look around in the workspace; `why` says why it is, or is not. `opaque` is why no allow rule with a pattern may
    cover it ("" when one may), `blind` marks a step of which nobody can tell which program it runs. `reads` and
    `writes` are path labels that rules for files speak about. `suggest` is the narrowest useful pattern for a rule.
    `danger` is why it could destroy more than the work at hand, "" when nothing shows that.
    """

    text: str
    raw: str
    readings: tuple[str, ...] = ()
    looks: bool = False
    why: str = ""
    dynamic_arguments: str = ""
    dynamic_program: bool = False
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    suggest: str = ""
    danger: str = ""


class CommandAnalysis(msgspec.Struct, frozen=True):
    """A whole shell command, taken apart. `trouble` is why it could not be understood: then no step can be trusted, and
    the last one is the whole text, read without a syntax tree. `hosts` are those it would talk to, each with the URL or "".
    `leaves` is what in it leads out of a folder that it must stay in, "" for nothing.
    """

    steps: tuple[SimpleCommand, ...] = ()
    trouble: str = ""
    hosts: tuple[tuple[str, str], ...] = ()
    leaves: str = ""

    @property
    def dynamic_program(self) -> bool:
        """Whether it may run programs that nobody can name."""
        return bool(self.trouble) or any(step.dynamic_program for step in self.steps)
