"""A service that admits few requests at a time: no stampede, nothing lost, and processes that hear of each other."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.e2e.friday import Friday
from tests.servers.fake_model_server import Brain, Say, Turn, reply, thinking
from tests.servers.script_player import Reply, Wait, document

PLACES = 2
ROUNDS = 4
"""Replies that each child needs."""
REFUSALS = 3
"""How often one request is refused at most: more than a request is tried again for would be bad luck, not a finding."""
SETTINGS = "[agents.delegation]\nmax_concurrent = 20\nmax_batch = 20\n"


class Narrow:
    """Admits `PLACES` requests at a time and refuses the rest, and every child the first time that it comes.

    How many it refuses depends on how fast everything is just now: that, and how many are in flight over time, is
    shown on a virtual clock in `tests/core/limits/test_rate_limit.py`. Here they are refused over real connections: nothing is lost.
    """

    def __init__(self, children: int, *, delay_s: float, retry_after: str) -> None:
        self.children, self._delay_s, self._retry_after = children, delay_s, retry_after
        self.running = self.admitted = 0
        self.refused: Counter[tuple[str, int]] = Counter()
        """How often each request was, by agent and turn."""

    def rule(self, turn: Turn) -> Say | Reply:
        if "-" not in turn.agent:
            return self._admit(Say(calls=[self._batch(turn.agent)]) if not turn.turn else Say(turn.last), 0.0)
        refused = self.refused[turn.agent, turn.turn]
        if (self.running >= PLACES and refused < REFUSALS) or not (turn.turn or refused):
            self.refused[turn.agent, turn.turn] += 1
            error = {"error": {"type": "rate_limit_error", "message": "slow down"}}
            return document(error, 429, retry_after=self._retry_after)
        last = turn.turn == ROUNDS - 1
        return self._admit(
            Say(f"found {turn.agent}") if last else Say(calls=[("list_dir", {"path": "."})]), self._delay_s
        )

    def _admit(self, say: Say, delay_s: float) -> Reply:
        self.running += 1
        self.admitted += 1
        return reply("chat", say, *([Wait(delay_s)] if delay_s else []))

    def _batch(self, root: str) -> tuple[str, dict[str, Any]]:
        tasks = [{"profile": "researcher", "task": f"#{root}-c{n} look"} for n in range(self.children)]
        return "delegate_tasks", {"tasks": tasks}

    @contextmanager
    def open(self) -> Iterator[Brain]:
        with thinking(self.rule, "chat") as brain:
            play = brain._play

            async def counted(answer: Reply, *rest: Any) -> bool:
                try:
                    return await play(answer, *rest)
                finally:
                    self.running -= answer.status == 200

            brain._play = counted  # type: ignore[method-assign]
            yield brain


def test_twenty_children_against_two_places(friday: Friday) -> None:
    narrow = Narrow(20, delay_s=0.03, retry_after="0.05")
    with narrow.open() as brain:
        friday.reach(brain, extra=SETTINGS)
        ran = friday.json("#root go")
    assert (ran.code, brain.complaints) == (0, [])
    children = ran.document["agents"][1:]
    assert [child["status"] for child in children] == ["completed"] * 20
    assert [n for n in range(20) if f"found root-c{n}\n" not in ran.document["result"]] == []
    needed = 20 * ROUNDS
    assert narrow.admitted == needed + 2


def test_a_refusal_of_one_process_makes_another_wait(friday: Friday) -> None:
    came: dict[str, list[float]] = {}

    def rule(turn: Turn) -> Say | Reply:
        came.setdefault(turn.agent, []).append(time.monotonic())
        if turn.agent == "first" and len(came["first"]) == 1:
            return document({"error": {"type": "rate_limit_error", "message": "slow down"}}, 429, retry_after="4")
        return Say("answered")

    with friday.meets(rule, "chat"):
        first = friday.start("#first go")
        while not list((friday.home / "state" / "lanes").glob("*")):
            time.sleep(0.01)  # until it has told the others
        second = friday.run("#second go")
        assert first.wait(timeout=60) == 0
    assert (second.code, second.out) == (0, "answered\n")
    refused = came["first"][0]
    assert came["second"][0] - refused >= 3.9  # two clocks: the one of the world and this one
    assert came["first"][1] - refused >= 3.9
