"""How `--help` looks: arguments by their names, options in their groups."""

from __future__ import annotations

import sys
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


def _cheap(option: Any) -> Any:
    """The option `--help` with a value of its type where it is not given: Typer loads pydantic (50 ms) for any other."""
    if option is not None:
        option.default = False
    return option


class _PlainText:
    """How a text of the command line is read: as it is. Typer loads pydantic (50 ms) to see that a text is one."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        return value


class HelpCommand(TyperCommand):
    """A command whose help shows `ID` in place of `ID <str>` and options under the titles of their groups."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for param in self.params:
            about: Any = getattr(param, "type_descriptor", None)
            if about is not None and about.annotation is str and not about.parameter_info.parser and not param.multiple:
                param.get_runtime_param = _PlainText  # type: ignore[attr-defined]
        return super().parse_args(ctx, args)

    def get_help_option(self, ctx: Any) -> Any:
        return _cheap(super().get_help_option(ctx))

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


class HelpGroup(TyperGroup):
    """A family of commands; without a word more it shows its help, in which its commands come first."""

    def get_help_option(self, ctx: Any) -> Any:
        return _cheap(super().get_help_option(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            top = ctx.parent is None
            print(ctx.get_help(), file=sys.stdout if top else sys.stderr)
            raise typer.Exit(0 if top else 2)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        self.format_commands(ctx, formatter)
        HelpCommand.format_options(self, ctx, formatter)  # type: ignore[arg-type]
