"""The options of `friday` without a command (the chat), read by the quick parser and by the Typer callback (help)."""

from __future__ import annotations

import os
from typing import Any

from .. import options
from ..options import BACKGROUND, CONTINUE, SHARED, Option

OPTIONS: tuple[Option, ...] = (
    Option(("--prompt", "-i"), "text", "Begin the chat with this message.", "TEXT"),
    BACKGROUND,
    CONTINUE,
    Option(("--resume", "-r"), "maybe", "Resume this session; without ID choose one from a list.", "ID"),
    *SHARED,
    Option(("--plain",), "flag", "The chat as linear text, for screen readers and simple terminals."),
)


def parse(argv: list[str]) -> dict[str, Any] | None:
    """The options of a call that opens the chat; None for a command, for help, and for invalid arguments."""
    return options.parse(argv, OPTIONS)


def wants_chat(argv: list[str]) -> bool:
    """Whether a call without arguments opens the chat: on a terminal; elsewhere it shows the help."""
    return bool(argv) or bool(os.isatty(0) and os.isatty(1) and os.environ.get("TERM"))
