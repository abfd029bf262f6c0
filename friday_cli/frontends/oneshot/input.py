"""What a one-shot is asked: the argument, standard input, and files named with `@`."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Callable

from friday_cli.core.protocol.errors import UsageError

FIRST_BYTE_S = 3.0
"""How long a prompt given as an argument waits for something to come through a pipe."""
MOST_BYTES = 10_000_000


def read_prompt(argument: str | None, say: Callable[[str], None]) -> tuple[str, str]:
    """The prompt, and what was piped in beside it ("" for nothing): others may have written that, so that no `@` in it
    names a file. `-` or no argument reads the prompt itself from standard input.

    `say(text)` tells the person a remark. Raises UsageError where there is nothing to answer.
    """
    if argument is None or argument == "-":
        if sys.stdin is None or (argument is None and sys.stdin.isatty()):
            raise UsageError("Nothing to answer.", hint='Write friday ask "your question", or pipe one in.')
        text = _decoded(_read_all())
        if not text.strip():
            raise UsageError("Standard input was empty: nothing to answer.")
        return text, ""
    argument = _decoded(os.fsencode(argument))
    if not argument.strip():
        raise UsageError("The prompt is empty.")
    piped = _piped(say)
    return argument, f"<stdin>\n{piped.rstrip()}\n</stdin>" if piped.strip() else ""


def _piped(say: Callable[[str], None]) -> str:
    """What came through a pipe or a redirected file; "" when there is none."""
    try:
        handle = sys.stdin.fileno()
        mode = os.fstat(handle).st_mode
    except (OSError, ValueError, AttributeError):
        return ""
    if stat.S_ISCHR(mode):  # a terminal or /dev/null
        return ""
    if not stat.S_ISREG(mode):
        ready, _, _ = select.select([handle], [], [], FIRST_BYTE_S)
        if not ready:
            say(f"nothing came from standard input in {FIRST_BYTE_S:.0f} s; going on without it")
            return ""
    return _decoded(_read_all())


def _read_all() -> bytes:
    try:
        data = sys.stdin.buffer.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"Standard input cannot be read: {error.strerror or error}.") from None
    if len(data) > MOST_BYTES:
        raise UsageError(f"Standard input is longer than {MOST_BYTES // 1_000_000} MB.", hint="Name the file instead.")
    return data


def _decoded(data: bytes) -> str:
    return data.decode("utf-8-sig", "replace").replace("\0", "")
