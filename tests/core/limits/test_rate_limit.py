"""One gate for a parent and all its children: a rate limit stops all of them, and they come back one after the other."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace

import pytest

from friday_cli.core.agent.agent import Policy
from friday_cli.core.limits import rate_limit as gates
from friday_cli.core.limits.rate_limit import BACKOFF_MOST_S, MOST_IN_FLIGHT, RateLimiter
from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.provider import Request
from tests.engine_fixture import Bench, Model, Profile, Say, batch, call, delegate, make, until


def gate(seed: int = 1) -> RateLimiter:
    return RateLimiter(random.Random(seed))


def fill(limiter: RateLimiter) -> int:
    """Take every free slot; returns their number."""
    return len(list(iter(limiter.try_acquire, 0)))


async def test_slots_are_released_and_a_closed_rate_limiter_admits_none() -> None:
    limiter = gate()
    assert limiter.try_acquire()
    assert limiter.in_flight == 1
    wait = limiter.back_off(1, crowded=True)
    assert 0.5 <= wait <= 1.0
    assert not limiter.try_acquire()
    limiter.release(1)
    assert limiter.in_flight == 0
    assert not limiter.try_acquire(), "closed for everybody, not only for who was refused"
    await asyncio.sleep(wait)
    assert limiter.try_acquire()


async def test_only_rate_limit_errors_close_the_rate_limiter() -> None:
    limiter = gate()
    assert limiter.back_off(1, crowded=False) > 0
    assert limiter.wait_s == 0
    assert limiter.try_acquire()


async def test_the_wait_doubles_with_jitter_up_to_a_cap() -> None:
    for attempt, base in ((1, 1.0), (2, 2.0), (4, 8.0), (9, BACKOFF_MOST_S)):
        waits = {gate(seed).back_off(attempt, crowded=False) for seed in range(20)}
        assert len(waits) == 20, "no two agents come back at the same moment"
        assert min(waits) >= base / 2
        assert max(waits) <= base


@pytest.mark.parametrize("seconds", [0.0, 2.0, 45.0])
async def test_a_server_is_never_asked_earlier_than_it_said(seconds: float) -> None:
    for seed in range(20):
        assert seconds <= gate(seed).back_off(1, retry_after=seconds, crowded=True) <= 1.1 * seconds + 0.1
        again = gate(seed).back_off(4, retry_after=seconds, crowded=True)
        assert max(seconds, 2.0) <= again <= max(4.0, 1.1 * seconds + 0.1), "what it said was not enough three times"


async def test_the_number_in_flight_halves_after_a_refusal_and_grows_with_success() -> None:
    limiter = gate()
    for _ in range(16):
        assert limiter.try_acquire()
    limiter.release(1)
    wait = limiter.back_off(1, crowded=True)
    for _ in range(15):
        limiter.release(1, succeeded=False)
    await asyncio.sleep(wait)
    assert fill(limiter) == 7
    for _ in range(7):
        limiter.release(1, succeeded=True)
    assert fill(limiter) == 8, "one more after a round of successes"
    for _ in range(8):
        limiter.release(1)
    for _ in range(5000):
        limiter.try_acquire()
        limiter.release(1, succeeded=True)
    assert fill(limiter) == MOST_IN_FLIGHT


async def test_a_cancelled_wait_passes_the_turn_on() -> None:
    limiter = gate()
    limiter.back_off(1, crowded=True)
    wait = limiter.wait_s
    waiting = [asyncio.create_task(limiter.acquire()) for _ in range(4)]
    await asyncio.sleep(wait / 2)
    waiting[0].cancel()
    await asyncio.sleep(wait)
    assert waiting[1].done()
    waiting[2].cancel()  # it is next
    limiter.release(1, succeeded=True)
    async with asyncio.timeout(5):
        await waiting[3]


BEGUN = 1_700_000_000.0
"""The wall-clock time when a test begins."""


@pytest.fixture(autouse=True)
def _one_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes tell each other the wall-clock time, which also is that of the virtual clock."""
    monkeypatch.setattr(gates, "time", SimpleNamespace(time=lambda: BEGUN + asyncio.get_running_loop().time()))


