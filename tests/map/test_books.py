"""The cap of a batch holds, and its books are right, when its process is killed or the disk is full: real processes."""

from __future__ import annotations

import contextlib
import json
import resource
import signal
import sqlite3
import subprocess
import time

import pytest

from tests.map.__main__ import Place, place
from tests.map.books import run_books
from tests.map.service import Service, lines
from tests.servers.fake_model_server import Say, Turn

LIMITS = ("--max-cost", "0.20", "--per-item-cost", "0.02", "--parallel", "4", "--sample", "1")


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code and the output of a command."""
    out, _ = process.communicate(timeout=60)
    return process.returncode, out


def status(at: Place) -> str:
    return ended(at.begin("map", "status"))[1]


def at_request(service: Service, number: int, what: object) -> None:
    """Call `what` while request `number` waits for its reply."""

    def say(turn: Turn) -> Say:
        if service.requests == number:
            what()  # type: ignore[operator]
        return Say("found it", usage=(600, 1000, 0))

    service.say = say


def test_random_kills_and_full_disks_leave_the_cap_and_the_books_right() -> None:
    assert run_books(1, seed=3, items=60, most_faults=3) == []


@pytest.mark.parametrize(("count", "cap", "factor"), [(1, 0.02, 1.15), (40, 0.2, 1.75)])
def test_requests_that_count_more_than_estimated_and_the_longest_replies_stay_below_the_cap(
    count: int, cap: float, factor: float
) -> None:
    """The first item shows that a service counts more than is reserved without knowing it."""
    with place(lines(count)) as (at, service):

        def say(turn: Turn) -> Say:
            counted = round(factor * len(json.dumps(turn.body)) / 4)
            return Say("found it", usage=(counted, int(turn.body["max_tokens"]), 0))

        service.say = say
        ended(at.start("--max-cost", str(cap), "--parallel", "4", "--sample", "1"))
        assert 0.6 * cap < service.paid <= cap


def test_a_killed_request_costs_its_input_and_a_usual_reply() -> None:
    with place(lines(12)) as (at, service):
        started: list[subprocess.Popen[str]] = []
        at_request(service, 8, lambda: started[0].send_signal(signal.SIGKILL))
        started.append(at.start(*LIMITS, "--parallel", "1"))
        ended(started[0])
        assert "~$0.0" in status(at)
        (row,) = at.rows("SELECT i.cost, e.cost FROM items i JOIN estimates e ON e.name = i.key")
        assert 0.005 < float(str(row[0])) < 0.0062, "a reply of 1,000 tokens, as the seven before"
        assert row[0] == row[1]
        (spent,) = at.rows("SELECT spent FROM batches")[0]
        assert abs(float(str(spent)) - service.paid) < 0.05 * service.paid
        assert status(at) == status(at), "it is charged once"


def test_a_kill_before_a_request_is_sent_costs_nothing() -> None:
    """Turns whose start is stored wait for a service that asked to wait; the process is killed meanwhile."""
    with place(lines(12)) as (at, service):
        service.say = lambda turn: Say("found it", usage=(600, 1000, 0))
        service.refuse_at, service.retry_after = 4, 50
        process = at.start(*LIMITS)

        def begun() -> int:
            with contextlib.suppress(sqlite3.OperationalError):
                query = "SELECT count(*) FROM events WHERE kind = 'turn_started'"
                return int(str(at.rows(query, "friday.db")[0][0]))
            return 0

        while begun() < service.requests + 3 or service.requests < 4:
            assert process.poll() is None, ended(process)
            time.sleep(0.01)
        time.sleep(0.3)
        process.send_signal(signal.SIGKILL)
        ended(process)
        status(at)
        (spent,) = at.rows("SELECT spent FROM batches")[0]
        assert abs(float(str(spent)) - service.paid) < 0.05 * service.paid


def test_what_was_written_and_never_begun_costs_nothing() -> None:
    with place(lines(3)) as (at, service):
        service.quota_at = 2
        ended(at.start(*LIMITS))
        before = at.rows("SELECT spent FROM batches")
        with sqlite3.connect(at.home / "data" / "map.db") as db:
            db.execute(
                "UPDATE items SET state = 'running', reserved = 0.02, session = (SELECT session FROM items WHERE state = 'done')"
                " WHERE state = 'new'"
            )
        db.close()
        status(at)
        assert at.rows("SELECT spent FROM batches") == before
        assert "running" not in {state for (state,) in at.rows("SELECT state FROM items")}


def test_on_a_full_disk_nothing_starts_and_what_was_paid_is_charged() -> None:
    with place(lines(40)) as (at, service):
        started: list[subprocess.Popen[str]] = []

        def fill() -> None:
            sizes = [path.stat().st_size for path in (at.home / "data").glob("*.db-wal")]
            resource.prlimit(started[0].pid, resource.RLIMIT_FSIZE, (max(sizes), resource.RLIM_INFINITY))

        at_request(service, 10, fill)
        started.append(at.start(*LIMITS))
        code, out = ended(started[0])
        assert code == 1, out
        assert "Traceback" not in out
        assert "never retrieved" not in out
        assert "the disk" in out.lower()
        assert 10 <= service.requests <= 14, "those that ran, and no more"
        status(at)
        (spent,) = at.rows("SELECT spent FROM batches")[0]
        assert abs(float(str(spent)) - service.paid) < 0.05 * service.paid
        ended(at.start(*LIMITS))
        assert service.paid <= 0.20
