"""What all sessions used each day, what running requests hold, and the person's caps over it.

`spending` has a row for each day, service, key and session, added in the transaction that stores the event with the usage. It
stays when a session is deleted. `holds` has a row for each request that runs under a cap. The lock of its session proves that
its process lives: of a dead one only what was begun counts, as its input and a usual reply, until the session is recovered.
`batch_holds` has a row for each batch at a service, whether the process that sent it lives or not, until its replies are collected.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta
from itertools import accumulate
from typing import Literal

import msgspec

from friday_cli.core.limits.budget import DUST, Amounts
from friday_cli.core.limits.ledger import Held, Need
from friday_cli.core.protocol import events
from friday_cli.core.protocol.events import Envelope
from friday_cli.core.protocol.format import is_demo
from friday_cli.core.protocol.messages import NO_USAGE
from friday_cli.core.protocol.waiting import CapReached

Period = Literal["daily", "weekly"]
Quantity = Literal["tokens", "cost"]
_ENDS_REQUEST = (*events.WITH_USAGE, events.AgentFinished)
_SAYS_USAGE = frozenset((*_ENDS_REQUEST, events.RepliesCollected))
RESERVE = 0.1
"""The part of a cap that is kept for the last turns of agents, if they hand back what they have when it is reached."""


class SpendingCap(msgspec.Struct, frozen=True):
    """A cap: at most `most` US dollars or tokens. `payer` is the service or key that it is for, "" for all."""

    payer: str
    period: Period
    what: Quantity
    most: float

    def covers(self, service: str, key: str) -> bool:
        """Whether it counts what is paid with a key."""
        return self.payer in ("", service, key) and not is_demo(service)


class KeySpending(msgspec.Struct, frozen=True):
    """What one key paid in a `period`, and what is held of it by running requests, and by batches at services for up to a day."""

    service: str
    key: str
    period: Period
    used: Amounts
    held: Amounts
    waiting: Amounts = Amounts()


class BatchHold(msgspec.Struct, frozen=True):
    """What a batch of requests at a service may cost while its replies are not collected."""

    batch: str
    """Its local name."""
    job: str
    """The id of the batch of `friday map`."""
    service: str
    key: str
    expires: float
    """Unix seconds from which on the service answers none of them."""
    requests: int = 0
    amounts: Amounts = Amounts()


def create(db: sqlite3.Connection) -> None:
    """Create the tables."""
    for statement in (
        "CREATE TABLE spending(day TEXT NOT NULL, service TEXT NOT NULL, key TEXT NOT NULL, session TEXT NOT NULL,"
        " tokens INTEGER NOT NULL, cost REAL NOT NULL, PRIMARY KEY(day, service, key, session))",
        "CREATE TABLE holds(number INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, agent TEXT NOT NULL,"
        " day TEXT NOT NULL, service TEXT NOT NULL, key TEXT NOT NULL, tokens REAL NOT NULL, cost REAL NOT NULL,"
        " sure_tokens REAL NOT NULL, sure_cost REAL NOT NULL, begun INTEGER NOT NULL)",
        "CREATE TABLE caps(payer TEXT NOT NULL, period TEXT NOT NULL, what TEXT NOT NULL, most REAL NOT NULL,"
        " PRIMARY KEY(payer, period, what))",
    ):
        db.execute(statement)


def create_batch_holds(db: sqlite3.Connection) -> None:
    """Create the table of what batches at services hold."""
    db.execute(
        "CREATE TABLE batch_holds(batch TEXT PRIMARY KEY, job TEXT NOT NULL, service TEXT NOT NULL, key TEXT NOT NULL,"
        " expires REAL NOT NULL, requests INTEGER NOT NULL, tokens REAL NOT NULL, cost REAL NOT NULL)"
    )


# ---- what is used -----------------------------------------------------------------------------------------------


def _add(db: sqlite3.Connection, day: str, payer: tuple[str, str], session: str, amounts: Amounts) -> None:
    if (amounts.tokens > 0 or amounts.cost > 0) and not is_demo(payer[0]):
        db.execute(
            "INSERT INTO spending VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE"
            " SET tokens = tokens + excluded.tokens, cost = cost + excluded.cost",
            (day, *payer, session, int(amounts.tokens), amounts.cost),
        )


def set_batch(db: sqlite3.Connection, batch: str, envelope: Envelope, payer: tuple[str, str], amounts: Amounts) -> None:
    """Set what the replies of a service's batch cost, in the day of the first of them."""
    row = db.execute("SELECT min(day) FROM spending WHERE session = ?", (batch,)).fetchone()
    db.execute("DELETE FROM spending WHERE session = ?", (batch,))
    _add(db, row[0] or _day(envelope.at), payer, batch, amounts)


