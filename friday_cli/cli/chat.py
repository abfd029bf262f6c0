"""`friday` without a command (the chat) for Typer, built from its table of options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from friday_cli.core.protocol.errors import UsageError
from friday_cli.frontends.tui.options import OPTIONS

from .parameters import parameter, set_parameters


def callback(show_version: Callable[[bool], None], *, options: bool) -> Callable[..., None]:
    """The callback without a command. `options`: add the options of the chat, which takes Typer 50 ms."""

    def friday(ctx: Any, version: bool, **values: Any) -> None:
        """A terminal coding assistant with first-class sub-agents. Without a command: the chat."""
        if (command := ctx.invoked_subcommand) is not None:
            _refuse_given(ctx, command)
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


def _refuse_given(ctx: Any, command: str) -> None:
    """Raises UsageError for an option of the chat before a command, which would have no effect."""
    for option in OPTIONS:
        source = ctx.get_parameter_source(option.dest)
        if source is not None and source.name == "COMMANDLINE":
            name = option.names[0]
            hint = f"Write it after the command, where `friday {command} --help` lists it."
            raise UsageError(f"{name} before a command is for the chat.", hint=hint)
