"""The tree: what children are given, how their results come back, and the limits of number, depth, time and rights."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from friday_cli.core.permissions.rule import Rule
from friday_cli.core.protocol import events as ev
from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.provider import Request
from tests.engine_fixture import (
    Bench,
    Model,
    Profile,
    Say,
    batch,
    call,
    delegate,
    make,
    ran,
    until,
)

LOOK = make("look")
DEEP = {"worker": Profile(offers=("worker",))}


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


async def test_a_single_child_that_fails_is_an_error_result_with_its_partial_text() -> None:
    script = {"a": [Say("", [delegate("worker")])], "a.1": [Say("half", fail=ProviderError("quota", "no credit"))]}
    bench = await ran(Model(script))
    (result,) = bench.results()
    assert result.startswith("error: ## Result from 'worker' (a.1): failed (provider)")
    assert "half" in result


@pytest.mark.parametrize("kind", ["rate", "overloaded", "server", "network", "truncated", "stall", "garbled", "empty",
                                  "auth", "quota", "invalid", "not_found", "context", "refusal"])  # fmt: skip
async def test_no_failure_of_a_provider_is_ever_a_success_and_none_loses_text(kind: Any) -> None:
    def play(request: Request, count: int) -> Say:
        if request.agent == "a":
            return Say("", [delegate("worker")]) if count == 0 else Say("I see")
        if count == 0:
            return Say("first finding", [call("look", text="x")])
        return Say("second finding", fail=ProviderError(kind, "no luck"))

    bench = await ran(Model(play), [LOOK])
    end = bench.finished("a.1")
    assert end.status == "failed"
    assert end.partial
    assert "first finding" in end.result
    assert "second finding" in end.result
    assert end.error
    assert "first finding" in bench.results()[0]


async def test_a_result_tells_who_made_it_how_it_ended_what_it_took_and_what_was_seen() -> None:
    script = {
        "a": [Say("", [delegate("worker")])],
        "a.1": [Say("", [call("look", text="x"), call("look", text="y", fail=True)]), Say("found it", delay_s=3)],
    }
    bench = await ran(Model(script, price=1e-6), [LOOK])
    assert bench.results() == [
        "ok: ## Result from 'worker' (a.1): completed\nfound it\n---\n"
        "delegate_id: a.1 | tokens: 30 | cost: $0.0000 | time: 3.0 s\n"
        "Receipt, made by the harness and not by the sub-agent:\n- tools run: look x2; 1 failed"
    ]


async def test_a_child_sees_its_task_and_context_and_nothing_of_its_parents_conversation() -> None:
    script = {"a": [Say("secret thoughts", [delegate("worker", "count lines", context="use wc")])]}
    bench = Bench(Model(script))
    await bench.prompt("a private question")
    (request,) = bench.requests("a.1")
    assert [m.text for m in request.messages] == ["[Context from parent agent]\nuse wc\n\ncount lines"]
    assert request.messages[0].source == "parent"
    assert request.system == "You are worker."


async def test_the_start_is_in_the_log_with_all_that_was_granted_before_anything_happens() -> None:
    script = {"a": [Say("", [delegate("worker", "count", max_tokens=9000, max_iterations=3, timeout_s=60)])]}
    bench = await ran(Model(script), [LOOK], {"worker": Profile(tools=("look",), tokens=50_000, turns=20, time_s=300)})
    mine = [e.event for e in bench.envelopes if e.agent == "a.1"]
    start = mine[0]
    assert isinstance(start, ev.AgentStarted)
    assert (start.profile, start.task, start.parent, start.model) == ("worker", "count", "a", "fake/m")
    assert (start.tokens, start.turns, start.time_s, start.tools) == (9000, 3, 60.0, ("look",))
    assert start.call_id == bench.root.history[1].calls[0].id
    assert isinstance(mine[1], ev.Prefix)
    assert isinstance(mine[2], ev.MessageAdded)


async def test_a_child_cannot_run_what_it_was_not_given_by_naming_it() -> None:
    script = {"a": [Say("", [delegate("worker")])], "a.1": [Say("", [call("change"), delegate("worker", "spawn!")])]}
    bench = await ran(Model(script), [LOOK, make("change", effect="write")], {"worker": Profile(tools=("look",))})
    assert [r.split(":")[0] for r in bench.results("a.1")] == ["error", "error"]
    assert bench.of(ev.ToolStarted, "a.1") == []
    assert list(bench.agents) == ["a", "a.1"]


async def test_where_nobody_can_be_asked_a_question_is_a_denial_and_said() -> None:
    bench = Bench(
        Model({"a": [Say("", [call("look", text="x")]), Say("without it")]}), [LOOK],
        rules=[Rule("look", "", "ask")], attended=False,
    )  # fmt: skip
    assert (await bench.prompt()).text == "without it"
    assert bench.results() == [
        "denied: Not permitted: must be asked by the rule look, and nobody can be asked here. "
        "Do without it, or say what you could not do."
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
