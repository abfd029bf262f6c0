"""The options of `friday ask`: one table, read by the quick parser here and by the Typer command (help, completion).

`friday ask` is what scripts call, and importing Typer costs as much as the rest of a short run; so the plain case is
parsed here. Whatever this parser does not understand is left to Typer, which explains it.
"""

from __future__ import annotations

import keyword
from itertools import pairwise
from typing import Any, Literal

import msgspec

Kind = Literal["text", "flag", "int", "float", "many"]


class AskOption(msgspec.Struct, frozen=True):
    """One option: `names` with the long one first; `dest` is its key in the parsed values."""

    names: tuple[str, ...]
    kind: Kind
    help: str
    metavar: str = ""
    choices: tuple[str, ...] = ()
    group: str = "Options"

    @property
    def dest(self) -> str:
        name = self.names[0].lstrip("-").replace("-", "_")
        return f"{name}_" if keyword.iskeyword(name) else name

    @property
    def default(self) -> Any:
        return {"flag": False, "many": ()}.get(self.kind)


_MODEL, _RIGHTS, _SESSION, _LIMITS, _OUTPUT = (
    "Model",
    "What it may do",
    "Session",
    "Limits for the whole tree",
    "Output",
)

OPTIONS: tuple[AskOption, ...] = (
    AskOption(("--model", "-m"), "text", "Model, as provider/model[:effort] or an alias; 'demo' needs no key.", "NAME", group=_MODEL),
    AskOption(("--effort",), "text", "How hard the model thinks.", "LEVEL", ("none", "minimal", "low", "medium", "high", "xhigh", "max"), _MODEL),
    AskOption(("--fallback-model",), "text", "Model to go on with when the first stays overloaded (it is said).", "NAME", group=_MODEL),
    AskOption(("--subagent-model",), "text", "Model of sub-agents whose profile names none.", "NAME", group=_MODEL),
    AskOption(("--profile",), "text", "Persona of the main agent.", "NAME", group=_MODEL),
    AskOption(("--mode",), "text", "ask: only reading passes; edits: file changes too; plan: no changes; auto: as edits, and sandboxed commands.", "MODE", ("ask", "edits", "plan", "auto"), _RIGHTS),
    AskOption(("--yolo",), "flag", "Allow everything but deny rules and what could destroy the machine.", group=_RIGHTS),
    AskOption(("--allow",), "many", "Permission rule such as 'bash(git *)'; may be repeated.", "RULE", group=_RIGHTS),
    AskOption(("--deny",), "many", "Rule that is always refused; may be repeated.", "RULE", group=_RIGHTS),
    AskOption(("--add-dir",), "many", "Another folder to work in; may be repeated.", "DIR", group=_RIGHTS),
    AskOption(("--trust",), "flag", "Trust this folder's settings and profiles for this run (for CI).", group=_RIGHTS),
    AskOption(("--cwd", "-C"), "text", "Folder to work in.", "DIR", group=_SESSION),
    AskOption(("--continue", "-c"), "flag", "Go on with the last session of this folder.", group=_SESSION),
    AskOption(("--resume", "-r"), "text", "Go on with this session (any unique prefix of its id).", "ID", group=_SESSION),
    AskOption(("--resume-agent",), "text", "Continue this ended sub-agent (SESSION:PATH, such as 7f3a:a.2) with the prompt.", "ID", group=_SESSION),
    AskOption(("--config",), "text", "Settings file to use in place of yours.", "FILE", group=_SESSION),
    AskOption(("--max-turns",), "int", "Model turns of the main agent.", "N", group=_LIMITS),
    AskOption(("--max-tokens",), "int", "Tokens: uncached input, cache writes and output.", "N", group=_LIMITS),
    AskOption(("--max-cost",), "float", "US dollars.", "USD", group=_LIMITS),
    AskOption(("--timeout",), "float", "Active seconds; waiting for rate limits does not count.", "SECONDS", group=_LIMITS),
    AskOption(("--output-format",), "text", "text, one json document, or stream-json: one event a line.", "FORMAT", ("text", "json", "stream-json"), _OUTPUT),
    AskOption(("--json-schema",), "text", "JSON Schema (file or text) that the answer must fit.", "SCHEMA", group=_OUTPUT),
    AskOption(("--quiet", "-q"), "flag", "Only the answer: nothing on stderr but errors.", group=_OUTPUT),
    AskOption(("--debug",), "flag", "Write a log file without secrets; its place is said at the end.", group=_OUTPUT),
)  # fmt: skip


def defaults() -> dict[str, Any]:
    """The values when nothing is given."""
    return {"prompt": None, **{option.dest: option.default for option in OPTIONS}}


def parse(argv: list[str]) -> dict[str, Any] | None:
    """The values of a plain call; None for anything that needs explaining (help, a wrong option or value)."""
    names = {name: option for option in OPTIONS for name in option.names}
    values = defaults()
    words: list[str] = []
    rest = iter(argv)
    for arg in rest:
        if arg == "--":
            words.extend(rest)
        elif not arg.startswith("-") or arg == "-":
            words.append(arg)
        else:
            name, equals, given = arg.partition("=") if arg.startswith("--") else (arg, "", "")
            option = names.get(name)
            if option is None or (option.kind == "flag" and equals):
                return None
            if option.kind == "flag":
                values[option.dest] = True
                continue
            text = given if equals else next(rest, None)
            if text is None or not _put(values, option, text):
                return None
    if len(words) > 1:
        return None
    values["prompt"] = words[0] if words else None
    return values


def asks_for_json(argv: list[str]) -> bool:
    """Whether words that could not be parsed ask for a JSON document all the same."""
    return "--output-format=json" in argv or ("--output-format", "json") in pairwise(argv)


def _put(values: dict[str, Any], option: AskOption, text: str) -> bool:
    if option.choices and text not in option.choices:
        return False
    try:
        if option.kind == "many":
            values[option.dest] = (*values[option.dest], text)
        else:
            values[option.dest] = {"int": int, "float": float}.get(option.kind, str)(text)
    except ValueError:
        return False
    return True
