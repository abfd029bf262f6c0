"""`friday map --deferred`, through the command line against a service with the batch interfaces of both vendors."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.cli.console import CommandResult, Console
from tests.map.service import TASK, lines
from tests.servers.batch_service import BatchService, Fate, batch_service

VENDORS = ("anthropic", "openai")


@pytest.fixture(params=VENDORS)
def vendor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def service(console: Console, monkeypatch: pytest.MonkeyPatch, vendor: str) -> Iterator[BatchService]:
    with batch_service() as service:
        console.configure(service.settings(vendor))
        monkeypatch.setenv(f"{vendor.upper()}_API_KEY", "sk-test-key")
        monkeypatch.setattr("friday_cli.map.deferred.POLL_S", (0.05, 0.2))
        monkeypatch.setattr("friday_cli.map.deferred.QUIET_S", 0.1)
        yield service


def batch(console: Console, items: str, *more: str, cost: str = "5") -> CommandResult:
    (console.project / "items.jsonl").write_text(items)
    argv = ("--items", "items.jsonl", "--task", TASK, "--max-cost", cost, "--yes", "--sample", "0", "--deferred")
    return console("map", "summarizer", *argv, *more)


def spent(console: Console) -> float:
    with closing(sqlite3.connect(console.friday_home / "data" / "map.db")) as db:
        return float(db.execute("SELECT sum(spent) FROM batches").fetchone()[0])


def counted(console: Console) -> tuple[float, float]:
    """What `friday usage` and the sums for caps over all sessions have, in US dollars."""
    with closing(sqlite3.connect(console.friday_home / "data" / "friday.db")) as db:
        ledger = float(db.execute("SELECT sum(cost) FROM spending").fetchone()[0])
    return float(console.ok("usage", "--json").document["total"]["cost_usd"]), ledger


def states(ran: CommandResult) -> list[str]:
    return [json.loads(line)["state"] for line in ran.out.splitlines()]


def test_items_go_by_one_batch_at_half_price_and_are_not_paid_twice(console: Console, service: BatchService) -> None:
    ran = batch(console, lines(12))
    assert (ran.code, states(ran)) == (0, ["done"] * 12), ran
    assert json.loads(ran.out.splitlines()[3])["result"] == "found i3"
    assert (len(service.batches), service.live.total(), service.asked.total()) == (1, 0, 12)
    assert spent(console) == pytest.approx(service.paid, abs=1e-9)
    costs = sum(json.loads(line)["cost_usd"] for line in ran.out.splitlines())
    assert costs == pytest.approx(service.paid, abs=1e-9)
    assert counted(console) == pytest.approx((service.paid, service.paid), abs=1e-9)
    for made in service.batches.values():
        assert not any("stream" in body for body in made.requests.values())
    assert sorted(service.deleted) == ([] if "msgbatch_1" in service.batches else ["file-1", "file-batch_1-output"])
    assert batch(console, lines(12)).code == 0
    assert len(service.batches) == 1


def test_what_was_not_served_is_sent_again_and_what_is_invalid_fails(console: Console, service: BatchService) -> None:
    first: set[str] = set()

    def fate(name: str, body: object) -> Fate:
        text = json.dumps(body)
        again = [("<<i1>>", "overloaded"), ("<<i2>>", "expired")]
        for item, what in again:
            if item in text and item not in first:
                first.add(item)
                return what  # type: ignore[return-value]
        return "errored" if "<<i3>>" in text else "succeeded"

    service.fate, service.cut = fate, 1
    ran = batch(console, lines(8))
    assert states(ran) == ["done", "done", "done", "failed", *["done"] * 4], ran
    assert "it was refused" in ran.err
    assert service.asked["i1"] == service.asked["i2"] == 2
    assert service.asked["i0"] == service.asked["i3"] == 1
    assert spent(console) == pytest.approx(service.paid, abs=1e-9)


def test_without_waiting_the_same_command_collects(console: Console, service: BatchService) -> None:
    service.looks = 10**6
    left = batch(console, lines(5), "--no-wait")
    assert left.code == 0, left
    assert "5 requests wait at the service; the same command collects them" in left.err
    assert states(left) == ["waiting"] * 5
    for made in service.batches.values():
        made.looks = 1
    ran = batch(console, lines(5))
    assert (ran.code, len(service.batches)) == (0, 1), ran
    assert "5 requests of this batch were already sent to the service" in ran.err
    assert spent(console) == pytest.approx(service.paid, abs=1e-9)


def test_the_cap_is_held_before_anything_is_sent(console: Console, service: BatchService) -> None:
    ran = batch(console, lines(30), "--per-item-cost", "0.02", cost="0.03")
    assert service.paid <= 0.03
    assert spent(console) == pytest.approx(service.paid, abs=1e-9)
    assert ran.code in (0, 1)
    again = batch(console, lines(30), "--per-item-cost", "0.02", cost="1")
    assert again.code == 0, again
    assert spent(console) == pytest.approx(service.paid, abs=1e-9)
    assert service.asked.total() == 30


def test_a_batch_whose_id_was_not_stored_is_found_at_the_service(console: Console, service: BatchService) -> None:
    service.looks = 10**6
    batch(console, lines(5), "--no-wait")
    with closing(sqlite3.connect(console.friday_home / "data" / "map.db")) as db, db:
        db.execute("UPDATE sent SET remote = ''")
    for made in service.batches.values():
        made.looks = 1
    ran = batch(console, lines(5))
    assert (ran.code, len(service.batches)) == (0, 1), ran
    assert spent(console) == pytest.approx(service.paid, abs=1e-9)


@pytest.mark.parametrize(
    "killed", ["before they are counted", "before an agent reads them", "before the ends of items"]
)
def test_replies_that_a_killed_process_collected_are_counted_once(
    console: Console, service: BatchService, killed: str
) -> None:
    """What a kill leaves: replies that are stored, in a batch that is not closed, and items without an end."""
    assert batch(console, lines(6)).code == 0
    with closing(sqlite3.connect(console.friday_home / "data" / "map.db")) as db, db:
        db.execute("UPDATE items SET state = 'waiting', result = ''")
        db.execute("UPDATE batches SET state = 'open'")
        db.execute("UPDATE sent SET open = 1")
    with closing(sqlite3.connect(console.friday_home / "data" / "friday.db")) as db, db:
        if killed != "before the ends of items":
            db.execute("DELETE FROM events WHERE kind IN ('turn_finished', 'agent_finished')")
        if killed == "before they are counted":
            db.execute("DELETE FROM events WHERE kind = 'replies_collected'")
            db.execute("DELETE FROM spending")
    assert batch(console, lines(6)).code == 0
    assert service.asked.total() == 6
    assert counted(console) == pytest.approx((service.paid, service.paid), abs=1e-9)
    assert spent(console) == pytest.approx(service.paid, abs=1e-9)


def test_a_batch_is_cancelled_there_and_nothing_is_sent_again(console: Console, service: BatchService) -> None:
    service.looks = 10**6
    batch(console, lines(4), "--no-wait")
    name = console("map", "status").rows[0][0]
    said = console.ok("map", "cancel", name)
    assert "cancelled 1 batch at the service" in said.err
    assert [made.cancelled for made in service.batches.values()] == [True]
    assert spent(console) == service.paid == 0


def test_more_items_than_a_session_has_agents_run_at_the_same_time(console: Console, service: BatchService) -> None:
    console.config.write_text(console.config.read_text() + "\n[agents.delegation]\nmax_agents = 5\n")
    ran = batch(console, "".join(json.dumps({"id": f"j{n}"}) + "\n" for n in range(12)))
    assert (ran.code, states(ran)) == (0, ["done"] * 12), ran


def test_a_refused_batch_is_one_line(console: Console, service: BatchService) -> None:
    service.refuse = (403, "Batches are not available to this organization.")
    ran = batch(console, lines(3))
    assert ran.code == 1
    assert "not available to this organization" in ran.err
    assert spent(console) == 0


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("--engine", "ray"), "Ray"),
        (("--deferred-rounds", "0"), "--deferred-rounds must be from 1 to 100"),
        (("--parallel", "2001"), "--parallel must be from 1 to 2000"),
        (("--model", "demo"), "does not have a batch interface"),
    ],
)
def test_what_cannot_be_deferred_is_one_line(
    console: Console, service: BatchService, argv: tuple[str, ...], words: str
) -> None:
    ran = batch(console, lines(2), *argv)
    assert (ran.code, service.asked.total()) == (2, 0)
    assert words in ran.err
