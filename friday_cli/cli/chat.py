"""`friday` without a command: the chat, for Typer (help, completion, error messages), from the one table of its options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from friday_cli.frontends.tui.options import OPTIONS

from .parameters import parameter, set_parameters


def callback(show_version: Callable[[bool], None], *, options: bool) -> Callable[..., None]:
    """What runs where no command is named. `options` are those of the chat: Typer takes 50 ms for them."""

    def friday(ctx: Any, version: bool, **values: Any) -> None:
        """A terminal coding assistant whose sub-agents are first-class. Without a command: the chat."""
        if ctx.invoked_subcommand is not None:
            return
        from friday_cli.frontends.tui.run import chat  # loads the screen, which no other command needs

        raise typer.Exit(chat(values))

    version = typer.Option(
        False, "--version", "-V", "-v", help="Show the version.", is_eager=True, callback=show_version
    )
    first = [parameter("ctx", typer.Context), parameter("version", bool, version)]
    set_parameters(friday, first, OPTIONS if options else (), panel="Chat")
    return friday
