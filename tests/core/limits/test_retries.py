"""A request that fails: tried again where that can help, never longer than said, and nothing is lost or paid twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from friday_cli.core.agent.agent import Policy
from friday_cli.core.protocol.errors import ErrorKind, ProviderError
from friday_cli.core.protocol.events import AttemptFailed, Notice, Prefix, StatusChanged
from friday_cli.core.protocol.messages import Thinking, Usage
from tests.engine_fixture import Bench, Model, Profile, Say, call, make, ran


def failing(kind: ErrorKind, times: int, *, text: str = "", retry_after: float | None = None) -> list[Say]:
    return [Say(text, fail=ProviderError(kind, f"{kind}!", retry_after=retry_after))] * times


@pytest.mark.parametrize("kind", ["rate", "server"])
async def test_the_server_is_not_asked_earlier_than_it_wished(kind: ErrorKind) -> None:
    bench = await ran(Model({"a": [*failing(kind, 1, retry_after=40.0), Say("there")]}))
    assert 40 <= asyncio.get_running_loop().time() <= 45
    (attempt,) = bench.of(AttemptFailed)
    assert attempt.retry_s == pytest.approx(asyncio.get_running_loop().time())
    assert bench.finished().duration_s == pytest.approx(0), "a rate limit is not the agent's time"
    assert [e.status for e in bench.of(StatusChanged)] == ["waiting_rate", "running"]


async def test_all_waits_of_a_request_take_no_longer_than_five_minutes() -> None:
    bench = Bench(Model({"a": [*failing("rate", 3, retry_after=60.0), *failing("server", 3, retry_after=60.0)]}))
    outcome = await bench.prompt()
    assert (outcome.status, outcome.stop_reason, outcome.error) == (
        "failed",
        "provider",
        "server! It asks you to wait for 60 s.",
    )
    assert [a.retry_s is None for a in bench.of(AttemptFailed)] == [False] * 4 + [True]
    assert 240 <= asyncio.get_running_loop().time() <= 300


@pytest.mark.parametrize("kind", ["rate", "server", "invalid", "quota"])
async def test_a_wait_that_is_not_the_reason_is_not_told(kind: ErrorKind) -> None:
    outcome = await Bench(Model({"a": failing(kind, 9, retry_after=1.0)})).prompt()
    assert (outcome.status, outcome.error) == ("failed", f"{kind}!")


async def test_failures_are_counted_apart_by_kind_and_by_request() -> None:
    turns = [
        *failing("network", 2),
        *failing("truncated", 3),
        *failing("empty", 1),
        Say("", [call("look")]),
        *failing("network", 2),
        Say("x"),
    ]
    bench = Bench(Model({"a": turns}), [make("look")])
    assert (await bench.prompt()).status == "completed"


async def test_a_call_of_a_reply_that_broke_is_never_run() -> None:
    broken = Say("let me", [call("look")], fail=ProviderError("truncated", "cut"))
    seen = []

    async def look(ctx: Any, args: Any) -> str:
        seen.append(ctx.call_id)
        return "x"

    await ran(Model({"a": [broken, Say("", [call("look", "good")]), Say("done")]}), [make("look", look)])
    assert seen == ["good"]


async def test_the_usage_of_failed_tries_is_counted_known_or_estimated() -> None:
    turns = [
        Say("", fail=ProviderError("server", "x", usage=Usage(input=100, output=7))),
        Say("twelve bytes", fail=ProviderError("network", "x")),
        Say("", fail=ProviderError("network", "x")),
        Say("done"),
    ]
    bench = await ran(Model({"a": turns}, price=1e-6), me=Profile(tokens=50_000, time_s=0))
    known, guessed, nothing = (a.usage for a in bench.of(AttemptFailed))
    assert (known.billed, known.cost_usd, nothing.billed) == (107, pytest.approx(107e-6), 0)
    assert (guessed.estimated, guessed.output) == (True, 3)
    total = bench.finished().usage
    assert total.billed == known.billed + guessed.billed + 15
    assert bench.root.budget.tokens.spent == total.billed
    assert bench.root.budget.cost.spent == pytest.approx(total.cost_usd)


async def test_the_fallback_model_continues_and_that_is_reported() -> None:
    spare = Model({"a": [Say("from the spare")]}, model="spare")
    thinking = Say("look", [call("look")], thinking="secret of the first model")
    bench = Bench(Model({"a": [thinking, *failing("overloaded", 6)]}), [make("look")], fallback=spare)
    outcome = await bench.prompt()
    assert (outcome.status, outcome.text) == ("completed", "from the spare")
    assert [n.text for n in bench.of(Notice)] == [
        "fake/m does not answer; continuing with the fallback model fake/spare."
    ]
    assert [p.model for p in bench.of(Prefix)] == ["fake/m", "fake/spare"]
    (request,) = spare.requests
    assert not any(isinstance(p, Thinking) for m in request.messages for p in m.parts), "thinking belongs to one model"
    assert bench.root.model == "fake/spare"


@pytest.mark.parametrize(("kind", "asked"), [("auth", (1, 0)), ("stall", (2, 2))])
async def test_a_fallback_is_asked_after_failures_that_may_pass_and_its_own_end_the_run(
    kind: ErrorKind, asked: tuple[int, int]
) -> None:
    spare = Model({"a": failing("stall", 9)}, model="spare")
    bench = Bench(Model({"a": failing(kind, 9)}), fallback=spare)
    outcome = await bench.prompt()
    assert (outcome.status, outcome.stop_reason) == ("failed", "provider")
    assert (len(bench.model.requests), len(spare.requests)) == asked


async def test_a_model_is_no_fallback_for_itself() -> None:
    """A fork of an agent that went on with the fallback has that as its own model."""
    same = Model({"a": [Say("from the same")]})
    thinking = Say("look", [call("look")], thinking="kept")
    bench = Bench(Model({"a": [thinking, *failing("stall", 9)]}), [make("look")], fallback=same)
    assert (await bench.prompt()).stop_reason == "provider"
    assert (same.requests, bench.of(Notice)) == ([], [])
    assert any(isinstance(p, Thinking) for m in bench.root.conversation.history for p in m.parts), (
        "it is the log's history still"
    )


async def test_requests_of_one_agent_share_a_cache_key_and_a_growing_prefix() -> None:
    bench = await ran(Model({"a": [Say("", [call("look")]), Say("x")]}), [make("look")])
    await bench.prompt("more")
    first, second, third = bench.model.requests
    assert {r.cache_key for r in bench.model.requests} == {"root"}
    assert second.messages[: len(first.messages)] == first.messages
    assert third.messages[: len(second.messages)] == second.messages
    assert first.system == third.system
    assert first.tools == third.tools


@pytest.mark.parametrize(("patient", "status", "took"), [(False, "failed", 0), (True, "completed", 600)])
async def test_a_long_limit_fails_at_once_or_is_waited_for(patient: bool, status: str, took: float) -> None:
    limited = Say("", fail=ProviderError("rate", "limited", status=429, retry_after=300.0))
    bench = Bench(Model({"a": [limited, limited, Say("late")]}), policy=Policy(patient=patient))
    begun = asyncio.get_running_loop().time()
    outcome = await bench.prompt()
    assert outcome.status == status
    assert took <= asyncio.get_running_loop().time() - begun < took + 120
    assert bench.finished().duration_s < 60, "it is not active time"
