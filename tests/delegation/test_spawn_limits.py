"""Asking before there are too many: at the number or the price in the settings, and again at each multiple of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from friday_cli.core.limits.forecast import PastRun
from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.permissions.rule import Decision, parse_rule
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.events import AgentFinished, AgentStarted, PermissionAsked
from friday_cli.core.tool_catalog import TOOLS
from tests.delegation.harness import Actors, Harness, MemoryStore, ScriptedSession, until
from tests.engine_fixture import Say, batch, delegate

YES, NO = ApprovalAnswer("allow"), ApprovalAnswer("deny", reason="too many")


def tasks(count: int, profile: str = "researcher") -> list[object]:
    return [batch(*[{"profile": profile, "task": f"part {n}"} for n in range(count)])]


async def answered(s: ScriptedSession, *answers: ApprovalAnswer) -> list[str]:
    """What a turn of the user asks a person, each question answered in order, without the forecasts."""
    asking: Awaitable[object] = asyncio.ensure_future(s.session.prompt("go"))
    before = len(s.of(PermissionAsked))
    for number, answer in enumerate(answers, before + 1):
        await until(lambda number=number: len(s.of(PermissionAsked)) == number)  # type: ignore[misc]
        await s.session.answer(s.of(PermissionAsked)[-1].id, answer)
    await asking
    assert not any(asked.rule for asked in s.of(PermissionAsked)), "no rule allows more agents"
    return [asked.reason.partition(";")[0] for asked in s.of(PermissionAsked)[before:]]


@pytest.mark.parametrize(("settings", "price", "counts", "reasons"), [
    ("ask_above = 4", None, (4, 1, 1, 2, 1, 3), ["more than 4 agents in one turn", "more than 8 agents in one turn"]),
    ("ask_above = 0", None, (1, 1), ["more than 0 agents in one turn", "more than 1 agents in one turn"]),
    ("ask_above_cost = 1.0", 1e-5, (2, 1, 1, 1), ["more than $1.00", "more than $2.00"]),
    ("ask_above_cost = 1.0", None, (2, 2), ["possibly more than $1.00"]),
], ids=["a number", "each one", "a price", "an unknown price, for the turn"])  # fmt: skip
async def test_a_yes_holds_until_the_next_multiple(
    harness: Harness, settings: str, price: float | None, counts: tuple[int, ...], reasons: list[str]
) -> None:
    harness.config(f"[agents.delegation]\n{settings}\n")
    script = {"a": [Say("", tasks(n)) for n in counts]}
    async with harness.open(Actors(script, price=price), attended=True) as s:
        assert await answered(s, *[YES for _ in reasons]) == reasons
        assert len(s.agents()) == sum(counts)


async def test_what_was_refused_or_could_not_be_started_counts_neither_in_number_nor_in_price(harness: Harness) -> None:
    """Half a dollar each: two may be started for one, whatever was tried before."""
    harness.config("[agents.delegation]\nask_above = 4\nask_above_cost = 1.0\n")
    ghosts = [Say("", tasks(2, "ghost")), Say("", tasks(2, "spectre")), Say("", tasks(2, "shade"))]
    script = {"a": [*ghosts, Say("", tasks(3)), Say("", tasks(2)), Say("fin")]}
    async with harness.open(Actors(script, price=1e-5), attended=True) as s:
        assert await answered(s, NO) == ["more than $1.00"]
        assert s.results()[3].startswith("error: The user declined 3 more agents, 3 in this turn; at most about $1.50.")
        assert len(s.agents()) == 2


@pytest.mark.parametrize(("answer", "count"), [(YES, 7), (NO, 4)])
async def test_calls_of_one_reply_that_are_too_many_together_ask_once(
    harness: Harness, answer: ApprovalAnswer, count: int
) -> None:
    harness.config("[agents.delegation]\nask_above = 4\n")
    script = {"a": [Say("", [delegate("researcher", f"part {n}") for n in range(7)]), Say("fin")]}
    async with harness.open(script, attended=True) as s:
        assert len(await answered(s, answer)) == 1
        assert len(s.agents()) == count
        assert sum(result.startswith("error: The user declined 1 more agent,") for result in s.results()) == 7 - count


async def test_who_waits_for_the_answer_to_anothers_question_asks_itself_when_that_one_is_stopped(
    harness: Harness,
) -> None:
    harness.config("[agents.delegation]\nask_above = 2\n")
    harness.profile("lead", "subAgents: [researcher]")
    script = {
        "a": [Say("", [delegate("lead", "one"), delegate("lead", "two")]), Say("fin")],
        "a.1": [Say("", [delegate("researcher", "a part of it")]), Say("x")],
        "a.2": [Say("", [delegate("researcher", "a part of it")], delay_s=1), Say("x")],
    }
    async with harness.open(script, attended=True) as s:
        asking = asyncio.ensure_future(s.session.prompt("go"))
        await until(lambda: s.of(PermissionAsked, "a.1") and s.tree.known("a.2").status == "waiting_user")  # type: ignore[union-attr]
        assert not s.of(PermissionAsked, "a.2")
        await s.session.stop("a.1")
        await until(lambda: s.of(PermissionAsked, "a.2"))
        await s.session.answer(s.of(PermissionAsked, "a.2")[0].id, YES)
        await asking
        assert s.end("a.1") == ("cancelled", "aborted")
        assert len(s.of(AgentFinished, "a.2.1")) == len(s.of(AgentStarted, "a.2.1")) == 1


@pytest.mark.parametrize(("costs", "decision", "answers", "outcome"), [
    ([], "deny", [], "Not started: 2 agents, of unknown cost: the usual cost exceeds the rule"),
    ([0.2], "deny", [], ""),
    ([0.9], "deny", [], "Not started: 2 agents, usually up to $"),
    ([0.9], "ask", [YES], ""),
    ([0.9], "ask", [NO], "The user declined 2 agents, usually up to $"),
], ids=["unknown", "below", "above", "a yes", "a no"])  # fmt: skip
async def test_a_rule_reads_what_delegations_usually_cost(
    harness: Harness,
    monkeypatch: pytest.MonkeyPatch,
    costs: list[float],
    decision: str,
    answers: list[ApprovalAnswer],
    outcome: str,
) -> None:
    harness.config(f'[permissions]\n{decision} = ["delegate_task(estimate>1.00)"]\n')
    monkeypatch.setattr(
        MemoryStore, "runs", [PastRun("researcher", 6, 1_000, cost, 1.0) for cost in costs for _ in range(30)]
    )
    async with harness.open(Actors({"a": [Say("", tasks(2)), Say("fin")]}, price=1e-5), attended=True) as s:
        reasons = await answered(s, *answers)
        assert all("delegate_task(estimate>1.00)" in reason for reason in reasons)
        assert outcome in s.results()[0]
        assert len(s.agents()) == (0 if outcome else 2)


async def test_a_rule_about_costs_is_a_refusal_where_no_person_can_be_asked(harness: Harness) -> None:
    harness.config('[permissions]\nask = ["delegate_task(estimate>1.00)"]\n')
    async with harness.open(Actors({"a": [Say("", tasks(1)), Say("fin")]})) as s:
        await s.session.prompt("go")
        assert "no person can be asked here" in s.results()[0]
        assert not s.agents()


@pytest.mark.parametrize(("text", "decision"), [
    ("delegate_task(estimate>0.5)", "allow"), ("delegate_task(estimate>much)", "ask"), ("bash(estimate>1)", "deny"),
])  # fmt: skip
def test_a_rule_about_estimates_asks_or_denies_above_dollars(text: str, decision: Decision) -> None:
    with pytest.raises(UsageError) as wrong:
        parse_rule(text, decision, TOOLS)
    assert "estimate>0.50" in wrong.value.hint
    assert str(parse_rule("Task(estimate>$0.5)", "deny", TOOLS)) == "delegate_task(estimate>$0.5)"
