"""The person's caps over all sessions, and what is used of them: rows for the command line and the chat."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence

import msgspec

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.format import pluralize
from friday_cli.store.spending import BatchHold, KeySpending, SpendingCap
from friday_cli.store.store import Store
from friday_cli.system.paths import store_path
from friday_cli.workspace.process.environment import nesting_depth

from .lists import open_store

AXES = ("daily", "weekly", "daily-tokens", "weekly-tokens")
"""The names of caps: US dollars, or tokens, of a day or of a week from Monday on."""


class CapRow(msgspec.Struct, frozen=True):
    """A cap with what is `used` of it and what running requests and batches at services hold (`held`), in US dollars or tokens. `name` is one of `AXES`,
    `payer` the service or key that it is for, "" for all."""

    name: str
    payer: str
    most: float
    used: float
    held: float

    def amounts(self) -> tuple[str, str, str, str]:
        """For people: the cap, what is used and held of it, and what is left."""
        left = max(0.0, self.most - self.used - self.held)
        return tuple(self.amount(value) for value in (self.most, self.used, self.held, left))  # type: ignore[return-value]

    def amount(self, value: float) -> str:
        """A value of its quantity for people: `$20.00`, `1,200,000`."""
        if self.name.endswith("-tokens"):
            return f"{value:,.0f}"
        return f"${value:,.2f}" if value >= 0.995 or not value else f"${value:.4f}"


class SpendingRow(msgspec.Struct, frozen=True):
    """What one key of a service paid today and this week, in US dollars and tokens."""

    service: str
    key: str
    today: float
    today_tokens: int
    week: float
    week_tokens: int

    def amounts(self) -> tuple[str, str, str, str]:
        """For people: cost and tokens of today and of the week. Tokens without a cost have an unknown price, or none."""
        both = ((self.today, self.today_tokens), (self.week, self.week_tokens))
        cells = [(f"${cost:,.2f}" if cost or not tokens else "n/a", f"{tokens:,}") for cost, tokens in both]
        return (*cells[0], *cells[1])


class WaitingRow(msgspec.Struct, frozen=True):
    """What one key has at a service in batches (`friday map --deferred`) that are not collected, and what that may cost."""

    service: str
    key: str
    requests: int
    tokens: int
    cost: float
    """US dollars."""
    until: float
    """Unix seconds from which on nothing of it is held any more: the service answers none of them."""

    def text(self) -> str:
        """For people, in one line."""
        until = time.strftime("%d %b %H:%M", time.localtime(self.until))
        held = f"${self.cost:,.4f}" if self.cost else f"{self.tokens:,} tokens"
        return (
            f"{pluralize(self.requests, 'request')} in batches at {self.service}: {held} held until the same"
            f" `friday map --deferred` command collects the replies, or {until}"
        )


class Spending(msgspec.Struct, frozen=True):
    """All caps, what each key paid, and what waits at services."""

    caps: tuple[CapRow, ...] = ()
    keys: tuple[SpendingRow, ...] = ()
    waiting: tuple[WaitingRow, ...] = ()


async def read() -> Spending:
    """What is used now. Raises StoreError."""
    async with open_store() as store:
        if store is None:
            return Spending()
        now = time.time()
        caps, used = await store.spending.caps(), await store.spending.used(now)
        batches = await store.spending.batches(now)
    keys = {(row.service, row.key): {"daily": row, "weekly": row} for row in used}
    for row in used:
        keys[row.service, row.key][row.period] = row
    return Spending(
        tuple(sorted((_row(cap, used) for cap in caps), key=lambda row: (row.payer, AXES.index(row.name)))),
        tuple(_key_row(rows, used) for rows in keys.values()),
        tuple(
            _waiting_row([batch for batch in batches if (batch.service, batch.key) == payer])
            for payer in sorted({(batch.service, batch.key) for batch in batches})
        ),
    )


def _row(cap: SpendingCap, used: Sequence[KeySpending]) -> CapRow:
    mine = [row for row in used if row.period == cap.period and cap.covers(row.service, row.key)]
    name = cap.period if cap.what == "cost" else f"{cap.period}-tokens"
    spent = sum(row.used.of(cap.what) for row in mine)
    held = sum(row.held.of(cap.what) + row.waiting.of(cap.what) for row in mine)
    return CapRow(name, cap.payer, cap.most, spent, held)


def _waiting_row(batches: Sequence[BatchHold]) -> WaitingRow:
    first, amounts = batches[0], [batch.amounts for batch in batches]
    requests, until = sum(batch.requests for batch in batches), max(batch.expires for batch in batches)
    tokens, cost = int(sum(each.tokens for each in amounts)), sum(each.cost for each in amounts)
    return WaitingRow(first.service, first.key, requests, tokens, cost, until)


def _key_row(rows: Mapping[str, KeySpending], used: Sequence[KeySpending]) -> SpendingRow:
    week = rows["weekly"]
    day = rows["daily"] if rows["daily"].period == "daily" else None
    return SpendingRow(
        week.service,
        week.key,
        day.used.cost if day else 0.0,
        int(day.used.tokens) if day else 0,
        week.used.cost,
        int(week.used.tokens),
    )


async def set_caps(amounts: Mapping[str, float], payer: str = "") -> None:
    """Set caps by name (`AXES`) for a service or key, "" for all. Running sessions obey them. Raises UsageError, StoreError."""
    _require_person()
    if payer and not re.fullmatch(r"[\w.-]{1,80}", payer):
        raise UsageError(f"{payer!r} is not a service or key.", hint="`friday budget show` lists the keys that paid.")
    caps = []
    for name, most in amounts.items():
        if name not in AXES:
            raise UsageError(f"There is no cap {name!r}.", hint=f"Caps: {', '.join(AXES)}.")
        if not 0 < most < float("inf"):
            raise UsageError(f"A cap must be a number above 0, not {most:g}.", hint="`friday budget clear` removes it.")
        period, _, tokens = name.partition("-")
        caps.append(
            SpendingCap(payer, "daily" if period == "daily" else "weekly", "tokens" if tokens else "cost", most)
        )
    async with Store(store_path()) as store:
        await store.spending.set_caps(caps)


async def clear(payer: str | None = None) -> int:
    """Remove the caps for a service or key ("": those for all), or every cap. Returns how many. Raises UsageError, StoreError."""
    _require_person()
    async with open_store() as store:
        return 0 if store is None else await store.spending.clear_caps(payer)


def _require_person() -> None:
    if nesting_depth(os.environ):
        raise UsageError("Caps are set by a person, not by a command of an agent.", hint="Run it in your own shell.")
