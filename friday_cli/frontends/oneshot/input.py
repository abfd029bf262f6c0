"""Reads the prompt of `friday ask`: the argument, standard input, and the command that it begins with."""

from __future__ import annotations

import asyncio
import os
import select
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from friday_cli.core.protocol.errors import UsageError
from friday_cli.session.attachments import PromptText, prompt_of_command

if TYPE_CHECKING:
    from friday_cli.extensions.tool_lists import Restriction
    from friday_cli.session.session import Session

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


class PromptCommand(msgspec.Struct, frozen=True):
    """What a prompt means. `preface`: text before the message; `note`: for the person."""

    message: str | PromptText
    preface: str = ""
    note: str = ""
    restriction: Restriction | None = None


async def read_command(session: Session, prompt: str, cwd: Path, *, trusted: bool) -> PromptCommand:
    """The custom command or the skill that `prompt` begins with, else the prompt itself."""
    from friday_cli.extensions.commands import find_command, load, unknown_note

    customs = await asyncio.to_thread(load, cwd, trusted=trusted)
    found = find_command(prompt, customs)
    if found is None:
        return PromptCommand(prompt, note=unknown_note(prompt, customs))
    custom, rest = found
    if custom.skill is None:
        return PromptCommand(
            prompt_of_command(custom, rest), note=custom.skipped_note(), restriction=custom.restrictions()
        )
    preface, message, note = await session.skills.load(custom.skill, rest)
    return PromptCommand(message, preface, note, custom.restrictions())
