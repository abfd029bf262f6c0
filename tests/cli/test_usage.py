"""`friday usage`: each request counts once, by day, model, profile and folder, also those of sub-agents, forks and deleted sessions."""

from __future__ import annotations

import json
from datetime import date, timedelta

import pytest

from friday_cli.system.paths import store_path
from tests.cli.console import Console
from tests.store.files import sql

DELEGATE = {"name": "delegate_task", "arguments": {"profile": "researcher", "task": "Look."}}


def ask(console: Console, *, price: bool = True) -> str:
    """The id of a new session of a main agent with a child."""
    scenario = {"agents": {"a": [{"calls": [DELEGATE]}, {"text": "done"}], "a.1": [{"text": "found"}]}}
    if price:
        scenario["price"] = {"input": 1.0, "output": 5.0}  # type: ignore[assignment]
    (console.home / "model.json").write_text(json.dumps(scenario))
    model = f"scripted:{console.home / 'model.json'}"
    ran = console.ok("ask", "go", "--model", model, "--output-format", "json", "--allow", "delegate_task")
    return str(ran.document["session_id"])


def total(console: Console, *argv: str) -> float:
    return float(console.ok("usage", "--json", *argv).document["total"]["cost_usd"])


def test_each_request_counts_once_also_of_children_forks_and_deleted_sessions(console: Console) -> None:
    session = ask(console)
    agents = console.ok("sessions", "show", session, "--tree", "--json").document["agents"]
    whole = sum(agent["usage"]["cost_usd"] for agent in agents)
    found = console.ok("usage", "--json").document
    assert len(agents) == 2
    assert found["total"]["cost_usd"] == pytest.approx(whole)
    assert {row["profile"] for row in found["profile"]} == {"friday", "researcher"}
    assert [row["folder"] for row in found["folder"]] == [str(console.project)]
    assert [row["day"] for row in found["day"]] == [date.today().isoformat()]
    console.ok("sessions", "fork", session)
    assert total(console) == pytest.approx(whole)
    console.ok("sessions", "delete", session, "--yes")
    assert total(console) == pytest.approx(whole)
    assert [row["folder"] for row in console.ok("usage", "--json").document["folder"]] == ["(deleted sessions)"]


def test_the_days_before_since_are_left_out(console: Console) -> None:
    session = ask(console)
    path = store_path()
    for table, column in (("events", "at"), ("sessions", "updated")):
        sql(path, f"UPDATE {table} SET {column} = {column} - 3 * 86400")
    sql(path, "UPDATE agents SET started = started - 3 * 86400")
    assert session
    assert total(console, "--since", "2d") == 0
    assert total(console, "--since", "1w") > 0
    day = (date.today() - timedelta(days=3)).isoformat()
    assert [row["day"] for row in console.ok("usage", "--since", day, "--json").document["day"]] == [day]
    assert "2026-11-01, --since 7d" in console.refused("usage", "--since", "yesterday")


def test_a_person_sees_bars_the_cap_and_what_has_no_price(console: Console) -> None:
    ask(console)
    console.ok("budget", "set", "--daily", "0.5")
    shown = console.ok("usage").out
    for words in ("DAY", "MODEL", "PROFILE", "FOLDER", "researcher", "█", "OF THE CAP", "of $0.50"):
        assert words in shown
    assert "MODEL" not in console.ok("usage", "--by", "day").out
    console.ok("budget", "clear")
    ask(console, price=False)
    assert " + ?" in console.ok("usage", "--by", "day").out


def test_without_sessions_nothing_is_created(console: Console) -> None:
    ran = console.ok("usage")
    assert (ran.out, ran.err.startswith("friday: nothing was used since")) == ("", True)
    assert not store_path().exists()


def test_a_batch_of_a_service_counts_on_the_day_of_its_first_replies(console: Console) -> None:
    """As the caps of `friday budget` count it."""
    ask(console)
    now = sql(store_path(), "SELECT max(at) FROM events")[0][0]
    for at, cost in ((now - 86400, 1.0), (now, 3.0)):
        usage = {"input": 10, "cost_usd": cost}
        body = {"kind": "replies_collected", "batch": "b1", "profile": "p", "model": "anthropic/m", "usage": usage}
        columns = f"session, max(seq) + 1, 'a', {at}, 'replies_collected', '{json.dumps(body)}'"
        sql(store_path(), f"INSERT INTO events(session, seq, agent, at, kind, body) SELECT {columns} FROM events")
    rows = {row["day"]: row["cost_usd"] for row in console.ok("usage", "--json").document["day"]}
    assert rows.pop((date.today() - timedelta(days=1)).isoformat()) == pytest.approx(3.0)
    assert all(cost < 1 for cost in rows.values())
