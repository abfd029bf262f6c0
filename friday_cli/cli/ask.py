"""`friday ask` for Typer (help, completion, error messages), made from the one table of its options."""

from __future__ import annotations

import inspect
from typing import Any, Literal

import typer

from friday_cli.frontends.oneshot.options import OPTIONS, AskOption

from . import completion
from .help import HelpCommand

_TAB = {
    "model": completion.models,
    "fallback_model": completion.models,
    "subagent_model": completion.models,
    "profile": completion.profiles,
    "resume": completion.sessions,
}
"""What Tab offers for an option's value."""

HELP = """Answer one prompt and leave. The answer goes to standard output, all else to standard error.

Piped input is added to the prompt ('-' reads the prompt from it); @path adds a file. Nobody can be asked here: what no
rule or mode allows is refused, told to the model, and listed at the end.

Exit codes: 0 answered, 1 failed, 2 wrong use, 3 no model configured, 4 refused calls left nothing to answer with,
5 a limit was reached, 75 try again later, 130 interrupted."""


def register(app: typer.Typer) -> None:
    """Add the command `ask`."""

    def command(**values: Any) -> None:
        from friday_cli.frontends.oneshot.run import ask

        for option in OPTIONS:
            if option.kind == "many":
                values[option.dest] = tuple(values[option.dest] or ())
        raise typer.Exit(ask(values))

    prompt = inspect.Parameter(
        "prompt", inspect.Parameter.KEYWORD_ONLY,
        default=typer.Argument(None, metavar="PROMPT", help="The question or task; '-' reads it from standard input.", show_default=False),
        annotation=str | None,
    )  # fmt: skip
    parameters = [prompt, *map(_parameter, OPTIONS)]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    app.command("ask", cls=HelpCommand, help=HELP)(command)


def _parameter(option: AskOption) -> inspect.Parameter:
    types: dict[str, Any] = {"flag": bool, "int": int, "float": float, "many": list[str]}
    kind = types.get(option.kind, str)
    if option.choices:
        kind = Literal[option.choices]
    settings: dict[str, Any] = {"help": option.help, "rich_help_panel": option.group, "show_default": False}
    if option.metavar and not option.choices:
        settings["metavar"] = option.metavar
    if option.dest in _TAB:
        settings["autocompletion"] = _TAB[option.dest]
    flag = option.kind == "flag"
    return inspect.Parameter(
        option.dest, inspect.Parameter.KEYWORD_ONLY,
        default=typer.Option(False if flag else None, *option.names, **settings),
        annotation=bool if flag else kind | None,
    )  # fmt: skip
