"""What a person is told of files that cannot be used, and of a name that does not exist: for profiles and skills alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from friday_cli.core.protocol.errors import FileError, UsageError
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.core.text.suggest import closest_match

MAX_NAMES = 40
"""Names in an error."""


def unknown_name(kind: str, name: str, names: Sequence[str], problem: FileError | None) -> UsageError:
    """The error for a `name` that `names` of this `kind` ("skill") does not have. `problem`: why the file of that name cannot be used."""
    close = closest_match(name.lower(), names)
    hint = f"Did you mean {close}? " if close else ""
    if problem is not None:
        hint = f"Its file cannot be used: {str(problem).rstrip('.')}. "
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    shown = ", ".join(names[:MAX_NAMES]) or "none"
    return UsageError(f"There is no {kind} {name!r}.", hint=f"{hint}Available: {shown}{more}.")


def in_one_line(
    problems: Sequence[FileError], what: str, name_of: Callable[[Path], str], command: str
) -> tuple[str, ...]:
    """The problems of files in one line, however many there are; () without any. `what` they are of ("skills"), `name_of` the path of
    a file for a person, `command`: what shows all."""
    if len(problems) <= 1:
        return tuple(map(str, problems))
    first = sanitize_line(problems[0].problem, 100)
    return (
        f"{len(problems)} problems in {what}, such as {name_of(Path(problems[0].path))}: {first} `{command}` shows all.",
    )
