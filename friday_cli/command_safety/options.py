"""Options of programs: which of them only change how something is shown."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class ProgramWord(msgspec.Struct, frozen=True):
    """A word that a program gets. `known` is False where nobody can tell its text before it runs."""

    text: str
    glob: bool = False
    known: bool = True


class ProgramSpec(msgspec.Struct, frozen=True):
    """What a program may be told and still only look.

    `flags` are short options, `values` short options that take a word, `files` those of them whose word is a file;
    `long`, `long_values`, `long_files` the same with two dashes, blank between. `free` lets unknown flags pass: none of
    the program's can write or run anything. The first `lead` operands are no paths, with `text` none is, and there may
    be `most` of them; `instead` are options that take the place of the leading ones. `data` tells that its operands may
    be unknown.
    """

    flags: str = ""
    values: str = ""
    files: str = ""
    long: str = ""
    long_values: str = ""
    long_files: str = ""
    free: bool = False
    lead: int = 0
    instead: str = ""
    text: bool = False
    most: int = 1_000
    data: bool = False


class ProgramArguments(msgspec.Struct):
    """What a program was told: its options by name, with their words, and its operands."""

    options: list[tuple[str, ProgramWord | None]] = []
    operands: list[ProgramWord] = []
    paths: list[ProgramWord] = []

    def has(self, *names: str) -> bool:
        """Whether one of the options was given."""
        return any(name in names for name, _ in self.options)


def read(args: Sequence[ProgramWord], spec: ProgramSpec) -> ProgramArguments | str:
    """The options of a program, or why they are not known to be harmless."""
    given = ProgramArguments([], [], [])
    rest = list(args)
    while rest:
        arg = rest.pop(0)
        text = arg.text
        if not arg.known and not spec.data:
            return "a word of it is not known beforehand"
        if text == "--" and arg.known:
            given.operands += rest
            break
        if not arg.known or not text.startswith("-") or text == "-":
            given.operands.append(arg)
        elif text.startswith("--"):
            if reason := _long(arg, rest, spec, given):
                return reason
        elif reason := _short(arg, rest, spec, given):
            return reason
    if any(not arg.known for arg in given.operands) and not spec.data:
        return "a word of it is not known beforehand"
    if len(given.operands) > spec.most:
        return f"it is given more than {spec.most or 'no'} operand{'s' if spec.most > 1 else ''}"
    lead = 0 if any(given.has(name) for name in spec.instead.split()) else spec.lead
    given.paths += [arg for arg in given.operands if arg.glob] if spec.text else given.operands[lead:]
    return given


def _long(arg: ProgramWord, rest: list[ProgramWord], spec: ProgramSpec, given: ProgramArguments) -> str:
    name, equals, value = arg.text[2:].partition("=")
    word = ProgramWord(value, arg.glob) if equals else None
    if name in spec.long.split():
        given.options.append((f"--{name}", word))
        if equals:
            given.paths.append(ProgramWord(value))
        return ""
    if name in spec.long_values.split() or name in spec.long_files.split():
        if word is None:
            if not rest:
                return f"--{name} lacks its word"
            word = rest.pop(0)
        given.options.append((f"--{name}", word))
        if name in spec.long_files.split():
            given.paths.append(word)
        return "" if word.known else "a word of it is not known beforehand"
    if not spec.free:
        return f"its option --{name} is not known to be harmless"
    given.options.append((f"--{name}", word))
    if word is not None:
        given.paths.append(word)
    return ""


def _short(arg: ProgramWord, rest: list[ProgramWord], spec: ProgramSpec, given: ProgramArguments) -> str:
    letters = arg.text[1:]
    for at, letter in enumerate(letters):
        if letter in spec.values or letter in spec.files:
            word = ProgramWord(letters[at + 1 :], arg.glob) if letters[at + 1 :] else (rest.pop(0) if rest else None)
            if word is None:
                return f"-{letter} lacks its word"
            given.options.append((f"-{letter}", word))
            if letter in spec.files:
                given.paths.append(word)
            return "" if word.known else "a word of it is not known beforehand"
        if letter in spec.flags or (spec.free and (letter.isalnum() or letter in ",.+@%")):
            given.options.append((f"-{letter}", None))
        elif spec.free:
            given.paths.append(ProgramWord(letters[at:], arg.glob))
            return ""
        else:
            return f"its option -{letter} is not known to be harmless"
    return ""
