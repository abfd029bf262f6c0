"""The command line: one Typer app; each command imports what it needs when it runs."""

from __future__ import annotations

import sys

import typer

from ..core.errors import FridayError
from . import ask

app = typer.Typer(
    name="friday",
    help="A terminal coding assistant whose sub-agents are first-class.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)
ask.register(app)


@app.callback()
def _friday(
    version: bool = typer.Option(
        False, "--version", "-V", "-v", help="Show the version.", is_eager=True, callback=None
    ),
) -> None:
    """A terminal coding assistant whose sub-agents are first-class."""


def run(argv: list[str]) -> int:
    """Run a command; returns its exit code. Failures Friday knows are one line on standard error."""
    from ..core.plain import plain

    try:
        app(args=argv, prog_name="friday")
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else int(bool(exit_.code))
    except FridayError as error:
        print(f"friday: {plain(str(error))}", file=sys.stderr)
        return error.exit_code
    return 0
