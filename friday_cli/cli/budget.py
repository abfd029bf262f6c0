"""`friday budget`: caps over all sessions, and what is used of them."""

from __future__ import annotations

import asyncio
from typing import Any

import typer

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.format import pluralize
from friday_cli.session import spending

from . import output
from .help import HelpCommand, HelpGroup
from .session_args import JSON

_PAYER = typer.Option("", "--for", metavar="KEY", help="Only what this service or key pays, such as anthropic.")


class _Family(HelpGroup):
    """The family; without arguments it shows the caps."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args if args and args != ["--json"] else ["show", *args])


def register(app: typer.Typer, about: str) -> None:
    """Add the family `budget`."""
    family = typer.Typer(cls=_Family, help=about, rich_markup_mode=None)
    for name, function in (("show", show), ("set", set_), ("clear", clear)):
        family.command(name, cls=HelpCommand)(function)
    app.add_typer(family, name="budget")


def show(as_json: bool = JSON) -> None:
    """Show the caps, what is used of them, and what each key paid.

    `held` is what requests that run now may still use, and batches that wait at a service.
    """
    found = asyncio.run(spending.read())
    if as_json:
        output.show_json(found)
        return
    if not found.caps:
        output.remark("no caps. `friday budget set --daily 20` sets one over all your sessions.")
    else:
        rows = [(row.name, row.payer or "all", *row.amounts()) for row in found.caps]
        output.show_table(("CAP", "FOR", "MOST", "USED", "HELD", "LEFT"), rows, right=("MOST", "USED", "HELD", "LEFT"))
    if found.keys:
        if found.caps:
            output.show()
        titles = ("SERVICE", "KEY", "TODAY", "TOKENS", "THIS WEEK", "TOKENS THIS WEEK")
        keys = [(row.service, row.key or "?", *row.amounts()) for row in found.keys]
        output.show_table(titles, keys, right=titles[2:])
    for waiting in found.waiting:
        output.show()
        output.show(waiting.text() + ".")


def set_(
    daily: float | None = typer.Option(None, metavar="USD", help="US dollars from midnight to midnight."),
    weekly: float | None = typer.Option(None, metavar="USD", help="US dollars from Monday on."),
    daily_tokens: float | None = typer.Option(None, metavar="N", help="Tokens from midnight to midnight."),
    weekly_tokens: float | None = typer.Option(None, metavar="N", help="Tokens from Monday on."),
    payer: str = _PAYER,
) -> None:
    """Set or change caps over all your sessions, also for those that run.

    When one is reached, agents wait and say so, until you raise it or midnight; with `budget.on_cap = "wrap_up"` in the
    settings they hand back what they have.
    """
    given = zip(spending.AXES, (daily, weekly, daily_tokens, weekly_tokens), strict=True)
    amounts = {name: value for name, value in given if value is not None}
    if not amounts:
        raise UsageError("Name a cap.", hint="`friday budget set --daily 20` lets all sessions use $20 a day.")
    asyncio.run(spending.set_caps(amounts, payer))
    show(as_json=False)
    if payer and not any(payer in (row.service, row.key) for row in asyncio.run(spending.read()).keys):
        output.remark(f"no service or key named {payer!r} was used this week; the cap counts from its first use.")


def clear(
    payer: str = typer.Option(None, "--for", metavar="KEY", help="Only the caps for this service or key."),
) -> None:
    """Remove all caps."""
    count = asyncio.run(spending.clear(payer))
    output.show(f"{pluralize(count, 'cap')} removed.")
