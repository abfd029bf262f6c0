"""The options of `friday ask`, read by the quick parser and by the Typer command (help, completion)."""

from __future__ import annotations

from typing import Any

from .. import options
from ..options import BACKGROUND, CONTINUE, SESSION, SHARED, Option

_LIMITS, _OUTPUT = "Limits for the whole tree", "Output"

OPTIONS: tuple[Option, ...] = (
    *SHARED,
    BACKGROUND,
    CONTINUE,
    Option(("--resume", "-r"), "text", "Resume this session (any unique prefix of its id).", "ID", group=SESSION),
    Option(
        ("--resume-agent",),
        "text",
        "Send the prompt to this finished sub-agent (SESSION:PATH, e.g. 7f3a:a.2).",
        "ID",
        group=SESSION,
    ),
    Option(("--config",), "text", "Settings file to use instead of yours.", "FILE", group=SESSION),
    Option(("--max-turns",), "int", "Model turns of the main agent.", "N", group=_LIMITS),
    Option(("--max-tokens",), "int", "Tokens: uncached input, cache writes and output.", "N", group=_LIMITS),
    Option(("--max-cost",), "float", "US dollars.", "USD", group=_LIMITS),
    Option(
        ("--assume-price",),
        "flag",
        "Count a model with an unknown price as its vendor's most expensive one.",
        group=_LIMITS,
    ),
    Option(
        ("--timeout",),
        "float",
        "Active seconds; waiting for rate limits or the network does not count. Without a network it waits just as long.",
        "SECONDS",
        group=_LIMITS,
    ),
    Option(
        ("--output-format", "-f"),
        "text",
        "text, json (one document), stream-json (one event per line), or sarif (findings of sub-agents).",
        "FORMAT",
        ("text", "json", "stream-json", "sarif"),
        _OUTPUT,
    ),
    Option(
        ("--output",),
        "text",
        "Write the answer or the document to this file instead of standard output.",
        "FILE",
        group=_OUTPUT,
    ),
    Option(
        ("--json-schema",), "text", "JSON Schema (file or text) that the answer must match.", "SCHEMA", group=_OUTPUT
    ),
    Option(
        ("--ci",),
        "flag",
        "For a job: plain lines, annotations and a summary under GitHub Actions; needs --max-cost and a sandbox.",
        group=_OUTPUT,
    ),
    Option(
        ("--trust-ref",),
        "text",
        "Take profiles, hooks, skills, servers, settings and AGENTS.md from this commit, not from the working tree.",
        "REF",
        group=options.RIGHTS,
    ),
    Option(("--quiet", "-q"), "flag", "Only the answer; only errors and warnings on stderr.", group=_OUTPUT),
    Option(("--debug",), "flag", "Write a log file without secrets; its path is printed at the end.", group=_OUTPUT),
)


def defaults() -> dict[str, Any]:
    """The values of a call without arguments."""
    return options.defaults(OPTIONS, "prompt")


def parse(argv: list[str]) -> dict[str, Any] | None:
    """The values of a valid call; None for help and for invalid arguments, which Typer then reports."""
    return options.parse(argv, OPTIONS, "prompt")


def of_chat(values: dict[str, Any]) -> dict[str, Any]:
    """The values of a call of the chat (`friday -b -i TEXT`) as those of `friday ask`."""
    known = defaults()
    return known | {name: value for name, value in values.items() if name in known}