class MemorySharedRateLimit:
    """What other processes know, in memory; `until` counts from the beginning of the test."""

    def __init__(self) -> None:
        self.until = self.served = 0.0

    def closed_until(self) -> float:
        return BEGUN + self.until if self.until > asyncio.get_running_loop().time() else 0.0

    def close_until(self, at: float) -> None:
        self.until = max(self.until, at - BEGUN)

    def served_at(self) -> float:
        return self.served

    def serve(self) -> None:
        self.served = asyncio.get_running_loop().time()


async def test_a_rate_limit_error_of_another_process_closes_the_rate_limiter_here() -> None:
    shared = MemorySharedRateLimit()
    limiter = RateLimiter(random.Random(1), shared)
    for _ in range(8):
        assert limiter.try_acquire()
    shared.until = 20.0
    assert not limiter.try_acquire()
    assert 20 <= limiter.wait_s <= 22.1
    waiting = asyncio.create_task(limiter.acquire())
    for _ in range(8):
        limiter.release(1)
    await asyncio.sleep(19)
    assert not waiting.done()
    await asyncio.sleep(4)
    assert waiting.done()
    assert fill(limiter) == 3, "and half as many come back"


async def test_a_refusal_is_shared_and_its_own_is_not_taken_for_that_of_another_process() -> None:
    shared = MemorySharedRateLimit()
    limiter = RateLimiter(random.Random(1), shared)
    for _ in range(4):
        limiter.try_acquire()
    wait = limiter.back_off(1, retry_after=10.0, crowded=True)
    assert shared.until == pytest.approx(wait)
    assert limiter.wait_s == pytest.approx(wait)
    for _ in range(4):
        limiter.release(1)
    await asyncio.sleep(wait)
    assert limiter.try_acquire()
    assert limiter.try_acquire(), "halved once, not twice"
    limiter.back_off(1, crowded=False)
    assert shared.until == pytest.approx(wait), "a failure that is no crowd concerns nobody else"


async def test_processes_do_not_come_back_at_the_same_moment() -> None:
    shared = MemorySharedRateLimit()
    shared.until = 10.0
    waits = {RateLimiter(random.Random(seed), shared).wait_s for seed in range(20)}
    assert len(waits) == 20
    assert 10 <= min(waits) <= max(waits) <= 11.1
    shared.until = 59.9
    assert all(RateLimiter(random.Random(seed), shared).wait_s <= 60 for seed in range(20)), "a minute at most"


PLACES = 2


class Slots(Model):
    """A process whose root sends out 20 children of four replies each, to a server that works at `PLACES` requests at a
    time, a second at each, and takes a moment to refuse the others with 429, or to drop their connections (`drops`).
    `other` asks the same server."""

    def __init__(self, retry_after: float | None, other: Slots | None = None, *, drops: bool = False) -> None:
        super().__init__(self._say)
        self._retry_after, self._drops = retry_after, drops
        self._work: list[float] = other._work if other else []
        self._refusals: list[float] = other._refusals if other else []
        self.times: list[float] = other.times if other else []
        """When each request came."""
        self.flight: list[int] = other.flight if other else []
        """How many were there when each one came, with it."""

    def _say(self, request: Request, count: int) -> Say:
        if request.agent == "a":
            return Say("all of it") if count else Say("", [batch(*[{"profile": "worker"}] * 20)])
        now = asyncio.get_running_loop().time()
        for ends in (self._work, self._refusals):
            ends[:] = [end for end in ends if end > now]
        self.times.append(now)
        self.flight.append(len(self._work) + len(self._refusals) + 1)
        if len(self._work) >= PLACES:
            self._refusals.append(now + 0.2)
            refusal = ProviderError("rate", "slow down", status=429, retry_after=self._retry_after)
            if self._drops:
                refusal = ProviderError("network", "The connection was lost.")
            return Say(fail=refusal, delay_s=0.2)
        self._work.append(now + 1.0)
        turns = sum(m.role == "assistant" for m in request.messages)
        return Say("done", delay_s=1.0) if turns >= 3 else Say(f"step {turns}", stop="pause_turn", delay_s=1.0)


