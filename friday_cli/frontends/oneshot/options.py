"""The options of `friday ask`, read by the quick parser and by the Typer command (help, completion)."""

from __future__ import annotations

from typing import Any

from .. import options
from ..options import CONTINUE, SESSION, SHARED, Option

_LIMITS, _OUTPUT = "Limits for the whole tree", "Output"

OPTIONS: tuple[Option, ...] = (
    *SHARED,
    CONTINUE,
    Option(("--resume", "-r"), "text", "Go on with this session (any unique prefix of its id).", "ID", group=SESSION),
    Option(("--resume-agent",), "text", "Continue this ended sub-agent (SESSION:PATH, such as 7f3a:a.2) with the prompt.", "ID", group=SESSION),
    Option(("--config",), "text", "Settings file to use in place of yours.", "FILE", group=SESSION),
    Option(("--max-turns",), "int", "Model turns of the main agent.", "N", group=_LIMITS),
    Option(("--max-tokens",), "int", "Tokens: uncached input, cache writes and output.", "N", group=_LIMITS),
    Option(("--max-cost",), "float", "US dollars.", "USD", group=_LIMITS),
    Option(("--timeout",), "float", "Active seconds; waiting for rate limits does not count.", "SECONDS", group=_LIMITS),
    Option(("--output-format",), "text", "text, one json document, or stream-json: one event a line.", "FORMAT", ("text", "json", "stream-json"), _OUTPUT),
    Option(("--json-schema",), "text", "JSON Schema (file or text) that the answer must fit.", "SCHEMA", group=_OUTPUT),
    Option(("--quiet", "-q"), "flag", "Only the answer: nothing on stderr but errors.", group=_OUTPUT),
    Option(("--debug",), "flag", "Write a log file without secrets; its place is said at the end.", group=_OUTPUT),
)  # fmt: skip


def defaults() -> dict[str, Any]:
    """The values when nothing is given."""
    return options.defaults(OPTIONS, "prompt")


def parse(argv: list[str]) -> dict[str, Any] | None:
    """The values of a plain call; None for anything that needs explaining (help, a wrong option or value)."""
    return options.parse(argv, OPTIONS, "prompt")
