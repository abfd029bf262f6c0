"""`friday map --deferred`, through the command line against a service with the batch interfaces of both vendors."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from friday_cli.map import deferred_caps
from tests.cli.console import CommandResult, Console
from tests.map.service import TASK, lines
from tests.servers.batch_service import BatchService, Fate, batch_service
from tests.servers.fake_model_server import Say, thinking

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
        monkeypatch.setattr("friday_cli.map.request_queue.QUIET_S", 0.1)
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


# ---- caps over all sessions -------------------------------------------------------------------------------------


def held(console: Console) -> tuple[int, float]:
    """What `friday budget` says that waits at services: requests, and US dollars."""
    waiting = console.ok("budget", "show", "--json").document["waiting"]
    return sum(row["requests"] for row in waiting), sum(row["cost"] for row in waiting)


def written(console: Console) -> float:
    """What the batches hold by their own rows."""
    with closing(sqlite3.connect(console.friday_home / "data" / "map.db")) as db:
        return float(db.execute("SELECT sum(held) FROM requests WHERE state = 'sent'").fetchone()[0])


def ask_elsewhere(console: Console) -> str:
    """Another session, with another service, meets the caps; why it ended, or its answer."""
    prices = "\nprices = { input = 10.0, output = 50.0 }\n"
    with thinking(lambda turn: Say("done", usage=(10, 10, 0)), "chat") as server:
        before = console.config.read_text()
        own = f'[providers.own]\nbase_url = "{server.base}"\napi = "chat"{prices}[budget]\non_cap = "wrap_up"\n'
        console.config.write_text(f"{before}\n{own}")
        ran = console("ask", "go", "--model", "own/m-1", "--output-format", "json")
        console.config.write_text(before)
    return str(ran.document["error"] or ran.document["result"])


def test_what_waits_at_the_service_is_held_for_all_sessions_until_it_is_collected(
    console: Console, service: BatchService, vendor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWN_API_KEY", "sk-other-key")
    service.looks = 10**6
    assert batch(console, lines(5), "--no-wait").code == 0
    count, cost = held(console)
    assert (count, cost) == (5, pytest.approx(written(console)))
    shown = console.ok("budget")
    assert f"5 requests in batches at {vendor}: ${cost:.4f} held until the same" in " ".join(shown.out.split())

    console.ok(
        "budget", "set", "--daily", f"{cost - 1e-6:.9f}"
    )  # less than what is held: nothing has room, not even what is free
    (cap,) = console.ok("budget", "show", "--json").document["caps"]
    assert (cap["used"], cap["held"]) == (0, pytest.approx(cost))
    assert "your daily cap" in ask_elsewhere(console)
    assert "daily cap" in batch(console, lines(9)[len(lines(5)) :], "--no-wait").err, "another batch meets it as well"
    assert service.asked.total() == 5

    for made in service.batches.values():
        made.looks = 1
    assert batch(console, lines(5)).code == 0, "collecting needs no room under the cap"
    assert held(console) == (0, 0)
    (cap,) = console.ok("budget", "show", "--json").document["caps"]
    assert (cap["used"], cap["held"]) == (pytest.approx(service.paid), 0)
    console.ok("budget", "set", "--daily", "1")
    assert ask_elsewhere(console) == "done"


@pytest.mark.parametrize("when", ["before it is sent", "after it is sent"])
def test_a_killed_process_leaves_what_it_sent_held_and_nothing_else(
    console: Console, service: BatchService, when: str
) -> None:
    """What kills leave: the hold without the rows, or all but the id of the service."""
    service.looks = 10**6
    batch(console, lines(5), "--no-wait")
    with closing(sqlite3.connect(console.friday_home / "data" / "map.db")) as db, db:
        if when == "before it is sent":
            db.execute("DELETE FROM requests")
            db.execute("DELETE FROM sent")
            service.batches.clear()
        else:
            db.execute("UPDATE sent SET remote = ''")
    assert held(console)[0] == 5
    service.looks = 1
    for made in service.batches.values():
        made.looks = 1
    assert batch(console, lines(5)).code == 0
    assert held(console) == (0, 0)
    assert counted(console) == pytest.approx((service.paid, service.paid), abs=1e-9)


def test_replies_of_a_batch_that_is_not_closed_count_once_under_caps(console: Console, service: BatchService) -> None:
    service.looks = 10**6
    assert batch(console, lines(5), "--no-wait").code == 0
    cost = held(console)[1]
    console.ok("budget", "set", "--daily", "9")
    for made in service.batches.values():
        made.looks = 1
    with closing(sqlite3.connect(console.friday_home / "data" / "friday.db")) as db, db:
        rows = db.execute("SELECT * FROM batch_holds").fetchall()
        assert batch(console, lines(5)).code == 0
        db.executemany("INSERT INTO batch_holds VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)  # what a kill leaves
    (cap,) = console.ok("budget", "show", "--json").document["caps"]
    assert cap["used"] == pytest.approx(service.paid)
    assert cap["used"] + cap["held"] == pytest.approx(cost)


def test_what_has_expired_is_held_no_longer(
    console: Console, service: BatchService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.looks = 10**6
    batch(console, lines(5), "--no-wait")
    console.ok("budget", "set", "--weekly", "1")
    now = time.time()
    for later, count in ((deferred_caps.EXPIRES_S - 60, 5), (deferred_caps.EXPIRES_S + 60, 0)):
        monkeypatch.setattr("friday_cli.session.spending.time.time", lambda at=now + later: at)
        assert held(console)[0] == count


def test_requests_wait_for_room_under_the_caps_of_the_person(
    console: Console, service: BatchService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fits is sent; the rest follows when that is collected."""
    monkeypatch.setattr(deferred_caps, "CAP_POLL_S", 0.05)
    service.looks = 10**6
    batch(console, lines(1), "--no-wait")
    each = held(console)[1]
    for made in service.batches.values():
        made.looks = 1
    console.ok("budget", "set", "--daily", f"{3.5 * each:.9f}")
    service.looks = 2
    ran = batch(console, lines(6))
    assert (ran.code, states(ran)) == (0, ["done"] * 6), ran
    assert re.search(r"waiting with \d requests?: daily cap, ", ran.err), ran.err
    assert all(len(made.requests) <= 3 for made in service.batches.values())
    assert held(console) == (0, 0)
    assert spent(console) == pytest.approx(service.paid, abs=1e-9)
