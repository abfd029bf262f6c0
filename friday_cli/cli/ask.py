"""`friday ask` for Typer (help, completion, error messages), built from its table of options."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import typer

from friday_cli.frontends.oneshot.options import OPTIONS

from .help import HelpCommand
from .parameters import parameter, set_parameters

HELP = """Answer one prompt and exit. The answer goes to standard output, everything else to standard error.

Piped input is added to the prompt ('-' reads the prompt from it); @path attaches a file. Nobody is asked: a call
that needs your permission is denied, reported to the model, and listed at the end.

Exit codes: 0 answered, 1 failed, 2 usage error, 3 no model configured, 4 no answer because calls were denied,
5 limit reached, 75 temporary failure, 130 interrupted."""

_PROMPT = typer.Argument(None, metavar="PROMPT", help="The question or task; '-' reads it from standard input.")


def register(app: typer.Typer, _: str) -> None:
    """Add the command `ask`."""

    def command(**values: Any) -> None:
        from friday_cli.frontends.oneshot.run import ask  # imports the session, which the help does not need

        for option in OPTIONS:
            if option.kind == "many":
                values[option.dest] = tuple(values[option.dest] or ())
        raise typer.Exit(ask(values))

    set_parameters(command, [parameter("prompt", str | None, _PROMPT)], OPTIONS)
    app.command("ask", cls=HelpCommand, help=HELP)(command)


def report_misuse(argv: list[str], text: str, code: int) -> None:
    """Print the JSON document of a run that did not start, if the invalid `argv` asks for JSON."""
    if "--output-format=json" in argv or ("--output-format", "json") in pairwise(argv):
        from friday_cli.frontends.oneshot.output import JsonWriter  # imports the view, which other errors do not need

        JsonWriter.failure(text, code)
