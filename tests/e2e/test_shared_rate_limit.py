"""A service that accepts few parallel requests: no sub-agent fails, and processes share their waits."""

from __future__ import annotations

import time

from tests.e2e.friday import Friday
from tests.servers.fake_model_server import Say, Turn
from tests.servers.script_player import Reply, document

PLACES = 2
ROUNDS = 4
"""Replies that each child needs."""
REFUSALS = 3
"""How often the service refuses one request at most. More would use up the retries of a request by chance."""
SETTINGS = "[agents.delegation]\nmax_concurrent = 20\nmax_batch = 20\n"


def too_many(retry_after: str) -> Reply:
    return document({"error": {"type": "rate_limit_error", "message": "slow down"}}, 429, retry_after=retry_after)


def test_twenty_children_against_two_places(friday: Friday) -> None:
    """The service admits two requests at a time, and refuses each child at its first request.

    How many it refuses depends on the speed of the machine: that, and the number of parallel requests, is checked on a
    virtual clock in tests/core/limits/test_rate_limit.py. This test checks over real connections that nothing is lost.
    """
    refused: list[str] = []

    def rule(turn: Turn) -> Say | Reply:
        if turn.agent == "root":
            tasks = [{"profile": "researcher", "task": f"#c{n} look"} for n in range(20)]
            return Say(turn.last) if turn.turn else Say(calls=[("delegate_tasks", {"tasks": tasks})])
        if (server.at_once >= PLACES and turn.tries < REFUSALS) or not (turn.turn or turn.tries):
            refused.append(turn.agent)
            return too_many("0.05")
        if turn.turn == ROUNDS - 1:
            return Say(f"found {turn.agent}", delay_s=0.03)
        return Say(calls=[("list_dir", {"path": "."})], delay_s=0.03)

    with friday.meets(rule, "chat", extra=SETTINGS) as server:
        ran = friday.json("go")
    assert ran.code == 0
    assert [child["status"] for child in ran.document["agents"][1:]] == ["completed"] * 20
    assert [n for n in range(20) if f"found c{n}\n" not in ran.document["result"]] == []
    assert len(refused) >= 20
    assert len(server.turns) - len(refused) == 20 * ROUNDS + 2


def test_a_refusal_of_one_process_makes_another_wait(friday: Friday) -> None:
    came: dict[str, list[float]] = {}

    def rule(turn: Turn) -> Say | Reply:
        came.setdefault(turn.agent, []).append(time.monotonic())
        if turn.agent == "first" and len(came["first"]) == 1:
            return too_many("4")
        return Say("answered")

    with friday.meets(rule, "chat"):
        first = friday.start("#first go")
        while not list((friday.home / "state" / "lanes").glob("*")):
            time.sleep(0.01)  # until the wait is written for other processes
        second = friday.run("#second go")
        assert first.wait(timeout=60) == 0
    assert (second.code, second.out) == (0, "answered\n")
    refused = came["first"][0]
    assert came["second"][0] - refused >= 3.9  # wall clock and monotonic clock differ a little
    assert came["first"][1] - refused >= 3.9
