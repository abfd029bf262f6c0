"""Caps over all sessions: asked before each request, obeyed by processes that start, die and wait at the same time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from tests.e2e.friday import Friday, ended
from tests.servers.fake_model_server import Say, Turn

PRICES = "[providers.own.prices]\ninput = 10.0\noutput = 50.0\n"
REPLY = (3000, 1000, 0)
COST = 0.08
"""US dollars of a reply at these prices."""
BEGUN = 0.25
"""What a request counts whose process was killed: its input and 4,000 tokens."""
MAP = (
    sys.executable,
    "-m",
    "friday_cli",
    "map",
    "researcher",
    "--items",
    "items.jsonl",
    "--task",
    "item {item}",
    "--max-cost",
    "9",
    "--yes",
)


def budget(friday: Friday, *argv: str, err: str = "") -> str:
    ran = subprocess.run(
        [sys.executable, "-m", "friday_cli", "budget", *argv],
        env=friday.env,
        cwd=friday.project,
        capture_output=True,
        text=True,
        check=True,
    )
    assert err in ran.stderr
    return ran.stdout


def until(reached: Callable[[], bool], within_s: float = 60) -> None:
    deadline = time.monotonic() + within_s
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kills", [0, 5])
def test_a_dollar_over_many_sessions_of_two_kinds(friday: Friday, kills: int) -> None:
    """`ask` and `map` in many processes, half of which are killed: at most one reply too many by the service's own count, and
    those that are left get what the others did not begin."""

    def rule(turn: Turn) -> Say:
        if turn.forbidden or "item" in turn.asked_for:
            return Say("that is all", usage=REPLY)
        return Say(calls=[("list_dir", {"path": "./" * turn.turn + "."})], usage=REPLY, delay_s=0.2)

    (friday.project / "items.jsonl").write_text("".join(f'{{"item": {n}}}\n' for n in range(30)))
    with friday.meets(rule, "chat", extra=f'[budget]\non_cap = "wrap_up"\n{PRICES}') as server:
        budget(friday, "set", "--daily", "1")
        asks = [friday.start(f"#s{n} go on") for n in range(6)]
        map_command = [*MAP, "--model", friday.model]
        batch = subprocess.Popen(
            map_command, env=friday.env, cwd=friday.project, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        until(lambda: len(server.turns) >= 3)
        for process in asks[:kills]:
            os.kill(process.pid, signal.SIGKILL)
        ends = [ended(process, timeout=120) for process in (*asks[kills:], batch)]
    replies = len(server.turns)
    lost = BEGUN if kills else 0  # of a killed process
    assert 1 - 3 * COST - lost <= replies * COST <= 1 + COST, [end.err for end in ends]
    assert "your daily cap" in ends[0].err, ends[0].err
    rows = json.loads(budget(friday, "show", "--json"))
    (cap,) = rows["caps"]
    assert cap["held"] == 0
    assert cap["used"] <= 1 + COST


def test_an_agent_waits_for_the_cap_and_goes_on_when_it_is_raised(friday: Friday) -> None:
    def rule(turn: Turn) -> Say:
        return Say("done", usage=REPLY) if turn.turn == 2 else Say(calls=[("list_dir", {"path": "."})], usage=REPLY)

    with friday.meets(rule, "chat", extra=PRICES) as server:
        budget(friday, "set", "--daily", "0.1")
        waiting = friday.start("go")
        assert waiting.stderr is not None
        line = waiting.stderr.readline().decode()
        assert line.startswith("friday: a: waiting: daily cap, $0.08"), line
        assert "of $0.1000. `friday budget set` raises it." in line
        assert len(server.turns) == 1
        command = [sys.executable, "-m", "friday_cli", "agents"]
        listed = subprocess.run(command, env=friday.env, cwd=friday.project, capture_output=True, text=True, check=True)
        assert "waiting: daily cap, $0.08" in listed.stdout
        budget(friday, "set", "--daily", "1")
        end = ended(waiting)
    assert (end.code, end.out, len(server.turns)) == (0, "done\n", 3)


def test_a_model_without_a_price_is_refused_under_a_cap_of_dollars_only(friday: Friday) -> None:
    with friday.meets(lambda turn: Say("done", usage=REPLY), "chat") as server:
        budget(friday, "set", "--daily", "1")
        refused = friday.json("go")
        assert "The price of own/m-1 is unknown" in refused.document["error"]
        assert (refused.code, len(server.turns)) == (1, 0)
        budget(friday, "clear")
        budget(friday, "set", "--daily-tokens", "100000")
        assert friday.json("go").code == 0
        assert "4,000" in budget(friday)


def test_an_assumed_price_is_that_of_the_dearest_model_of_the_vendor(friday: Friday) -> None:
    with friday.meets(lambda turn: Say("done", usage=REPLY)) as server:
        budget(friday, "set", "--daily", "10")
        assert "is unknown" in friday.json("go").document["error"]
        assert friday.json("go", "--assume-price").code == 0
        assert len(server.turns) == 1
    (cap,) = json.loads(budget(friday, "--json"))["caps"]
    assert cap["used"] > 0


def test_a_cap_of_one_service_leaves_others_alone_and_agents_cannot_change_caps(friday: Friday) -> None:
    with friday.meets(lambda turn: Say("done", usage=REPLY), "chat", extra=PRICES):
        budget(friday, "set", "--daily", "0.0001", "--for", "other", err="no service or key named 'other' was used")
        assert friday.json("go").code == 0
    for argv in (["set", "--daily", "5"], ["clear"]):
        ran = subprocess.run(
            [sys.executable, "-m", "friday_cli", "budget", *argv],
            env=friday.env | {"FRIDAY_DEPTH": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 2
        assert "set by a person" in ran.stderr


@pytest.mark.parametrize("background", [False, True])
def test_parallel_sub_agents_with_the_longest_replies_cost_no_more_than_the_cap(
    friday: Friday, background: bool
) -> None:
    """Counted by the service: each reply is as long as its request allows, and an answer that is cut is asked for again."""
    paid = []

    def rule(turn: Turn) -> Say:
        first = turn.agent == "root" and not turn.turn
        most = turn.body.get("max_tokens") or turn.body["max_completion_tokens"]
        written = 100 if turn.agent == "root" else most
        paid.append((3000 * 10 + written * 50) / 1e6)
        tasks = [
            {"profile": "researcher", "task": f"#kid{n} look"} | ({"background": True} if background else {})
            for n in range(4)
        ]
        calls = [("delegate_tasks", {"tasks": tasks})] if first and not background else []
        calls = [("delegate_task", task) for task in tasks] if first and background else calls
        return Say("seen" if not calls else "", calls=calls, usage=(3000, written, 0), delay_s=0.3)

    with friday.meets(rule, "chat", extra=PRICES) as server:
        ran = friday("look at all of it", "--max-cost", "1.2")
    assert len({turn.agent for turn in server.turns}) > 3, ran.err
    assert 0.8 < sum(paid) <= 1.2
