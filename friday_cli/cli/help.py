"""How `--help` looks: arguments by their names, options in their groups."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


class _CheapHelp:
    """The option `--help` with a flag's value where it is not given: Typer loads pydantic (50 ms) to read None as one."""

    def get_help_option(self, ctx: Any) -> Any:
        option = super().get_help_option(ctx)  # type: ignore[misc]
        if option is not None:
            option.default = False
        return option


class HelpCommand(_CheapHelp, TyperCommand):
    """A command whose help shows `ID` in place of `ID <str>` and options under the titles of their groups."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.translate({ord("{"): None, ord("}"): None}) for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is None:
                continue
            if param.param_type_name == "argument":
                sections["Arguments"].append((record[0].partition(" <")[0], record[1].removesuffix("  [required]")))
            else:
                title = getattr(param, "rich_help_panel", None) or "Options"
                sections.setdefault(title, []).append(record)
        if "Options" in sections:
            sections["Options"] = sections.pop("Options")  # the last of them
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class HelpGroup(_CheapHelp, TyperGroup):
    """A family of commands; without a word more it shows its help, in which its commands come first."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            top = ctx.parent is None
            print(ctx.get_help(), file=sys.stdout if top else sys.stderr)
            raise typer.Exit(0 if top else 2)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        self.format_commands(ctx, formatter)
        HelpCommand.format_options(self, ctx, formatter)  # type: ignore[arg-type]


def add_family(
    app: typer.Typer, name: str, about: str, commands: Mapping[str, Callable[..., None]], **settings: Mapping[str, Any]
) -> None:
    """Add the family `name` with its commands to the command line. `about` is its summary; `settings` have for a command
    what Typer is told beside its function."""
    family = typer.Typer(cls=HelpGroup, help=about, rich_markup_mode=None)
    for command, function in commands.items():
        family.command(command, **({"cls": HelpCommand} | dict(settings.get(command, {}))))(function)
    app.add_typer(family, name=name)