@pytest.mark.parametrize(("retry_after", "drops"), [(None, False), (2.0, False), (0.05, False), (None, True)])
@pytest.mark.parametrize("seed", range(2))
async def test_twenty_children_with_two_slots_all_finish(retry_after: float | None, drops: bool, seed: int) -> None:
    model = Slots(retry_after, drops=drops)
    bench = Bench(model, (), {"worker": Profile()}, batch_most=20, seed=seed)
    outcome = await bench.prompt()
    assert outcome.status == "completed"
    assert [bench.outcome(f"a.{n}").text for n in range(1, 21)] == ["done"] * 20
    needed = 20 * 4
    assert len(model.times) <= 1.5 * needed, f"{len(model.times)} requests for {needed} replies"
    assert model.flight[:20] == list(range(1, 21)), "at first nobody knows better than to come"
    assert max(model.flight[20:]) <= PLACES + 1, f"in flight: {model.flight}"
    if retry_after is None:  # then they do not come back together
        later = sorted(t for t in model.times if t > 0)
        most = max(sum(start <= t < start + 0.1 for t in later) for start in later)
        assert most <= 4, f"{most} requests within 0.1 s"
    assert bench.services.rate_limiter("fake").in_flight == 0


@pytest.mark.parametrize("retry_after", [None, 2.0, 0.05])
@pytest.mark.parametrize(("processes", "policy", "waste"), [(2, Policy(max_concurrent=20), 1.5), (4, Policy(), 3)])
async def test_processes_share_a_server_that_admits_two_requests(
    retry_after: float | None, processes: int, policy: Policy, waste: float
) -> None:
    """Each of four has one request in flight at least: two are refused at any time, some of them again and again."""
    shared, one = MemorySharedRateLimit(), Slots(retry_after)
    models = [one, *(Slots(retry_after, one) for _ in range(processes - 1))]
    benches = [
        Bench(model, (), {"worker": Profile()}, policy=policy, batch_most=20, seed=seed)
        for seed, model in enumerate(models)
    ]
    for bench in benches:
        bench.services.make_rate_limiter = lambda key, rng=bench.rng: RateLimiter(rng, shared)  # type: ignore[misc]
    await asyncio.gather(*(bench.prompt() for bench in benches))
    for bench in benches:
        assert [bench.outcome(f"a.{n}").text for n in range(1, 21)] == ["done"] * 20
    needed = processes * 20 * 4
    assert len(one.times) <= waste * needed, f"{len(one.times)} requests for {needed} replies"
    assert processes > PLACES or max(one.flight[40:]) <= PLACES + 2, f"in flight: {one.flight}"


@pytest.mark.parametrize(("served", "fewest", "most"), [(False, 6, 6), (True, 50, 500)])
async def test_a_request_comes_again_while_others_are_served(served: bool, fewest: int, most: int) -> None:
    shared, tries = MemorySharedRateLimit(), 0

    def say(request: Request, count: int) -> Say:
        nonlocal tries
        tries = count + 1
        if served:
            shared.serve()
        return Say(fail=ProviderError("rate", "slow down", status=429))

    bench = Bench(Model(say))
    bench.services.make_rate_limiter = lambda key: RateLimiter(bench.rng, shared)
    outcome = await bench.prompt()
    assert (outcome.status, outcome.stop_reason) == ("failed", "provider")
    assert fewest <= tries <= most
    assert asyncio.get_running_loop().time() <= 3700


async def test_no_rate_limit_slot_is_held_while_waiting_for_a_run_slot() -> None:
    """Two requests at a time, one place to run: a.1 is at work with a tool, a.2 and a.3 must let the root go first."""
    busy = ProviderError("rate", "slow down", retry_after=5.0)
    script = {
        "a": [
            Say("", [delegate("worker", n, background=True) for n in ("one", "two", "three")]),
            Say("", [call("look", seconds=10)]),
            Say("here I am"),
        ],
        "a.1": [Say(fail=busy), Say("", [call("look", seconds=300)]), Say("first")],
        "a.2": [Say("", [call("look")]), Say("second")],
        "a.3": [Say("", [call("look")]), Say("third")],
    }
    bench = Bench(Model(script), [make("look")], policy=Policy(max_concurrent=1))
    node = bench.begin()
    await until(lambda: node.ended)
    assert node.outcome.text == "here I am"
    assert asyncio.get_running_loop().time() < 30
    assert bench.node("a.2").agent.slot.status == "queued"
    await until(lambda: all(bench.node(path).ended for path in ("a.1", "a.2", "a.3")))
    assert [bench.outcome(path).text for path in ("a.1", "a.2", "a.3")] == ["first", "second", "third"]
    assert bench.services.rate_limiters["fake"].in_flight == 0
