"""The state of the shell at one point of the analysis, and the simple commands found up to there."""

from __future__ import annotations

import msgspec

from friday_cli.core.protocol.shell_script import SimpleCommand

from .programs import PipeInput
from .syntax import Unparseable
from .words import Word, unknown

MAX_COMMANDS = 50
"""Simple commands in one shell command; more need approval."""

Snapshot = tuple[dict[str, Word], set[str], set[str]]


class FoundCommands(msgspec.Struct):
    """The simple commands found so far. A nested `sh -c` adds to the same object. `forms`: for each simple command the
    forms in which it may run, as text, the plainest first."""

    steps: list[SimpleCommand] = []
    forms: list[tuple[str, ...]] = []

    def add(self, step: SimpleCommand) -> None:
        """Append a command. Raises Unparseable above MAX_COMMANDS."""
        if len(self.steps) >= MAX_COMMANDS:
            raise Unparseable(f"it has more than {MAX_COMMANDS} commands")
        self.steps.append(step)


class ShellState:
    """Variables, functions, possible working directories and pipe input. `previous_directories`: where the shell still
    is if a `cd` before failed. `folder_unknown`: after a `cd` whose target is not known. `splits_anywhere`: unquoted variables are not split at blanks, since
    IFS was set. `loops`: the number of enclosing loops. `unstable`: variables whose value is never known,
    because a function sets them, or the shell itself. `input_replaced`: a redirection replaces the
    input of the next pipeline. `pipe_input` is what the next simple command gets from a pipe,
    `pipe_output` what the last one prints."""

    def __init__(self, directories: set[str]) -> None:
        self.variables: dict[str, Word] = {}
        self.functions: set[str] = set()
        self.directories = set(directories)
        self.previous_directories: set[str] = set()
        self.folder_unknown = False
        self.splits_anywhere = False
        self.loops = 0
        self.input_replaced = False
        self.unstable: set[str] = {"_"}
        self.pipe_input = self.pipe_output = PipeInput()

    def assign(self, name: str, value: Word) -> None:
        """Set a variable."""
        known = name not in self.unstable or not value.known
        self.variables[name] = value if known else unknown(f"the value of ${name} is not known")

    def forget(self, names: set[str]) -> None:
        """Mark the values of these variables as unknown."""
        for name in names:
            self.variables[name] = unknown(f"the value of ${name} is not known")

    def allow_failed_cd(self) -> None:
        """From here on the directories before the last `cd` are possible again: it may have failed."""
        self.directories |= self.previous_directories
        self.previous_directories = set()

    def snapshot(self) -> Snapshot:
        """A copy of what a subshell cannot change for its parent."""
        return dict(self.variables), set(self.directories), set(self.previous_directories)

    def restore(self, snapshot: Snapshot) -> None:
        """Return to a snapshot. The dict of variables stays the same object, because the word reader shares it."""
        self.variables.clear()
        self.variables.update(snapshot[0])
        self.directories, self.previous_directories = set(snapshot[1]), set(snapshot[2])
