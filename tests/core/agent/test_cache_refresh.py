"""A cache that is kept while an agent waits, against a model of the services' caches with a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from friday_cli.core.agent.agent import Policy
from friday_cli.core.agent.cache_refresh import keeper_of
from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.events import CacheRefreshed
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.protocol.provider import Request
from friday_cli.core.protocol.run_result import RunResult
from tests.benchmarks.cost import FOLDER, CachedModel, run
from tests.engine_fixture import Arguments, Bench, Profile, Say, batch, call, make

CLAUDE, GPT = "claude-opus-5-5", "gpt-6.1-sol"


class Waiting:
    """A session whose second turn waits: `wait` seconds in a command, or for a sub-agent that does."""

    def __init__(self, wait_s: float, *, model: str = CLAUDE, child: bool = False, **more: Any) -> None:
        self.wait_s, self.child, self.more = wait_s, child, more
        self.model = CachedModel(self._play, model)
        self.bench: Bench
        self.outcome: RunResult

    def _play(self, request: Request, count: int) -> Say:
        if request.agent != "a":
            return Say("", [call("wait", text="x")]) if count == 0 else Say("found")
        if count == 0:
            return Say("", [call("read", text="x")])
        waiting = batch({"profile": "worker", "task": "part"}) if self.child else call("wait", text="x")
        return Say("", [waiting]) if count == 1 else Say("done")

    def go(self, meanwhile: Callable[[Bench], Any] | None = None) -> None:
        async def read(ctx: object, args: Arguments) -> str:
            return "a line of a file " * 6000

        async def wait(ctx: object, args: Arguments) -> str:
            await asyncio.sleep(self.wait_s)
            return "ok"

        async def session() -> None:
            workers = {"worker": Profile(tokens=10**8, time_s=0, tools=("wait",))}
            me = Profile(turns=9, time_s=0, tokens=0, cost=self.more.pop("cost", None))
            self.bench = Bench(
                self.model,
                [make("read", read), make("wait", wait, effect="write")],
                profiles=workers,
                me=me,
                **self.more,
            )
            self.bench.root.conversation.system = FOLDER
            other = asyncio.create_task(meanwhile(self.bench)) if meanwhile else None
            self.outcome = await self.bench.prompt("work")
            assert self.outcome.status == "completed" or me.cost, self.outcome
            if other is not None:
                await other

        run(session)

    @property
    def events(self) -> list[CacheRefreshed]:
        return self.bench.of(CacheRefreshed)


@pytest.mark.parametrize("child", [False, True], ids=["command", "sub-agent"])
def test_a_wait_of_twenty_minutes_loses_nothing(child: bool) -> None:
    waiting = Waiting(1200, child=child)
    waiting.go()
    model = waiting.model
    assert model.cache.read >= 0.97 * model.cache.repeatable
    assert [round(b - a) for a, b in zip(model.refreshed, model.refreshed[1:], strict=False)] == [240] * (
        len(model.refreshed) - 1
    )
    assert len(model.refreshed) in (4, 5) if not child else len(model.refreshed) >= 4
    assert waiting.bench.root.tree_usage.cost_usd == pytest.approx(model.spent.cost_usd)


def test_a_wait_without_end_costs_at_most_as_much_as_is_lost() -> None:
    waiting = Waiting(20 * 3600)
    waiting.go()
    spent = sum(event.usage.cost_usd or 0 for event in waiting.events)
    tokens = waiting.events[0].usage.cache_read
    lost = (waiting.model.cost(Usage(cache_write=tokens)) or 0) - (waiting.model.cost(Usage(cache_read=tokens)) or 0)
    assert 0 < spent <= lost
    assert len(waiting.model.refreshed) == 14, "an hour"


def test_openai_keeps_a_cache_for_half_an_hour() -> None:
    waiting = Waiting(3000, model=GPT)
    waiting.go()
    assert len(waiting.model.refreshed) == 2
    assert waiting.model.cache.read >= 0.97 * waiting.model.cache.repeatable


@pytest.mark.parametrize(("keep_warm_s", "refreshes"), [(0.0, 0), (900.0, 3)])
def test_a_person_is_waited_for_as_long_as_they_set(keep_warm_s: float, refreshes: int) -> None:
    async def answer(bench: Bench) -> None:
        await asyncio.sleep(2000)
        (ask,) = bench.approvals.pending
        await bench.approvals.answer(ask, ApprovalAnswer("allow"))

    waiting = Waiting(1, mode="ask", policy=Policy(keep_warm_s=keep_warm_s))
    waiting.go(answer)
    assert len(waiting.model.refreshed) == refreshes


def test_between_two_messages_of_a_person_it_ends_with_the_next_request() -> None:
    waiting = Waiting(1)

    async def messages(bench: Bench) -> None:
        await asyncio.sleep(100)
        keeper = keeper_of(bench.root, bench.services, 3600.0)
        assert keeper is not None
        await asyncio.sleep(600)
        assert len(waiting.model.refreshed) == 2
        await bench.prompt("go on")
        await asyncio.sleep(600)
        assert len(waiting.model.refreshed) == 2, "the request that it kept is not the last one"
        await keeper.stop()

    waiting.go(messages)


@pytest.mark.parametrize(("wait_s", "cost", "refreshes"), [(1200, 0.24, 5), (4000, 0.24, 13), (1200, 0.2, 0)])
def test_what_a_budget_cannot_pay_is_not_sent(wait_s: float, cost: float, refreshes: int) -> None:
    """Nor is an answer in text, for which the messages are not read from the cache (the last one)."""
    waiting = Waiting(wait_s, cost=cost)
    waiting.go()
    assert len(waiting.events) == refreshes
    assert waiting.bench.root.budget.cost.spent <= cost
    assert waiting.model.spent.cost_usd <= cost


def test_it_is_in_the_log_before_it_is_sent_and_a_refusal_ends_it() -> None:
    waiting = Waiting(1200)
    logged: list[int] = []

    async def refuse(request: Request) -> Usage:
        logged.append(len(waiting.events))
        raise ProviderError("invalid", "max_tokens must be at least 1", status=400)

    waiting.model.refresh_cache = refuse  # type: ignore[method-assign]
    waiting.go()
    assert logged == [1]
