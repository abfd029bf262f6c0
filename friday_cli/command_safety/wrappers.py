"""Unwraps programs that run the command in their arguments (`timeout`, `nice`, `env`, `sh -c`)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .options import ProgramWord
from .readonly_programs import ENVIRONMENT

_SHELLS = frozenset(("sh", "bash", "dash"))
_OPTIONS = {
    "time": (r"-p", ""),
    "nice": (r"-n-?\d+|-\d+|--adjustment=-?\d+", r"-n"),
    "stdbuf": (r"-[ioe][0-9L]+K?", r"-[ioe]"),
}
"""The options without a value, and those whose value is the next word."""


def unwrap(argv: Sequence[ProgramWord]) -> list[ProgramWord] | None:
    """The command inside a wrapper that only changes timing, priority or buffering; None if there is none."""
    name, args = argv[0].text.rsplit("/", 1)[-1], list(argv[1:])
    if not all(arg.known for arg in argv[:3]):
        return None
    if name == "timeout":
        args = _skip_options(args, r"--foreground|--preserve-status|-v|--verbose", r"-s|-k|--signal|--kill-after")
        return args[1:] if args and re.fullmatch(r"[\d.]+[smhd]?", args[0].text) else None
    if name in _OPTIONS:
        return _skip_options(args, *_OPTIONS[name]) or None
    if name == "env":
        while args and re.fullmatch(rf"(?:{'|'.join(sorted(ENVIRONMENT))})=.*", args[0].text, re.S):
            args = args[1:]
    literal = args and args[0].known and not args[0].text.startswith("-") and "=" not in args[0].text
    return args if literal and name in ("nohup", "command", "env") else None


def shell_script(argv: Sequence[ProgramWord]) -> str | None:
    """The script of `sh -c script` if it is known literally, else None."""
    name, *words = [arg.text for arg in argv]
    literal = all(arg.known and not arg.glob for arg in argv)
    return words[1] if literal and name.rsplit("/", 1)[-1] in _SHELLS and len(words) == 2 and words[0] == "-c" else None


def _skip_options(args: list[ProgramWord], flags: str, with_value: str) -> list[ProgramWord]:
    """The arguments after the known options; empty if there is an unknown option."""
    while args and args[0].text.startswith("-"):
        if re.fullmatch(flags, args[0].text):
            args = args[1:]
        elif with_value and re.fullmatch(with_value, args[0].text) and len(args) > 1:
            args = args[2:]
        else:
            return []
    return args