def add_event(
    db: sqlite3.Connection, session: str, key: int, envelope: Envelope, payer: Callable[[], tuple[str, str]]
) -> None:
    """Add what an event says that its agent used, before the row of the agent has it. The end of a run adds what no other event
    had, such as the reply that a stop cut off. `key` is that of the session's row."""
    event = envelope.event
    if type(event) not in _SAYS_USAGE:  # most events
        return
    if isinstance(event, events.RepliesCollected):
        set_batch(db, event.batch, envelope, payer(), Amounts(event.usage.billed, event.usage.cost_usd or 0.0))
    if not isinstance(event, _ENDS_REQUEST) or event.usage == NO_USAGE or event.usage.collected:
        return
    usage, before = event.usage, Amounts()
    if isinstance(event, events.AgentFinished):
        columns = "input + cache_write + output, coalesce(cost, 0.0)"
        named = key, envelope.agent
        row = db.execute(f"SELECT {columns} FROM agents WHERE session = ? AND path = ?", named).fetchone()
        before = Amounts(*row) if row else before
    left = Amounts(usage.billed - before.tokens, max(0.0, (usage.cost_usd or 0.0) - before.cost))
    if left.tokens > 0 or left.cost > DUST:
        _add(db, _day(envelope.at), payer(), session, left)


def settle_dead(db: sqlite3.Connection, session: str) -> frozenset[str]:
    """Add what the killed owner of a session had begun, as its input and a usual reply. Returns the paths of its agents."""
    rows = db.execute(
        "SELECT agent, day, service, key, sure_tokens, sure_cost FROM holds WHERE session = ? AND begun", (session,)
    ).fetchall()
    for _, day, service, key, tokens, cost in rows:
        _add(db, day, (service, key), session, Amounts(tokens, cost))
    db.execute("DELETE FROM holds WHERE session = ?", (session,))
    return frozenset(row[0] for row in rows)


def ends_request(envelope: Envelope) -> bool:
    """Whether an event has the usage of a request."""
    return isinstance(envelope.event, _ENDS_REQUEST)


def payer_of_agent(db: sqlite3.Connection, key: int, path: str) -> tuple[str, str]:
    """The service of an agent of a session that no process runs; its key is not known."""
    row = db.execute("SELECT model FROM agents WHERE session = ? AND path = ?", (key, path)).fetchone()
    return (str(row[0]).partition("/")[0] if row else "", "")


# ---- caps -------------------------------------------------------------------------------------------------------


def read_caps(db: sqlite3.Connection) -> tuple[SpendingCap, ...]:
    """All caps."""
    return tuple(SpendingCap(*row) for row in db.execute("SELECT payer, period, what, most FROM caps"))


def set_cap(db: sqlite3.Connection, cap: SpendingCap) -> None:
    """Set a cap, or replace it."""
    values = (cap.payer, cap.period, cap.what, cap.most)
    db.execute("INSERT INTO caps VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET most = excluded.most", values)


def clear_caps(db: sqlite3.Connection, payer: str | None) -> int:
    """Remove the caps for a service or key, or all with None; returns how many there were."""
    where, values = ("", ()) if payer is None else (" WHERE payer = ?", (payer,))
    return db.execute(f"DELETE FROM caps{where}", values).rowcount


def usage_now(db: sqlite3.Connection, now: float, is_owned: Callable[[str], bool]) -> list[KeySpending]:
    """What each key paid this week and today, with what dead owners had begun, and what the living ones and the batches at services
    hold of it."""
    today = _day(now)
    periods: tuple[tuple[Period, str], ...] = (("weekly", _monday(now)), ("daily", today))
    holds = list(_holds(db, is_owned))
    waiting: dict[tuple[str, str], Amounts] = defaultdict(Amounts)
    for batch in batch_holds(db, now):
        waiting[batch.service, batch.key] += batch.amounts
    found: list[KeySpending] = []
    for period, since in periods:
        used: dict[tuple[str, str], Amounts] = defaultdict(Amounts)
        held: dict[tuple[str, str], Amounts] = defaultdict(Amounts)
        for service, key, tokens, cost in db.execute(
            "SELECT service, key, sum(tokens), sum(cost) FROM spending WHERE day BETWEEN ? AND ? GROUP BY service, key",
            (since, today),
        ):
            used[service, key] = Amounts(tokens, cost)
        for day, payer, lives, amounts in holds:
            if since <= day <= today:
                sums = held if lives else used
                sums[payer] += amounts
        payers = sorted({*used, *held, *waiting})
        found += [KeySpending(*payer, period, used[payer], held[payer], waiting[payer]) for payer in payers]
    return found


