"""The tree: what children are given, how their results come back, and the limits of number, depth, time and rights."""

from __future__ import annotations

import asyncio

import pytest

from friday_cli.core.permissions.rule import Rule
from friday_cli.core.protocol import events as ev
from friday_cli.core.protocol.errors import ProviderError
from tests.engine_fixture import (
    Bench,
    Model,
    Say,
    batch,
    call,
    delegate,
    make,
    ran,
    until,
)

LOOK = make("look")


async def test_single_calls_of_one_reply_run_together_and_their_results_stand_in_call_order() -> None:
    script = {
        "a": [Say("", [delegate("worker", "slow"), call("look", text="x"), delegate("worker", "quick")])],
        "a.1": [Say("slow one", delay_s=9)],
        "a.2": [Say("quick one", delay_s=1)],
    }
    bench = await ran(Model(script), [LOOK])
    assert asyncio.get_running_loop().time() == pytest.approx(9)
    first, second, third = bench.results()
    assert "slow one" in first
    assert second == "ok: did x"
    assert "quick one" in third


async def test_a_result_tells_who_made_it_how_it_ended_what_it_took_and_what_was_seen() -> None:
    script = {
        "a": [Say("", [delegate("worker")])],
        "a.1": [Say("", [call("look", text="x"), call("look", text="y", fail=True)]), Say("found it", delay_s=3)],
    }
    bench = await ran(Model(script, price=1e-6), [LOOK])
    assert bench.results() == [
        "ok: ## Result from 'worker' (a.1): completed\n> found it\n---\n"
        "delegate_id: a.1 | tokens: 30 | cost: $0.0000 | time: 3.0 s\n"
        "Receipt, made by the harness and not by the sub-agent:\n- tools run: look x2; 1 failed"
    ]


async def test_without_a_person_a_question_is_denied_and_reported() -> None:
    bench = Bench(
        Model({"a": [Say("", [call("look", text="x")]), Say("without it")]}),
        [LOOK],
        rules=[Rule("look", "", "ask")],
        attended=False,
    )
    assert (await bench.prompt()).text == "without it"
    assert bench.results() == [
        "denied: Not permitted: approval required by the rule look, and no person can be asked here. "
        "Continue without it, or report what you could not do."
    ]
    assert bench.of(ev.PermissionAsked) == []


async def test_the_time_of_a_parent_does_not_follow_a_child_that_went_to_the_background() -> None:
    busy = ProviderError("rate", "slow down", retry_after=50.0)
    script = {
        "a": [Say("", [batch({"profile": "worker"}, {"profile": "worker"})])],
        "a.1": [Say("found", delay_s=500)],
        "a.2": [Say(fail=busy, delay_s=10), Say("too")],
    }
    bench = Bench(Model(script))
    node = bench.begin()
    await until(lambda: len(bench.of(ev.StatusChanged, "a.2")) > 1)
    assert node.agent.slot.clock.elapsed == pytest.approx(10, abs=0.1)
    await bench.tree.detach("a.1")
    await asyncio.sleep(30)
    assert node.agent.slot.clock.elapsed == pytest.approx(10, abs=0.1), "all that it waits for stands still"
    await until(lambda: node.ended)
    assert node.outcome.status == "completed"
