"""Parses the options of a program against a table of the options that keep it read-only."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from friday_cli.core.protocol.format import pluralize

UNKNOWN_WORD = "one of its words is not known before it runs"


class ProgramWord(msgspec.Struct, frozen=True):
    """An argument of a program. `known` is False if its text is not known before the command runs."""

    text: str
    glob: bool = False
    known: bool = True


class ProgramSpec(msgspec.Struct, frozen=True):
    """The arguments with which a program is read-only. Lists are separated by blanks."""

    flags: str = ""
    """Letters of short options."""
    values: str = ""
    """Short options with a value."""
    files: str = ""
    """Short options whose value is a file."""
    long: str = ""
    """Long options."""
    long_values: str = ""
    """Long options with a value."""
    long_files: str = ""
    """Long options whose value is a file."""
    free: bool = False
    """Unknown flags are allowed, because no option of the program writes or runs anything."""
    lead: int = 0
    """The number of first operands that are not paths."""
    instead: str = ""
    """Options that replace those first operands."""
    text: bool = False
    """No operand is a path."""
    most: int = 1_000
    """The maximum number of operands."""
    data: bool = False
    """Operands may be unknown before the command runs."""


class ProgramArguments(msgspec.Struct):
    """Parsed arguments: options by name with their values, operands, and those words that are paths."""

    options: list[tuple[str, ProgramWord | None]] = []
    operands: list[ProgramWord] = []
    paths: list[ProgramWord] = []

    def has(self, *names: str) -> bool:
        """Whether one of the options is present."""
        return any(name in names for name, _ in self.options)


def read(args: Sequence[ProgramWord], spec: ProgramSpec) -> ProgramArguments | str:
    """Parse arguments by `spec`; the result is a str with the reason if they are not known to be read-only."""
    parsed = ProgramArguments([], [], [])
    rest = list(args)
    while rest:
        arg = rest.pop(0)
        text = arg.text
        if not arg.known and not spec.data:
            return UNKNOWN_WORD
        if text == "--" and arg.known:
            parsed.operands += rest
            break
        if not arg.known or not text.startswith("-") or text == "-":
            parsed.operands.append(arg)
        elif text.startswith("--"):
            if reason := _long(arg, rest, spec, parsed):
                return reason
        elif reason := _short(arg, rest, spec, parsed):
            return reason
    if any(not arg.known for arg in parsed.operands) and not spec.data:
        return UNKNOWN_WORD
    if len(parsed.operands) > spec.most:
        return f"it has more than {pluralize(spec.most, 'operand')}"
    lead = 0 if any(parsed.has(name) for name in spec.instead.split()) else spec.lead
    parsed.paths += [arg for arg in parsed.operands if arg.glob] if spec.text else parsed.operands[lead:]
    return parsed


def _long(arg: ProgramWord, rest: list[ProgramWord], spec: ProgramSpec, parsed: ProgramArguments) -> str:
    name, equals, value = arg.text[2:].partition("=")
    word = ProgramWord(value, arg.glob) if equals else None
    if name in spec.long.split():
        parsed.options.append((f"--{name}", word))
        if equals:
            parsed.paths.append(ProgramWord(value))
        return ""
    if name in spec.long_values.split() or name in spec.long_files.split():
        if word is None:
            if not rest:
                return f"--{name} needs a value"
            word = rest.pop(0)
        parsed.options.append((f"--{name}", word))
        if name in spec.long_files.split():
            parsed.paths.append(word)
        return "" if word.known else UNKNOWN_WORD
    if not spec.free:
        return f"its option --{name} is not known to be read-only"
    parsed.options.append((f"--{name}", word))
    if word is not None:
        parsed.paths.append(word)
    return ""


def _short(arg: ProgramWord, rest: list[ProgramWord], spec: ProgramSpec, parsed: ProgramArguments) -> str:
    letters = arg.text[1:]
    for at, letter in enumerate(letters):
        if letter in spec.values or letter in spec.files:
            word = ProgramWord(letters[at + 1 :], arg.glob) if letters[at + 1 :] else (rest.pop(0) if rest else None)
            if word is None:
                return f"-{letter} needs a value"
            parsed.options.append((f"-{letter}", word))
            if letter in spec.files:
                parsed.paths.append(word)
            return "" if word.known else UNKNOWN_WORD
        if letter in spec.flags or (spec.free and (letter.isalnum() or letter in ",.+@%")):
            parsed.options.append((f"-{letter}", None))
        elif spec.free:
            parsed.paths.append(ProgramWord(letters[at:], arg.glob))
            return ""
        else:
            return f"its option -{letter} is not known to be read-only"
    return ""


def url_root(word: str) -> str:
    """An address up to the `/` behind its host, all of the word if it has no scheme or no path."""
    scheme, mark, rest = word.partition("://")
    host, slash, _ = rest.partition("/")
    return f"{scheme}{mark}{host}{slash}" if mark and slash else word
