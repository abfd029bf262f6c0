"""`friday` without a command: the chat, for Typer (help, completion, error messages), from the one table of its options."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal

import typer

from friday_cli.frontends.tui.options import OPTIONS, ChatOption

from . import completion

_TAB = {
    "model": completion.models,
    "fallback_model": completion.models,
    "subagent_model": completion.models,
    "profile": completion.profiles,
    "resume": completion.sessions,
}


def callback(show_version: Callable[[bool], None], *, options: bool) -> Callable[..., None]:
    """What runs where no command is named. `options` are those of the chat: Typer takes 50 ms for them."""

    def friday(ctx: Any, version: bool, **values: Any) -> None:
        """A terminal coding assistant whose sub-agents are first-class. Without a command: the chat."""
        if ctx.invoked_subcommand is not None:
            return
        from friday_cli.frontends.tui.run import chat

        raise typer.Exit(chat(values))

    version = typer.Option(
        False, "--version", "-V", "-v", help="Show the version.", is_eager=True, callback=show_version
    )
    parameters = [
        inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context),
        inspect.Parameter("version", inspect.Parameter.KEYWORD_ONLY, default=version, annotation=bool),
        *(map(_parameter, OPTIONS) if options else ()),
    ]
    friday.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    friday.__annotations__ = {p.name: p.annotation for p in parameters}
    return friday


def _parameter(option: ChatOption) -> inspect.Parameter:
    kind: Any = {"flag": bool, "many": list[str]}.get(option.kind, str)
    if option.choices:
        kind = Literal[option.choices]
    settings: dict[str, Any] = {"help": option.help, "show_default": False, "rich_help_panel": "Chat"}
    if option.metavar and not option.choices:
        settings["metavar"] = f"[{option.metavar}]" if option.kind == "maybe" else option.metavar
    if option.dest in _TAB:
        settings["autocompletion"] = _TAB[option.dest]
    flag = option.kind == "flag"
    default = typer.Option(False if flag else None, *option.names, **settings)
    annotation = bool if flag else kind | None
    return inspect.Parameter(option.dest, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
