"""`friday` without a command (the chat) for Typer, built from its table of options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from friday_cli.frontends.tui.options import OPTIONS

from .parameters import parameter, set_parameters


def callback(show_version: Callable[[bool], None], *, options: bool) -> Callable[..., None]:
    """The callback without a command. `options`: add the options of the chat, which takes Typer 50 ms."""

    def friday(ctx: Any, version: bool, **values: Any) -> None:
        """A terminal coding assistant with first-class sub-agents. Without a command: the chat."""
        if ctx.invoked_subcommand is not None:
            return
        if values.get("background"):
            from friday_cli.frontends.oneshot.options import of_chat
            from friday_cli.frontends.oneshot.run import ask

            raise typer.Exit(ask(of_chat(values)))
        from friday_cli.frontends.tui.run import chat  # imports the screen, which no other command needs

        raise typer.Exit(chat(values))

    version = typer.Option(
        False, "--version", "-V", "-v", help="Show the version.", is_eager=True, callback=show_version
    )
    first = [parameter("ctx", typer.Context), parameter("version", bool, version)]
    set_parameters(friday, first, OPTIONS if options else (), panel="Chat")
    return friday
