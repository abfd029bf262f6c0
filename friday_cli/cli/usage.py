"""`friday usage`: what all sessions used, by day, model, profile and folder."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from typing import Any, Literal, NamedTuple

import typer

from friday_cli.core.protocol import format
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.messages import NO_USAGE, Usage
from friday_cli.store.listing import run_query, unfinished_sessions
from friday_cli.store.spending import SpendingCap, read_caps
from friday_cli.store.usage import UsedRow, used
from friday_cli.system.paths import existing_store_path, with_tilde

from . import output
from .help import HelpCommand
from .session_args import JSON

By = Literal["day", "model", "profile", "folder"]
AXES: tuple[By, ...] = ("day", "model", "profile", "folder")
_BY = typer.Option(None, "--by", help="Only one table: day, model, profile or folder.")
BAR = 20
"""Columns of the longest bar."""
DAYS = 30


def register(app: typer.Typer, about: str) -> None:
    """Add the command `usage`."""
    app.command("usage", cls=HelpCommand)(usage)


def usage(
    by: By | None = _BY,
    since: str = typer.Option(
        f"{DAYS}d", "--since", metavar="WHEN", help="A day, such as 2026-11-01, or how long ago: 7d, 4w."
    ),
    as_json: bool = JSON,
) -> None:
    """Show cost and tokens by day, model, profile and folder.

    Each request counts once, those of sub-agents too; a fork does not count them again. Tokens are those that count against a budget: input
    that was not read from a cache, cache writes and output. Of deleted sessions only day, service, tokens and cost are kept.
    """
    start = first_day(since, date.today())
    rows, caps = _read(start)
    if as_json:
        output.show_json(
            {"since": start, "total": _Sum.of(rows).as_data()}
            | {axis: [{axis: name, **each.as_data()} for name, each in _grouped(rows, axis).items()] for axis in AXES}
        )
        return
    if not rows:
        output.remark(f"nothing was used since {start}; the demo does not count.")
        return
    total = _Sum.of(rows)
    output.show_painted((f"Since {start}: {total.price}, {format.tokens(total.usage)} tokens", "bold"))
    for axis in (by,) if by else AXES:
        output.show()
        _show_table(rows, axis, caps)


def first_day(since: str, today: date) -> str:
    """The local day that `since` names, such as `2026-11-01`. Raises UsageError."""
    wanted = since.strip().lower()
    ago = re.fullmatch(r"(\d{1,4})([dw])", wanted)
    if ago:
        return (today - timedelta(days=int(ago[1]) * (7 if ago[2] == "w" else 1))).isoformat()
    try:
        return date.fromisoformat(wanted).isoformat()
    except ValueError:
        raise UsageError(
            f"--since {since!r} is not a day.", hint="Examples: --since 2026-11-01, --since 7d, --since 4w."
        ) from None


def _read(since: str) -> tuple[list[UsedRow], tuple[SpendingCap, ...]]:
    """What was used since a day, and the person's caps. Sessions of dead processes are marked as ended first."""
    path = existing_store_path()
    if path is None:
        return [], ()
    if run_query(path, unfinished_sessions):
        from .session_lookup import reconcile  # rarely needed

        asyncio.run(reconcile())
    return run_query(path, lambda db: (used(db, since), read_caps(db)))


class _Sum(NamedTuple):
    """Usage of several rows; `unpriced` are the tokens whose price is unknown."""

    usage: Usage
    unpriced: int

    @classmethod
    def of(cls, rows: Iterable[UsedRow]) -> _Sum:
        rows = tuple(rows)
        return cls(sum((row.usage for row in rows), NO_USAGE), sum(row.unpriced for row in rows))

    @property
    def cost(self) -> float:
        """US dollars, of the requests whose price is known."""
        return self.usage.cost_usd or 0.0

    @property
    def price(self) -> str:
        """For people: `$1.20`; `$1.20 + ?` where a part has no price, `n/a` where nothing has one."""
        if self.unpriced and not self.cost:
            return "n/a"
        return format.cost(self.usage) + (" + ?" if self.unpriced else "")

    def as_data(self) -> dict[str, Any]:
        names = ("cost_usd", "input", "cache_read", "cache_write", "output", "estimated")
        found = {name: getattr(self.usage, name) for name in names}
        return {**found, "tokens": self.usage.billed, "unpriced_tokens": self.unpriced}


def _grouped(rows: Sequence[UsedRow], axis: By) -> dict[str, _Sum]:
    """The usage by day in order, or by another axis with the most expensive first."""
    groups: dict[str, list[UsedRow]] = {}
    for row in rows:
        groups.setdefault(str(getattr(row, axis)), []).append(row)
    found = {name: _Sum.of(group) for name, group in groups.items()}
    if axis == "day":
        return dict(sorted(found.items()))
    return dict(sorted(found.items(), key=lambda item: (-item[1].cost, -item[1].usage.billed, item[0])))


def _show_table(rows: Sequence[UsedRow], axis: By, caps: Sequence[SpendingCap]) -> None:
    groups = _grouped(rows, axis)
    priced = any(each.cost for each in groups.values())
    sizes = [each.cost if priced else float(each.usage.billed) for each in groups.values()]
    most = max(sizes) or 1.0
    cap = next((cap.most for cap in caps if (cap.payer, cap.period, cap.what) == ("", "daily", "cost")), 0.0)
    titles = [axis.upper(), "COST", "TOKENS", "CACHED"]
    table = []
    for (name, each), size in zip(groups.items(), sizes, strict=True):
        share = each.usage.cache_share
        row = [with_tilde(name) if axis == "folder" else name, each.price, format.tokens(each.usage)]
        row.append("-" if share is None else f"{share:.0%}")
        if axis == "day" and cap:
            row.append(f"{each.cost / cap:.0%} of ${cap:,.2f}")
        table.append([*row, "█" * max(round(size / most * BAR), size > 0)])
    titles += ["OF THE CAP", ""] if axis == "day" and cap else [""]
    output.show_table(titles, table, right=("COST", "TOKENS", "CACHED", "OF THE CAP"), wide=(axis.upper(),))
