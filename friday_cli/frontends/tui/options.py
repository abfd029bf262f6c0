"""The options of `friday` without a command: one table, read by the quick parser here and by the Typer callback (help).

Interface: `OPTIONS`, `defaults()`, `parse(argv)`. Typer costs 100 ms; so a plain call is parsed here, and whatever this
parser does not understand is left to Typer, which explains it.
"""

from __future__ import annotations

import os
from typing import Any, Literal

import msgspec

Kind = Literal["text", "flag", "many", "maybe"]


class ChatOption(msgspec.Struct, frozen=True):
    """One option; `kind` maybe takes a value or none ("" then)."""

    names: tuple[str, ...]
    dest: str
    kind: Kind
    help: str
    metavar: str = ""
    choices: tuple[str, ...] = ()


OPTIONS: tuple[ChatOption, ...] = (
    ChatOption(("--prompt", "-i"), "first", "text", "Begin the chat with this message.", "TEXT"),
    ChatOption(("--continue", "-c"), "continue_", "flag", "Go on with the last session of this folder."),
    ChatOption(("--resume", "-r"), "resume", "maybe", "Go on with this session; without ID choose one from a list.", "ID"),
    ChatOption(("--model", "-m"), "model", "text", "Model, as provider/model[:effort] or an alias; 'demo' needs no key.", "NAME"),
    ChatOption(("--effort",), "effort", "text", "How hard the model thinks.", "LEVEL", ("none", "minimal", "low", "medium", "high", "xhigh", "max")),
    ChatOption(("--fallback-model",), "fallback_model", "text", "Model to go on with when the first stays overloaded.", "NAME"),
    ChatOption(("--subagent-model",), "subagent_model", "text", "Model of sub-agents whose profile names none.", "NAME"),
    ChatOption(("--profile",), "profile", "text", "Persona of the main agent.", "NAME"),
    ChatOption(("--mode",), "mode", "text", "What passes without asking.", "MODE", ("ask", "edits", "plan", "auto")),
    ChatOption(("--yolo",), "yolo", "flag", "Allow everything but deny rules and what could destroy the machine."),
    ChatOption(("--allow",), "allow", "many", "Permission rule such as 'bash(git *)'; may be repeated.", "RULE"),
    ChatOption(("--deny",), "deny", "many", "Rule that is always refused; may be repeated.", "RULE"),
    ChatOption(("--add-dir",), "add_dir", "many", "Another folder to work in; may be repeated.", "DIR"),
    ChatOption(("--trust",), "trust", "flag", "Trust this folder's settings and profiles for this run."),
    ChatOption(("--plain",), "plain", "flag", "The chat as linear text, for screen readers and simple terminals."),
    ChatOption(("--cwd", "-C"), "cwd", "text", "Folder to work in.", "DIR"),
)  # fmt: skip


def defaults() -> dict[str, Any]:
    """The values when nothing is given."""
    return {option.dest: {"flag": False, "many": ()}.get(option.kind) for option in OPTIONS}


def parse(argv: list[str]) -> dict[str, Any] | None:
    """The values of a call that opens the chat; None for a command, for help, and for what needs explaining."""
    names = {name: option for option in OPTIONS for name in option.names}
    values = defaults()
    at = 0
    while at < len(argv):
        name, equals, given = argv[at].partition("=")
        option = names.get(name)
        at += 1
        if option is None or (option.kind == "flag" and equals):
            return None
        if option.kind == "flag":
            values[option.dest] = True
            continue
        if not equals:
            if at < len(argv) and not argv[at].startswith("-"):
                given, at = argv[at], at + 1
            elif option.kind != "maybe":
                return None
        if option.choices and given not in option.choices:
            return None
        values[option.dest] = (*values[option.dest], given) if option.kind == "many" else given
    return values


def wants_chat(argv: list[str]) -> bool:
    """Whether a call without words opens the chat: it does on a terminal, and shows the help elsewhere."""
    return bool(argv) or bool(os.isatty(0) and os.isatty(1) and os.environ.get("TERM"))
