"""`friday ask` for Typer (help, completion, error messages), made from the one table of its options."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import typer

from friday_cli.frontends.oneshot.options import OPTIONS

from .help import HelpCommand
from .parameters import parameter, set_parameters

HELP = """Answer one prompt and leave. The answer goes to standard output, all else to standard error.

Piped input is added to the prompt ('-' reads the prompt from it); @path adds a file. Nobody can be asked here: what no
rule or mode allows is refused, told to the model, and listed at the end.

Exit codes: 0 answered, 1 failed, 2 wrong use, 3 no model configured, 4 refused calls left nothing to answer with,
5 a limit was reached, 75 try again later, 130 interrupted."""

_PROMPT = typer.Argument(
    None, metavar="PROMPT", help="The question or task; '-' reads it from standard input.", show_default=False
)


def register(app: typer.Typer, _: str) -> None:
    """Add the command `ask`."""

    def command(**values: Any) -> None:
        from friday_cli.frontends.oneshot.run import ask  # loads the session, which the help does not need

        for option in OPTIONS:
            if option.kind == "many":
                values[option.dest] = tuple(values[option.dest] or ())
        raise typer.Exit(ask(values))

    set_parameters(command, [parameter("prompt", str | None, _PROMPT)], OPTIONS)
    app.command("ask", cls=HelpCommand, help=HELP)(command)


def report_misuse(argv: list[str], text: str, code: int) -> None:
    """Print the JSON document of a run that never began, where `argv` asks for one although it cannot be parsed."""
    if "--output-format=json" in argv or ("--output-format", "json") in pairwise(argv):
        from friday_cli.frontends.oneshot.output import JsonWriter  # loads the view, which no other misuse needs

        JsonWriter.failure(text, code)
