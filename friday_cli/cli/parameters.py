"""A table of options as the parameters of a Typer command (help, completion, error messages)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, Literal

import typer

from friday_cli.frontends.options import Option, parse

from . import completion
from .help import HelpCommand

_COMPLETIONS = {
    "model": completion.models,
    "fallback_model": completion.models,
    "subagent_model": completion.models,
    "profile": completion.profiles,
    "resume": completion.sessions,
}
"""Completions for the values of options."""
_TYPES: dict[str, Any] = {"flag": bool, "int": int, "float": float, "many": list[str]}


def parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    """A parameter of a command; `default`: the result of `typer.Option` or `typer.Argument`."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def set_parameters(
    function: Callable[..., None], first: Iterable[inspect.Parameter], options: Iterable[Option], panel: str = ""
) -> None:
    """Set `first` and the table as the parameters that Typer sees. `panel`: one help title instead of the groups."""
    parameters = [*first, *(_parameter(option, panel or option.group) for option in options)]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {p.name: p.annotation for p in parameters}


def _parameter(option: Option, panel: str) -> inspect.Parameter:
    kind = Literal[option.choices] if option.choices else _TYPES.get(option.kind, str)
    settings: dict[str, Any] = {"help": option.help, "rich_help_panel": panel}
    if option.metavar and not option.choices:
        settings["metavar"] = f"[{option.metavar}]" if option.kind == "maybe" else option.metavar
    if option.dest in _COMPLETIONS:
        settings["autocompletion"] = _COMPLETIONS[option.dest]
    if option.kind == "flag":
        return parameter(option.dest, bool, typer.Option(False, *option.names, **settings))
    return parameter(option.dest, kind | None, typer.Option(None, *option.names, **settings))


def quick_command(options: Iterable[Option], *arguments: str) -> type[HelpCommand]:
    """A command class that uses the quick parser for valid calls: Typer imports pydantic (50 ms) for text values."""

    class QuickCommand(HelpCommand):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            values = parse(args, options, *arguments)
            if values is None:
                return super().parse_args(ctx, args)
            ctx.params = values
            return []

    return QuickCommand
