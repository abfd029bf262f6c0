"""Limits as a tree: who hits which, what the record says, and when a person is asked before anything is spent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.protocol.events import AgentStarted, Notice, PermissionAsked
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.protocol.provider import Request
from tests.delegation.harness import Actors, Harness, until
from tests.engine_fixture import Say, batch, call, delegate

BIG = Usage(input=100, cache_read=400, output=2400)
ON = [Say("on", [call("todo", items=[{"text": f"step {n}"}])], usage=BIG, wrap_up="so far") for n in range(40)]
"""A child that would go on for ever."""


def tasks(count: int, profile: str = "researcher") -> Any:
    return batch(*[{"profile": profile, "task": f"part {n}"} for n in range(count)])


async def test_the_outermost_limit_is_named_and_its_owner_is_in_the_record(harness: Harness) -> None:
    harness.profile("lead", "maxTokenBudget: 60000", "subAgents: [worker]")
    harness.profile("worker", "maxTokenBudget: 50000")
    script = {
        "a": [Say("", [delegate("lead", "all")]), Say("fin")],
        "a.1": [Say("", [delegate("worker", "deep")], usage=Usage(input=25_000, cache_read=1)), Say("lead's end")],
        "a.1.1": ON,
    }
    s = await harness.ran(script)
    end = s.finished("a.1.1")
    granted = s.of(AgentStarted, "a.1.1")[0].tokens
    assert granted < 50_000, "no more than its parent had left"
    assert (end.stop_reason, end.limit_of) == ("tokens", "a.1")
    assert "(a.1.1): completed (tokens of a.1)" in s.results("a.1")[0]


async def test_the_sessions_limit_ends_the_whole_tree(harness: Harness) -> None:
    script = {"a": [Say("", [tasks(3)]), Say("fin")], "*": ON}
    s = await harness.ran(script, flags={"limits.max_tokens": 60_000})
    assert {s.finished(p).limit_of for p in s.agents()} == {"a"}
    assert {s.end(p)[1] for p in s.agents()} == {"tokens"}
    assert s.finished("a").tree_usage.billed <= 60_000 + 4 * BIG.billed, "at most one reply too much per running agent"


async def test_a_cost_limit_that_cannot_be_kept_is_refused_and_sets_nothing_aside(harness: Harness) -> None:
    harness.profile("dear", "maxCost: 0.03")
    async with harness.open(
        {"a": [Say("", [delegate("dear", "look")] * 20), Say("fin")]}, flags={"limits.max_tokens": 90_000}
    ) as s:
        await s.session.prompt("go")
        assert "The price of scripted/stage is unknown, so a cost limit cannot be kept." in s.results()[0]
        assert s.root.budget.tokens.holdback == 0


@pytest.mark.parametrize(("default", "tokens"), [(12_345, 12_345), (30_000, 20_000)])
async def test_what_a_child_gets_is_what_the_settings_say(harness: Harness, default: int, tokens: int) -> None:
    budget = f"[agents.delegation.token_budget]\ndefault = {default}\nmax = 20_000\n"
    harness.config(f"[agents.delegation]\ndefault_timeout = 77\n{budget}")
    harness.profile("plain", "allowedTools: [read_file]")
    harness.profile("grand", "maxTokenBudget: 90_000", "timeout: 88")
    s = await harness.ran({"a": [Say("", [delegate("plain", "x"), delegate("grand", "y")]), Say("fin")]})
    granted = {e.profile: (e.time_s, e.tokens) for p in ("a.1", "a.2") for e in s.of(AgentStarted, p)}
    assert granted == {"plain": (77, tokens), "grand": (88, 20_000)}


async def test_time_that_an_agent_waits_for_a_person_does_not_count(harness: Harness) -> None:
    harness.profile("quick", "timeout: 30", "allowedTools: [bash]")
    script = {
        "a": [Say("", [delegate("quick", "x")]), Say("fin")],
        "a.1": [Say("", [call("bash", command="make")]), Say("ok")],
    }
    async with harness.open(script, mode="ask", attended=True) as s:
        asking = asyncio.ensure_future(s.session.prompt("go"))
        await until(lambda: s.of(PermissionAsked))
        await asyncio.sleep(5000)
        await s.session.answer(s.of(PermissionAsked)[0].id, ApprovalAnswer("deny"))
        await asking
        assert s.end("a.1") == ("completed", "done")


async def test_the_limits_of_a_prompt_hold_for_children_too(harness: Harness) -> None:
    script = {
        "a": [Say("", [delegate("researcher", "x")]), Say("late")],
        "a.1": [Say("never", delay_s=1000), Say("so far")],
    }
    async with harness.open(script, flags={"limits.timeout": 40}) as s:
        outcome = await s.session.prompt("go")
        assert (outcome.status, outcome.stop_reason, outcome.limit_of) == ("timeout", "time", "a")
        assert s.end("a.1") == ("cancelled", "parent")


async def test_delegation_can_be_switched_off(harness: Harness) -> None:
    harness.config("[agents.delegation]\nenabled = false\n")
    async with harness.open({"a": [Say("", [delegate("researcher", "x")]), Say("alone")]}) as s:
        assert (await s.session.prompt("go")).text == "alone"
        assert not [t.name for t in s.requests()[0].tools if "sub_agent" in t.name or "delegat" in t.name]
        assert s.results()[0].startswith("denied: There is no tool 'delegate_task'")
        assert s.agents() == []


async def test_a_caller_lowers_and_never_raises(harness: Harness) -> None:
    harness.profile("small", "maxTokenBudget: 15000", "maxIterations: 4", "timeout: 60")
    wish = {"max_tokens": 10**6, "max_iterations": 99, "timeout_s": 86_400}
    script = {
        "a": [
            Say(
                "",
                [
                    delegate("small", "x", **wish),
                    delegate("small", "y", max_tokens=12_000, max_iterations=2, timeout_s=9),
                ],
            )
        ]
    }
    s = await harness.ran(script)
    granted = [(e.tokens, e.turns, e.time_s) for p in ("a.1", "a.2") for e in s.of(AgentStarted, p)]
    assert granted == [(15_000, 4, 60), (12_000, 2, 9)]


async def test_a_budget_too_small_to_be_useful_is_said_and_not_raised(harness: Harness) -> None:
    """Also where that is because the parent has little left."""
    wishes = [delegate("researcher", task, max_tokens=most) for task, most in (("x", 4000), ("y", 10_000), ("z", 1))]
    s = await harness.ran({"a": [Say("", wishes)]})
    few = "has 4,000 tokens. With fewer than 10,000 a sub-agent seldom returns a result."
    assert Notice(f"a.1 (researcher) {few}", "warning") in s.of(Notice, "a.1")
    assert s.of(Notice, "a.3")[0].text.startswith("a.3 (researcher) has 1 token. ")
    assert (s.of(AgentStarted, "a.1")[0].tokens, s.of(Notice, "a.2")) == (4000, [])
    script = {"a": [Say("", [delegate("researcher", "x")], usage=Usage(input=10_000)), Say("fin")]}
    s = await harness.ran(script, flags={"limits.max_tokens": 20_000})
    assert "a.1 (researcher) has 8,000 tokens" in s.of(Notice, "a.1")[0].text


async def test_more_than_twenty_agents_in_one_turn_of_the_user_ask_a_person_first(harness: Harness) -> None:
    script = {
        "a": [Say("", [tasks(10)]), Say("", [tasks(10)]), Say("", [delegate("researcher", "one more")]), Say("fin")]
    }
    async with harness.open(Actors(script, price=1e-6), attended=True) as s:
        asking = asyncio.ensure_future(s.session.prompt("go"))
        await until(lambda: s.of(PermissionAsked))
        (asked,) = s.of(PermissionAsked)
        reason = "more than 20 agents in one turn; researcher on scripted/stage: usual cost unknown (no runs yet)"
        assert (len(s.agents()), asked.reason) == (20, reason)
        assert asked.subject == "1 more agent, 21 in this turn; at most about $1.05"
        assert s.root.slot.status == "waiting_user"
        await s.session.answer(asked.id, ApprovalAnswer("allow"))
        await asking
        assert len(s.agents()) == 21


@pytest.mark.parametrize("attended", [True, False])
async def test_a_no_starts_nothing_and_the_model_is_told_why(harness: Harness, attended: bool) -> None:
    script = {"a": [Say("", [tasks(10)]), Say("", [tasks(10)]), Say("", [tasks(3)]), Say("fin")]}
    async with harness.open(script, attended=attended) as s:
        asking = asyncio.ensure_future(s.session.prompt("go"))
        if attended:
            await until(lambda: s.of(PermissionAsked))
            await s.session.answer(s.of(PermissionAsked)[0].id, ApprovalAnswer("deny", reason="too many"))
        await asking
    assert len(s.agents()) == 20
    if attended:
        refused = "error: The user declined 3 more agents, 23 in this turn; at an unknown price. too many"
        assert s.results()[2] == refused
    else:
        assert "That is more than 20 agents in one turn, and no person can be asked here." in s.results()[2]


async def test_each_turn_of_the_user_counts_anew_and_deeper_agents_count_too(harness: Harness) -> None:
    harness.config("[agents.delegation]\nask_above = 4\n")
    harness.profile("lead", "subAgents: [researcher]")

    def play(request: Request, count: int) -> Say:
        if request.agent == "a" and count in (0, 2):
            return Say("", [tasks(2, "lead")])
        if request.agent.count(".") == 1 and count == 0:
            return Say("", [tasks(2)])
        return Say("fin")

    async with harness.open(play) as s:
        await s.session.prompt("go")
        assert len(s.agents()) == 4, "the second lead's helpers would have been five and six"
        await s.session.prompt("go on")
        assert len(s.agents()) == 8


@pytest.mark.parametrize(("price", "asks"), [(1e-6, False), (1e-5, True), (None, True)])
async def test_an_estimate_above_the_cost_in_the_settings_asks_first(
    harness: Harness, price: float | None, asks: bool
) -> None:
    harness.config("[agents.delegation]\nask_above_cost = 1.0\n")
    s = await harness.ran(Actors({"a": [Say("", [tasks(3)]), Say("fin")]}, price=price))
    assert (len(s.agents()) == 0) is asks
    if asks:
        words = "at an unknown price. That is possibly " if price is None else "at most about $1.50. That is "
        assert f"{words}more than $1.00, and no person" in s.results()[0]


async def test_a_session_has_a_last_agent(harness: Harness) -> None:
    harness.config("[agents.delegation]\nmax_agents = 3\n")
    s = await harness.ran({"a": [Say("", [tasks(5)]), Say("fin")]})
    assert len(s.agents()) == 3
    assert s.results()[0].count("This session has had 3 agents, which is its limit.") == 2
    session = s.session.id
    s = await harness.ran({"a": [Say("", [tasks(1)]), Say("fin")]}, resume=session)
    assert "This session has had 3 agents" in s.results()[-1], "those of earlier processes count"