def _holds(
    db: sqlite3.Connection, is_owned: Callable[[str], bool]
) -> Iterator[tuple[str, tuple[str, str], bool, Amounts]]:
    """(day, payer, whether its process lives, amounts) of each request that runs, or ran when its process died."""
    alive: dict[str, bool] = {}
    query = "SELECT session, day, service, key, tokens, cost, sure_tokens, sure_cost, begun FROM holds"
    for session, day, service, key, tokens, cost, sure_tokens, sure_cost, begun in db.execute(query).fetchall():
        if session not in alive:
            alive[session] = is_owned(session)
        if alive[session]:
            yield day, (service, key), True, Amounts(tokens, cost)
        elif begun:
            yield day, (service, key), False, Amounts(sure_tokens, sure_cost)


def batch_holds(db: sqlite3.Connection, now: float) -> list[BatchHold]:
    """The batches at services that are neither collected nor expired. Replies count on the day on which they are collected, so what waits for
    them counts on every day until then. What was collected of one that is not closed holds no longer what it used."""
    query = (
        "SELECT max(0, h.tokens - coalesce(sum(s.tokens), 0)), max(0, h.cost - coalesce(sum(s.cost), 0)),"
        " h.batch, h.job, h.service, h.key, h.expires, h.requests"
        " FROM batch_holds h LEFT JOIN spending s ON s.day >= ? AND s.session = h.batch WHERE h.expires > ?"
        " GROUP BY h.batch ORDER BY h.expires"
    )
    found = db.execute(query, (_day(now - 2 * 86_400), now)).fetchall()
    return [msgspec.structs.replace(BatchHold(*row[2:]), amounts=Amounts(*row[:2])) for row in found]


def hold(
    db: sqlite3.Connection, session: str, need: Need, now: float, *, keep: bool, is_owned: Callable[[str], bool]
) -> Held | CapReached:
    """Hold what a request may use, as far as the caps leave it. While others hold something that may come free, it gets a usual
    reply or more; else also less. `keep`: leave `RESERVE` to wrap-ups."""
    free = {"tokens": float("inf"), "cost": float("inf")}
    for reached in _caps_now(db, (need.service, need.key), now, is_owned):
        left = reached.most * (1 - RESERVE if keep and not need.last else 1) - reached.used
        if left < (need.usual if reached.held > DUST else need.least).of(reached.what):
            return reached
        free[reached.what] = min(free[reached.what], left)
    amounts = need.most.capped(Amounts(free["tokens"], free["cost"]))
    sure = need.usual.capped(amounts)
    row = db.execute(
        "INSERT INTO holds(session, agent, day, service, key, tokens, cost, sure_tokens, sure_cost, begun)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
        (
            *(session, need.agent, _day(now), need.service, need.key),
            *(amounts.tokens, amounts.cost, sure.tokens, sure.cost),
        ),
    )
    return Held(row.lastrowid or 0, amounts)


def hold_batch(
    db: sqlite3.Connection,
    batch: BatchHold,
    requests: Sequence[Amounts],
    now: float,
    is_owned: Callable[[str], bool],
) -> tuple[int, CapReached | None]:
    """Hold what the first of `requests` may cost, as many as the caps have room for. Returns how many, and the cap that has none for the next."""
    fits, full = len(requests), None
    for reached in _caps_now(db, (batch.service, batch.key), now, is_owned):
        sums = accumulate(amounts.of(reached.what) for amounts in requests)
        count = sum(reached.used + each <= reached.most + DUST for each in sums)
        if count < fits:
            fits, full = count, reached
    if fits:
        held = sum(requests[:fits], Amounts())
        named = (batch.batch, batch.job, batch.service, batch.key, batch.expires)
        db.execute(
            "INSERT OR REPLACE INTO batch_holds VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*named, fits, held.tokens, held.cost)
        )
    return fits, full


def _caps_now(
    db: sqlite3.Connection, payer: tuple[str, str], now: float, is_owned: Callable[[str], bool]
) -> Iterator[CapReached]:
    """Each cap that is for a service and key, with what is used of it and what is held of that."""
    rows = usage_now(db, now, is_owned)
    for cap in read_caps(db):
        if cap.covers(*payer):
            counted = [row for row in rows if row.period == cap.period and cap.covers(row.service, row.key)]
            held = sum(row.held.of(cap.what) for row in counted)
            used = sum(row.used.of(cap.what) + row.waiting.of(cap.what) for row in counted) + held
            yield CapReached(cap.period, cap.what, used, cap.most, cap.payer, held)


def _day(at: float) -> str:
    """The local day of a time in Unix seconds, such as `2026-11-28`."""
    return date.fromtimestamp(at).isoformat()


def _monday(at: float) -> str:
    """The local day on which its week began."""
    day = date.fromtimestamp(at)
    return (day - timedelta(days=day.weekday())).isoformat()
