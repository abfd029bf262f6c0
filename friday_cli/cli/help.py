"""Formats `--help`: arguments by name, options in groups."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


class _FastHelp:
    """Gives `--help` the default False: to convert None, Typer imports pydantic (50 ms)."""

    def get_help_option(self, ctx: Any) -> Any:
        option = super().get_help_option(ctx)  # type: ignore[misc]
        if option is not None:
            option.default = False
        return option


class HelpCommand(_FastHelp, TyperCommand):
    """A command whose help shows `ID` instead of `ID <str>`, and options under the titles of their groups."""

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
            sections["Options"] = sections.pop("Options")  # the last group
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class HelpGroup(_FastHelp, TyperGroup):
    """A family of commands. Without arguments it shows its help, commands first."""

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
    """Add a family of commands. `about`: its summary; `settings`: further Typer arguments by command name."""
    family = typer.Typer(cls=HelpGroup, help=about, rich_markup_mode=None)
    for command, function in commands.items():
        family.command(command, **({"cls": HelpCommand} | dict(settings.get(command, {}))))(function)
    app.add_typer(family, name=name)
