"""Reads the prompt of `friday ask`: the argument and standard input."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Callable

from friday_cli.core.protocol.errors import UsageError

FIRST_BYTE_S = 3.0
"""Seconds to wait for piped input when the prompt is an argument."""
MAX_BYTES = 10_000_000
_HOW = 'Run `friday ask "your question"`, or pipe the question in.'
"""Longest standard input."""


def read_prompt(argument: str | None, remark: Callable[[str], None]) -> tuple[str, str]:
    """The prompt, and the piped input beside it ("" for none).

    `-` or no argument reads the prompt from standard input. Piped input is untrusted: an `@` in it attaches no file.
    `remark(text)` shows a message to the person. Raises UsageError if there is no prompt.
    """
    if argument is None or argument == "-":
        if sys.stdin is None or (argument is None and sys.stdin.isatty()):
            raise UsageError("No prompt.", hint=_HOW)
        text = _decoded(_read_all())
        if not text.strip():
            raise UsageError("No prompt: standard input is empty.", hint=_HOW)
        return text, ""
    argument = _decoded(os.fsencode(argument))
    if not argument.strip():
        raise UsageError("The prompt is empty.", hint=_HOW)
    piped = _piped(remark)
    return argument, f"<stdin>\n{piped.rstrip()}\n</stdin>" if piped.strip() else ""


def _piped(remark: Callable[[str], None]) -> str:
    """The text from a pipe or a redirected file, or ""."""
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
            remark(f"no data on standard input after {FIRST_BYTE_S:.0f} s; continuing without it")
            return ""
    return _decoded(_read_all())


def _read_all() -> bytes:
    try:
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"Standard input cannot be read: {error.strerror or error}.") from None
    if len(data) > MAX_BYTES:
        raise UsageError(
            f"Standard input is longer than {MAX_BYTES // 1_000_000} MB.",
            hint="Name the file in the prompt instead: @path.",
        )
    return data


def _decoded(data: bytes) -> str:
    return data.decode("utf-8-sig", "replace").replace("\0", "")
