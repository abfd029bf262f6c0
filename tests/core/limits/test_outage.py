"""A network that is away: one request looks for it, the others wait, and a time limit does not run meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from friday_cli.core.agent.agent import Policy
from friday_cli.core.limits.retry import FALLBACK_AFTER_S, OFFLINE_S
from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.events import AttemptFailed, StatusChanged
from friday_cli.core.protocol.provider import Request
from tests.engine_fixture import Bench, Model, Profile, Say, batch, ran, until

CHILDREN = 5


class Away(Model):
    """Five children of two replies, each of a second. The network is away from 1.5 s on, for `seconds`; then all that is
    said ends in an error, after half of it."""

    def __init__(self, seconds: float) -> None:
        super().__init__(self._say)
        self.ends = 1.5 + seconds
        self.refused: list[float] = []

    def _say(self, request: Request, count: int) -> Say:
        now = asyncio.get_running_loop().time()
        if request.agent == "a" and not count:
            return Say("", [batch(*[{"profile": "worker"}] * CHILDREN)])
        if 1.5 < now < self.ends:
            self.refused.append(now)
            return Say(fail=ProviderError("network", "Cannot reach it.", hint="Check the network."))
        if now <= 1.5 < now + 1:
            return Say("half", fail=ProviderError("network", "Lost."), delay_s=1.5 - now)
        turns = sum(m.role == "assistant" for m in request.messages)
        return Say("all", delay_s=1) if request.agent == "a" or turns else Say("first", stop="pause_turn", delay_s=1)


async def away(seconds: float, **more: object) -> tuple[Bench, Away]:
    model = Away(seconds)
    return await ran(model, (), {"worker": Profile(time_s=30)}, **more), model


@pytest.mark.parametrize("seconds", [0.5, 2, 5, 10, 60, 280])
async def test_nothing_ends_and_one_request_at_a_time_looks_for_the_network(seconds: float) -> None:
    bench, model = await away(seconds)
    assert [bench.outcome(path).status for path in sorted(bench.agents)] == ["completed"] * (CHILDREN + 1)
    assert len(model.refused) <= 5 + seconds / 7.5
    assert all(later - before >= 0.5 for before, later in zip(model.refused, model.refused[1:], strict=False))
    assert bench.finished("a.1").duration_s <= 4, "the clock does not run without a network"
    assert asyncio.get_running_loop().time() <= 1.5 + seconds + 20
    told = {e.reason for e in bench.of(StatusChanged) if e.status == "waiting_rate"}
    assert told == {"network"}
    assert [a.partial for a in bench.of(AttemptFailed) if a.partial] == ["half"] * CHILDREN


async def test_after_the_time_for_it_all_end_together_and_a_new_prompt_waits_as_long() -> None:
    bench, model = await away(10_000)
    assert {bench.outcome(path).stop_reason for path in bench.agents} == {"provider"}
    ended = asyncio.get_running_loop().time()
    assert OFFLINE_S - 20 <= ended <= OFFLINE_S + 5
    assert bench.outcome("a.1").text.endswith("half")
    assert "Cannot reach it. Check the network." in bench.outcome("a").error
    await bench.prompt("again")
    assert asyncio.get_running_loop().time() - ended >= OFFLINE_S - 20
    assert len(model.refused) < 100


async def test_a_stop_ends_the_wait_at_once_and_keeps_what_was_received() -> None:
    model = Away(10_000)
    bench = Bench(model, (), {"worker": Profile()})
    node = bench.begin()
    await until(lambda: len(model.refused) > 4)
    before = asyncio.get_running_loop().time()
    await bench.tree.stop("a")
    assert asyncio.get_running_loop().time() - before < 0.1
    assert (node.outcome.status, bench.outcome("a.1").text) == ("cancelled", "first\n\nhalf")
    assert bench.services.rate_limiters["fake"].in_flight == 0


async def test_a_wrap_up_without_a_network_hands_back_the_partial_text_after_its_time_limit() -> None:
    model = Away(10_000)
    bench = Bench(model, (), {"worker": Profile()})
    bench.begin()
    await until(lambda: len(model.refused) > 4)
    before = asyncio.get_running_loop().time()
    await bench.tree.stop("a.1", level="cancel", why="cancelled")
    assert asyncio.get_running_loop().time() - before == pytest.approx(30, abs=0.1)
    ended = bench.finished("a.1")
    assert (ended.status, ended.result, ended.error) == ("cancelled", "first\n\nhalf", "No wrap-up within 30 s.")
    await bench.tree.stop("a")


async def test_a_fallback_is_asked_sooner() -> None:
    spare = Model({"a": [Say("from the spare")]}, model="spare")
    gone = Model({"a": [Say(fail=ProviderError("network", "Gone."))] * 99})
    bench = Bench(gone, fallback=spare)
    assert (await bench.prompt()).text == "from the spare"
    assert asyncio.get_running_loop().time() <= FALLBACK_AFTER_S


async def test_a_request_that_always_loses_its_connection_does_not_keep_the_others_from_theirs() -> None:
    """It fails first, so it is the one that looks for the network, while the others wait for it."""

    def say(request: Request, count: int) -> Say:
        if request.agent == "a":
            return Say("done") if count else Say("", [batch(*[{"profile": "worker"}] * CHILDREN)])
        if request.agent == "a.1":
            return Say(fail=ProviderError("network", "Lost."))
        return Say("y", delay_s=1)

    bench = await ran(Model(say), (), {"worker": Profile()})
    assert [bench.outcome(f"a.{n}").status for n in range(2, CHILDREN + 1)] == ["completed"] * (CHILDREN - 1)
    assert bench.outcome("a.1").stop_reason == "provider"
    assert bench.finished("a.2").wall_s < 10


@pytest.mark.parametrize(("text", "most"), [("cut", 6), ("", 21)])
async def test_a_request_that_always_loses_its_connection_ends(text: str, most: int) -> None:
    """Others are answered: the connection is lost because of the request."""

    def say(request: Request, count: int) -> Say:
        if request.agent == "a":
            return Say("done") if count else Say("", [batch({"profile": "worker"}, {"profile": "worker"})])
        if request.agent == "a.1":
            return Say(text, fail=ProviderError("network", "Lost."))
        return Say("x", stop="pause_turn", delay_s=1) if count < 90 else Say("y")

    bench = await ran(Model(say), (), {"worker": Profile(turns=100)}, policy=Policy())
    assert (bench.outcome("a.1").stop_reason, bench.outcome("a.2").status) == ("provider", "completed")
    assert len(bench.requests("a.1")) <= 2 * most
