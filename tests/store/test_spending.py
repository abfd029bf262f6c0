"""What sessions used is counted once, in the day it was used, and a dead owner holds only what it had begun."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from friday_cli.core.limits.budget import Amounts
from friday_cli.core.limits.ledger import Held, Need
from friday_cli.core.protocol.errors import StoreError
from friday_cli.core.protocol.events import AgentFinished, AgentStarted, Envelope, SessionStarted, TurnFinished
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.protocol.waiting import CapReached
from friday_cli.session.rewind import fork
from friday_cli.session.spending import SpendingRow
from friday_cli.store.ledger import SessionLedger
from friday_cli.store.locks import Ownership
from friday_cli.store.repair import repair
from friday_cli.store.spending import Period, SpendingCap
from friday_cli.store.store import Store

SATURDAY = datetime(2026, 11, 28, 23, 59).timestamp()
MINUTE, DAY = 60.0, 86_400.0
USED = Usage(input=100, output=50, cost_usd=0.5)


def need(least: float = 0.1, usual: float = 0.3, most: float = 0.6) -> Need:
    amounts = (Amounts(dollars * 1000, dollars) for dollars in (least, usual, most))
    return Need("a", "own", "own-1", *amounts)


def run_of(session: str, at: float, *, total: Usage) -> list[Envelope]:
    """A run whose turn used `USED`; its end says that all of it used `total`."""
    events = [
        SessionStarted(1, session, "/work", "1"),
        AgentStarted(1, "friday", "go", "own/m"),
        TurnFinished(1, USED),
        AgentFinished(1, "completed", "done", "fin", usage=total, tree_usage=total),
    ]
    return [Envelope(number, at, "a", event) for number, event in enumerate(events, 1)]


async def owned(store: Store, at: float = SATURDAY) -> tuple[str, SessionLedger, Ownership]:
    session = await store.create_session("/work")
    await store.open()
    ledger = store.spending.ledger(session, "wait", lambda: at)
    ledger.paid_by("a", "own", "own-1")
    return session, ledger, await store.own(session)


async def spent(store: Store, period: Period, at: float = SATURDAY) -> tuple[float, float]:
    rows = [row for row in await store.spending.used(at) if row.period == period]
    return sum(row.used.cost for row in rows), sum(row.used.tokens for row in rows)


async def test_what_no_event_had_is_added_at_the_end_and_copies_add_nothing(store: Store, path: Path) -> None:
    session, ledger, ownership = await owned(store)
    total = USED + Usage(input=7, cost_usd=0.1)
    await store.journal(session, ledger).append(run_of(session, SATURDAY, total=total))
    assert await spent(store, "daily") == pytest.approx((0.6, 157))
    ownership.release()
    await fork(store, session)
    assert await spent(store, "daily") == pytest.approx((0.6, 157))
    await store.delete(session)
    assert await spent(store, "daily") == pytest.approx((0.6, 157))
    await store.close()
    assert repair(path).kept is None


@pytest.mark.parametrize(
    ("later", "daily", "weekly"),
    [(0.0, 0.5, 0.5), (2 * MINUTE, 0.0, 0.5), (DAY, 0.0, 0.5), (DAY + 2 * MINUTE, 0.0, 0.0)],
)
async def test_a_day_ends_at_midnight_and_a_week_on_sunday(
    store: Store, later: float, daily: float, weekly: float
) -> None:
    session, ledger, _ = await owned(store)
    await store.journal(session, ledger).append(run_of(session, SATURDAY, total=USED))
    assert (await spent(store, "daily", SATURDAY + later))[0] == daily
    assert (await spent(store, "weekly", SATURDAY + later))[0] == weekly


async def test_a_request_gets_what_is_left_and_a_usual_reply_while_others_may_return_something(store: Store) -> None:
    await store.spending.set_caps([SpendingCap("", "daily", "cost", 1.0)])
    (_, one, first), (_, two, _) = await owned(store), await owned(store)
    held = await one.hold(need())
    assert isinstance(held, Held)
    assert held.amounts.cost == 0.6
    rest = await two.hold(need())
    assert isinstance(rest, Held)
    assert rest.amounts.cost == pytest.approx(0.4)
    reached = await two.hold(need())
    assert isinstance(reached, CapReached)
    assert (reached.used, reached.held, str(reached)) == (1.0, 1.0, "daily cap, $1.00 of $1.00")
    first.release()  # its process died, and had begun nothing
    again = await two.hold(need())
    assert isinstance(again, Held)
    assert again.amounts.cost == 0.6
    assert two.caps_of("demo", "demo") == frozenset()


async def test_what_is_stored_after_the_disk_was_full_counts_once_and_holds_nothing(store: Store) -> None:
    await store.spending.set_caps([SpendingCap("", "daily", "cost", 1.0)])
    session, ledger, _ = await owned(store)
    journal, events = store.journal(session, ledger), run_of(session, SATURDAY, total=USED)
    await journal.append(events[:2])
    held = await ledger.hold(need())
    assert isinstance(held, Held)
    await ledger.begin(held)
    ledger.end(held, "a")
    await store._writer.submit(
        lambda db: db.execute("CREATE TRIGGER full BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'x'); END")
    )
    for _ in range(2):
        with pytest.raises(StoreError):
            await journal.append_again(events[2:3])
    await store._writer.submit(lambda db: db.execute("DROP TRIGGER full"))
    with pytest.raises(StoreError):
        await journal.append(events[3:])  # it would leave a gap
    await journal.append_again(events[2:])
    assert (await spent(store, "daily"))[0] == 0.5
    (row,) = [row for row in await store.spending.used(SATURDAY) if row.period == "daily"]
    assert row.held.cost == 0
    assert [e.seq for e in await store.events(session)] == [1, 2, 3, 4]


async def test_what_a_killed_owner_had_begun_counts_until_and_after_its_recovery(store: Store) -> None:
    await store.spending.set_caps([SpendingCap("", "daily", "cost", 1.0)])
    session, ledger, ownership = await owned(store)
    started = run_of(session, SATURDAY, total=USED)[:2]
    await store.journal(session, ledger).append(started)
    held = await ledger.hold(need())
    assert isinstance(held, Held)
    await ledger.begin(held)
    assert (await spent(store, "daily"))[0] == 0
    ownership.release()
    assert await spent(store, "daily") == pytest.approx((0.3, 300)), "its input and a usual reply"
    assert await store.reconcile() == [session]
    assert await spent(store, "daily") == pytest.approx((0.3, 300))
    assert not any(row.held.cost for row in await store.spending.used(SATURDAY))


async def test_a_reply_replaces_what_was_held_for_it(store: Store) -> None:
    await store.spending.set_caps([SpendingCap("own", "weekly", "tokens", 2000)])
    session, ledger, _ = await owned(store)
    held = await ledger.hold(need())
    assert isinstance(held, Held)
    assert [row.held.tokens for row in await store.spending.used(SATURDAY)] == [600, 600]
    ledger.end(held, "a")
    await store.journal(session, ledger).append(run_of(session, SATURDAY, total=USED))
    assert [(row.held.tokens, row.used.tokens) for row in await store.spending.used(SATURDAY)] == [(0, 150), (0, 150)]


@pytest.mark.parametrize(("cost", "tokens", "shown"), [(0.0, 1_200, "n/a"), (0.0, 0, "$0.00"), (1.5, 10, "$1.50")])
def test_tokens_of_an_unknown_price_are_not_shown_as_free(cost: float, tokens: int, shown: str) -> None:
    assert SpendingRow("s", "k", cost, tokens, cost, tokens).amounts() == (shown, f"{tokens:,}") * 2
