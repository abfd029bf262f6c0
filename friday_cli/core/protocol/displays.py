"""The results of tools as people see them, as data. Each frontend draws them in its own way."""

from __future__ import annotations

import msgspec


class Display(msgspec.Struct, frozen=True, tag_field="kind", omit_defaults=True):
    """A tool's result for people."""


class TextDisplay(Display, frozen=True, tag="plain"):
    text: str


class DiffDisplay(Display, frozen=True, tag="diff"):
    """A change of one file as unified diff lines. `created`: the bytes of a file that does not exist yet, None for a change
    of one that does."""

    path: str
    diff: str
    added: int = 0
    removed: int = 0
    created: int | None = None


class DiffsDisplay(Display, frozen=True, tag="diffs"):
    """Changes of several files."""

    files: tuple[DiffDisplay, ...]


class CommandDisplay(Display, frozen=True, tag="command"):
    """A command and the end of its output. `spill` is the file with the whole output when it was truncated. `exit_of` is the last
    part of a pipe, whose exit code it is, if the output says that an earlier part failed."""

    command: str
    exit_code: int | None
    output: str
    spill: str = ""
    exit_of: str = ""


class TableDisplay(Display, frozen=True, tag="table"):
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class DelegationDisplay(Display, frozen=True, tag="delegated"):
    """The paths of the agents that a call started. Their state is in the view. `not_started`: why tasks have no agent."""

    agents: tuple[str, ...]
    not_started: tuple[str, ...] = ()


AnyDisplay = TextDisplay | DiffDisplay | DiffsDisplay | CommandDisplay | TableDisplay | DelegationDisplay
