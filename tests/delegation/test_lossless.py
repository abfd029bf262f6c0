"""What a sub-agent has finished reaches its parent, however the parent's call or process ends."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from friday_cli.core.eventlog.replay import replay
from friday_cli.core.protocol.errors import BudgetSpent, ProviderError, UsageError
from friday_cli.core.protocol.events import AgentFinished, AgentStarted, Detached, ToolFinished
from friday_cli.core.protocol.limits import Limits
from friday_cli.core.protocol.messages import Usage
from friday_cli.frontends.oneshot.output import _agent
from friday_cli.view import SessionView
from tests.delegation.harness import Actors, Harness, ScriptedSession, until
from tests.engine_fixture import Say, batch, call, delegate
from tests.strict import strict

TEAM = batch(*({"profile": "researcher", "task": task} for task in ("quick", "slow")))
QUICK = [Say("", [call("task_result", result="found **it**", findings=[])])]
SLOW = [Say("I looked at half of it", [call("todo", items=[])]), Say("never", delay_s=900)]
DONE = "## Result from 'researcher' (a.1): completed\n> found **it**\n"


async def died(harness: Harness, script: dict[str, list[Say]], when: Any) -> ScriptedSession:
    """A session whose process dies when `when(scene)` holds. A person could be asked."""
    async with harness.open(script, mode="ask", attended=True) as s:
        asking = asyncio.ensure_future(s.session.prompt("go"))
        await until(lambda: when(s))
        s.crash()
        await s.session.close()
        await asking
    return s


def read(s: ScriptedSession) -> list[str]:
    """The results in the newest request of the main agent, as "status: text"."""
    request = s.requests()[-1]
    assert strict(request.messages) == []
    return [f"{r.status}: {r.text}" for m in request.messages for r in m.results]


async def test_a_cancelled_lead_hands_back_what_its_sub_agents_have(harness: Harness) -> None:
    harness.profile("lead", "subAgents: [researcher]")
    script = {
        "a": [Say("", [delegate("lead", "all")]), Say("fin")],
        "a.1": [Say("", [TEAM]), Say("the best")],
        "a.1.1": QUICK,
        "a.1.2": SLOW,
    }
    async with harness.open(script) as s:
        asking = asyncio.ensure_future(s.session.prompt("go"))
        await until(lambda: s.of(AgentFinished, "a.1.1") and len(s.requests("a.1.2")) == 2)
        await s.session.stop("a.1", level="cancel")
        await asking
        assert (s.end("a.1"), s.finished("a.1").result) == (("cancelled", "cancelled"), "the best")
        last = s.requests("a.1")[-1]
        (result,) = [r for m in last.messages for r in m.results]
        assert result.status == "cancelled"
        assert result.text.startswith(f"# Task 1 of 2\n{DONE.replace('a.1', 'a.1.1')}---\n")
        assert (
            "# Task 2 of 2\n## Result from 'researcher' (a.1.2): stopped with its parent\n> I looked at half of it\n"
            in (result.text)
        )
        assert "delegate_id: a.1.2" in result.text


async def test_a_stop_while_a_long_result_is_summarized_still_returns_all(harness: Harness) -> None:
    harness.config('[agents.delegation]\nlong_results = "summary"\nresult_chars = 500\n')
    script = {
        "a": [Say("", [TEAM]), Say("fin")],
        "a.1": [Say("found " * 100)],
        "a.2": [Say("short")],
        "a.3": [Say("never", delay_s=900)],
    }
    async with harness.open(script, flags={"limits.timeout": 40}) as s:
        await s.session.prompt("go")
        (result,) = s.results()
        assert result.startswith(
            "cancelled: # Task 1 of 2\n## Result from 'researcher' (a.1): completed\n> found found"
        )
        assert "(a.2): completed\n> short\n" in result


@pytest.mark.parametrize("old", [False, True])
async def test_after_a_kill_each_call_has_the_result_that_the_log_has(harness: Harness, old: bool) -> None:
    """Also in the log of a version that did not write the result at the end of a call."""
    harness.file("x.txt", "content of x")
    calls = [
        TEAM,
        delegate("researcher", "alone"),
        call("read_file", path="x.txt", description="Look."),
        call("ask_user", question="Which?"),
    ]
    script = {
        "a": [Say("", [*calls, call("write_file", path="y.txt", content="y")]), Say("fin")],
        "a.1": QUICK,
        "a.2": SLOW,
        "a.3": [Say("the third")],
    }

    def cut(s: ScriptedSession) -> bool:
        ended = {event.tool for event in s.of(ToolFinished, "a")}
        return (
            {"delegate_task", "read_file"} <= ended and len(s.requests("a.2")) == 2 and bool(s.of(AgentFinished, "a.1"))
        )

    before = await died(harness, script, cut)
    if old:
        kept = before.journal.envelopes
        kept[:] = [
            type(e)(e.seq, e.at, e.agent, type(e.event)(*_fields(e.event))) if isinstance(e.event, ToolFinished) else e
            for e in kept
        ]
    runs = len(before.of(AgentStarted))
    async with harness.open({"a": [Say("fin"), Say("fin")]}, resume=before.session.id) as s:
        await s.session.prompt("and now?")
        both, alone, file, running, waiting = read(s)
        assert both.startswith("cancelled: The process ended while this call ran.")
        assert DONE in both
        assert "## Result from 'researcher' (a.2): interrupted\n" in both
        assert "\n> I looked at half of it\n" in both
        assert "delegate_id: a.2" in both
        assert "## Result from 'researcher' (a.3): completed\n> the third\n" in alone
        if not old:
            assert alone.startswith("ok: ## Result")
            assert file == "ok: 1\tcontent of x\n[Left out, not an argument of this tool: description]"
        else:
            assert file.startswith("cancelled: It had ended (ok) when its process ended.")
        assert running.startswith("cancelled: It was running when its process ended.")
        assert waiting == "cancelled: The process ended before this call was run."
        assert len(s.of(AgentStarted)) == runs + 1, "nothing is run again"
        first = s.requests()[-1].messages[:3]
        await s.session.prompt("and then?")
        assert s.requests()[-1].messages[:3] == first
    async with harness.open({"a": [Say("fin")]}, resume=before.session.id) as s:
        await s.session.prompt("and later?")
        assert s.requests()[-1].messages[:3] == first, "each later process reads the same"


def _fields(event: ToolFinished) -> tuple[Any, ...]:
    return event.call_id, event.tool, event.status, event.duration_s, event.display, event.facts


async def test_an_interrupted_lead_reads_after_its_continuation_what_its_own_had_finished(harness: Harness) -> None:
    harness.profile("lead", "subAgents: [researcher]")
    script = {"a": [Say("", [delegate("lead", "all")])], "a.1": [Say("", [TEAM])], "a.1.1": QUICK, "a.1.2": SLOW}
    s = await died(harness, script, lambda s: s.of(AgentFinished, "a.1.1") and len(s.requests("a.1.2")) == 2)
    async with harness.open({"a.1": [Say("all of it")]}, resume=s.session.id) as s:
        assert (await s.session.result(await s.session.start_agent("a.1", "continue"))).text == "all of it"
        (result,) = [r.text for m in s.requests("a.1")[-1].messages for r in m.results]
        assert DONE.replace("a.1", "a.1.1") in result
        assert "(a.1.2): interrupted" in result


async def test_an_end_that_such_a_result_reports_is_not_reported_again(harness: Harness) -> None:
    """The call returned because its sub-agent went to the background; another one read its result."""
    look = call("get_delegation_result", id="a.1")
    script = {
        "a": [Say("", [delegate("researcher", "x")]), Say("", [look, call("ask_user", question="Which?")])],
        "a.1": [Say("found it", delay_s=20)],
    }

    async with harness.open(script, attended=True) as s:
        asking = asyncio.ensure_future(s.session.prompt("go"))
        await until(lambda: s.requests("a.1"))
        await s.session.detach("a.1")
        assert s.of(Detached, "a.1")
        await until(lambda: len([e for e in s.of(ToolFinished, "a") if e.tool == look.name]) == 1)
        s.crash()
        await s.session.close()
        await asking
    assert replay(s.envelopes)["a"].history[-1].results[0].status == "ok"


async def test_a_spent_child_is_refused_before_its_run_and_keeps_its_result(harness: Harness) -> None:
    harness.profile("small", "maxTokenBudget: 12000")
    again = call("delegate_task", resume="a.1", task="go on")
    script = {
        "a": [
            Say("", [delegate("small", "look " * 400)]),
            Say("", [again]),
            Say("", [call("get_delegation_result", id="a.1")]),
            Say("fin"),
        ],
        "a.1": [Say("found it", usage=Usage(input=10_000)), Say("and more")],
    }
    async with harness.open(script) as s:
        await s.session.prompt("go")
        _, refused, kept = s.results()
        assert refused.startswith("error: a.1 was not continued: its conversation may count as ")
        assert " tokens, and its budget has room for " in refused
        assert refused.endswith("Give it max_tokens from what you have left.")
        assert "> found it" in kept
        assert len(s.of(AgentStarted, "a.1")) == 1, "no run was begun"
        assert s.tree.root.budget.tokens.holdback == 0
        with pytest.raises(BudgetSpent) as caught:
            await s.session.result(await s.session.start_agent("a.1", "go on"))
        assert caught.value.needed > 2000
        outcome = await s.session.result(
            await s.session.start_agent("a.1", "go on", limits=Limits(2 * caught.value.needed))
        )
        assert outcome.text == "and more"


CAPPED = "It cannot get more: maxTokenBudget of its profile or agents.delegation.token_budget.max is the limit."


@pytest.mark.parametrize(("front", "cap", "limit", "more", "why"), [
    ("maxCost: 1.25", 200_000, None, 50_000, "; the cost limit of a.1 has room for $0.1"),
    ("maxCost: 1.25", 200_000, None, None, "; the cost limit of a.1 has room for $0.1"),
    ("maxTokenBudget: 50000", 200_000, 13_000, 50_000, "and the token budget of a has room for "),
    ("maxTokenBudget: 50000", 200_000, 13_000, None, "and the token budget of a has room for "),
    ("maxTokenBudget: 2000", 200_000, None, 50_000, CAPPED),
    ("maxTokenBudget: 12000", 13_000, None, 50_000, CAPPED),
    ("maxTokenBudget: 10000", 10_200, None, 50_000, CAPPED),
    ("maxTokenBudget: 12000", 13_000, None, 500, "Give it more tokens (--max-tokens)."),
])  # fmt: skip
async def test_more_tokens_are_asked_for_only_where_they_help(
    harness: Harness, front: str, cap: int, limit: int | None, more: int | None, why: str
) -> None:
    """The cost limit has $0.25 left, of which a tenth of the limit is kept for the last turn."""
    harness.profile("small", front)
    harness.config(f"[agents.delegation.token_budget]\nmax = {cap}\ndefault = {min(cap, 50_000)}\n")
    script = {
        "a": [Say("", [delegate("small", "look " * 1600)]), Say("fin")],
        "a.1": [Say("found it", usage=Usage(input=10_000))],
    }
    async with harness.open(Actors(script, price=1e-4), flags={"limits.max_tokens": limit}) as s:
        await s.session.prompt("go")
        with pytest.raises(UsageError) as caught:
            await s.session.result(await s.session.start_agent("a.1", "go on", limits=Limits(more)))
        assert why in str(caught.value)
        assert isinstance(caught.value, BudgetSpent) is why.startswith("Give it more")
        assert len(s.of(AgentStarted, "a.1")) == 1


@pytest.mark.parametrize("later", [False, True], ids=["in the same process", "in a later one"])
async def test_a_failed_continuation_leaves_the_earlier_result(harness: Harness, later: bool) -> None:
    again = call("delegate_task", resume="a.1", task="go on")
    look = call("get_delegation_result", id="a.1")
    refused = ProviderError("auth", "no key")
    first = {"a": [Say("", [delegate("researcher", "x")]), Say("one")], "a.1": [Say("found it")]}
    second = {"a": [Say("", [again]), Say("", [look]), Say("two")], "a.1": [Say("", fail=refused), Say("better")]}
    if later:
        s = await harness.ran(first)
        s = await harness.ran(second, resume=s.session.id)
        s = await harness.ran({"a": [Say("", [look]), Say("three")]}, resume=s.session.id)
    else:
        joined = {path: first[path] + second[path] for path in first}
        async with harness.open(Actors(joined)) as s:
            await s.session.prompt("go")
            await s.session.prompt("again")
    for text in s.results()[1:]:
        assert "## Result from 'researcher' (a.1): failed (provider)\nerror: no key\n" in text
        assert "Result of its earlier run:\n> found it\n---" in text
    agent = SessionView.of(s.envelopes).agents["a.1"]
    document = _agent("s", SessionView.of(s.envelopes), agent)
    assert (document["status"], document["result"], document["earlier_result"]) == ("failed", "", "found it")
    assert json.dumps(document)


async def test_a_batch_whose_tasks_all_failed_is_an_error_and_one_success_makes_it_ok(harness: Harness) -> None:
    broken = [Say("", fail=ProviderError("auth", "no key"))]
    script = {
        "a": [Say("", [TEAM]), Say("", [TEAM]), Say("fin")],
        "a.1": broken,
        "a.2": broken,
        "a.3": broken,
        "a.4": [Say("found it")],
    }
    s = await harness.ran(script)
    all_failed, one_failed = s.results()
    assert all_failed.startswith("error: # Task 1 of 2\n")
    assert one_failed.startswith("ok: # Task 1 of 2\n")
    assert "> found it" in one_failed


async def test_a_child_has_twenty_turns_unless_its_profile_or_its_call_says_otherwise(harness: Harness) -> None:
    def play(request: Any, count: int) -> Say:
        if request.agent == "a":
            return Say("", [delegate("plain", "x")]) if count == 0 else Say("fin")
        return Say("on", [call("todo", items=[{"text": f"step {count}"}])], wrap_up="so far")

    harness.profile("plain")
    s = await harness.ran(play)
    assert s.of(AgentStarted, "a.1")[0].turns == 20
    assert s.end("a.1") == ("completed", "iterations")
    assert len(s.requests("a.1")) == 20 + 1, "and the wrap-up"


async def test_a_grandchild_that_was_resumed_is_in_the_result_after_a_kill(harness: Harness) -> None:
    harness.profile("lead", "subAgents: [researcher]")
    again = call("delegate_task", resume="a.1.1", task="go on")
    script = {
        "a": [Say("", [delegate("lead", "all")]), Say("", [again])],
        "a.1": [Say("", [delegate("researcher", "x")]), Say("led")],
        "a.1.1": [Say("found it"), *SLOW],
    }
    before = await died(harness, script, lambda s: len(s.requests("a.1.1")) == 3)
    async with harness.open({"a": [Say("fin")]}, resume=before.session.id) as s:
        await s.session.prompt("and now?")
        resumed = read(s)[-1]
        assert "## Result from 'researcher' (a.1.1): interrupted\n" in resumed
        assert "\n> I looked at half of it\n" in resumed


async def test_what_a_person_continued_before_a_kill_is_in_the_result_of_the_call_that_started_it(
    harness: Harness,
) -> None:
    script = {"a": [Say("", [TEAM])], "a.1": [*QUICK, *SLOW], "a.2": SLOW}
    async with harness.open(script) as s:
        asking = asyncio.ensure_future(s.session.prompt("go"))
        await until(lambda: s.of(AgentFinished, "a.1") and len(s.requests("a.2")) == 2)
        await s.session.start_agent("a.1", "continue")
        await until(lambda: len(s.requests("a.1")) == 3)
        s.crash()
        await s.session.close()
        await asking
    async with harness.open({"a": [Say("fin")]}, resume=s.session.id) as s:
        await s.session.prompt("and now?")
        (both,) = read(s)
        assert "## Result from 'researcher' (a.1): interrupted\n" in both
        assert "Result of its earlier run:\n> found **it**\n" in both
        assert "## Result from 'researcher' (a.2): interrupted\n" in both


async def test_what_a_person_continues_after_a_kill_changes_no_result_that_was_read(harness: Harness) -> None:
    script = {"a": [Say("", [TEAM])], "a.1": QUICK, "a.2": SLOW}
    before = await died(harness, script, lambda s: s.of(AgentFinished, "a.1") and len(s.requests("a.2")) == 2)
    async with harness.open({"a": [Say("fin")], "*": [Say("more")]}, resume=before.session.id) as s:
        for path in ("a.1", "a.2"):
            await s.session.result(await s.session.start_agent(path, "continue"))
        await s.session.prompt("and now?")
        first = s.requests()[-1].messages[:3]
        assert DONE in first[2].results[0].text
    async with harness.open({"a": [Say("fin")]}, resume=before.session.id) as s:
        await s.session.prompt("and later?")
        assert s.requests()[-1].messages[:3] == first


async def test_a_rewind_after_a_kill_leaves_the_results_that_were_read(harness: Harness) -> None:
    script = {"a": [Say("", [TEAM])], "a.1": QUICK, "a.2": SLOW}
    before = await died(harness, script, lambda s: s.of(AgentFinished, "a.1") and len(s.requests("a.2")) == 2)
    async with harness.open({"a": [Say("fin")] * 3}, resume=before.session.id) as s:
        await s.session.prompt("and now?")
        first = s.requests()[-1].messages[:3]
        await s.session.prompt("and then?")
        await s.session.rewind.to(3, "conversation")
        await s.session.prompt("and instead?")
        assert s.requests()[-1].messages[:3] == first
        assert DONE in first[2].results[0].text


@pytest.mark.parametrize("field", ["result", "answer"])
async def test_a_result_that_was_handed_in_right_before_a_kill_is_the_text_of_the_agent(
    harness: Harness, field: str
) -> None:
    """Also under a name that the argument has in other programs."""
    returned = [Say("", [call("task_result", **{field: "found **it**"})])]
    script = {"a": [Say("", [delegate("researcher", "x")])], "a.1": returned}
    before = await died(harness, script, lambda s: s.of(AgentFinished, "a.1"))
    kept = before.journal.envelopes
    del kept[next(n for n, e in enumerate(kept) if isinstance(e.event, AgentFinished)) :]
    async with harness.open({"a": [Say("fin")]}, resume=before.session.id) as s:
        await s.session.prompt("and now?")
        assert (
            "(a.1): interrupted\nerror: The friday process that ran this agent ended.\n> found **it**\n" in (read(s)[0])
        )


async def test_a_report_after_a_kill_is_as_long_as_the_profile_allows(harness: Harness) -> None:
    harness.profile("terse", "resultChars: 600")
    script = {
        "a": [Say("", [batch({"profile": "terse", "task": "x"}, {"profile": "researcher", "task": "y"})])],
        "a.1": [Say("x" * 3500)],
        "a.2": SLOW,
    }
    before = await died(harness, script, lambda s: s.of(AgentFinished, "a.1") and len(s.requests("a.2")) == 2)
    async with harness.open({"a": [Say("fin")]}, resume=before.session.id) as s:
        await s.session.prompt("and now?")
        assert "continue with get_delegation_result(id='a.1', offset=390)" in read(s)[0]


async def test_a_result_is_kept_when_a_message_came_with_it_and_the_next_request_fails(harness: Harness) -> None:
    script = {
        "a": [Say("", [delegate("researcher", "x")]), Say("fin")],
        "a.1": [Say("I hand it in.", QUICK[0].calls, delay_s=10), Say("", fail=ProviderError("auth", "no key"))],
    }
    async with harness.open(script) as s:
        asking = asyncio.ensure_future(s.session.prompt("go"))
        await until(lambda: s.requests("a.1"))
        await s.session.send("a.1", "and look there, too")
        await asking
        (result,) = s.results()
        assert "failed (provider)\nerror: no key\n" in result
        assert "> found **it**\n" in result


async def test_a_result_that_a_service_hands_in_although_tools_are_disabled_is_the_wrap_up(harness: Harness) -> None:
    def play(request: Any, count: int) -> Say:
        if request.agent == "a":
            return Say("", [delegate("researcher", "x", max_iterations=1)]) if count == 0 else Say("fin")
        return Say("I hand it in.", QUICK[0].calls) if request.text_only else Say("", [call("todo", items=[])])

    s = await harness.ran(play)
    assert s.results()[0].startswith("ok: ## Result from 'researcher' (a.1): completed (turns)\n> found **it**\n---")


async def test_two_runs_without_text_leave_no_earlier_result(harness: Harness) -> None:
    refused = [Say("", fail=ProviderError("auth", f"no key {number}")) for number in (1, 2)]
    again = call("delegate_task", resume="a.1", task="go on")
    script = {"a": [Say("", [delegate("researcher", "x")]), Say("", [again]), Say("fin")], "a.1": refused}
    s = await harness.ran(script)
    assert "error: no key 2\n" in s.results()[1]
    assert "earlier run" not in s.results()[1]


async def test_the_notice_of_a_failed_run_names_the_earlier_result(harness: Harness) -> None:
    """Also when it is built from the log."""
    again = call("delegate_task", resume="a.1", task="go on", background=True)
    script = {
        "a": [Say("", [delegate("researcher", "x")]), Say("", [again]), Say("begun"), Say("fin")],
        "a.1": [Say("found it"), Say("", fail=ProviderError("auth", "no key"), delay_s=9)],
    }
    s = await harness.ran(script)
    news = s.heard()[-1]
    assert "error: no key\n" in news
    assert news.splitlines()[-2:] == [
        "The result of its earlier run is kept.",
        "All of it, with receipt and findings: get_delegation_result(id='a.1').",
    ]
    log = s.envelopes[: max(n for n, e in enumerate(s.envelopes) if e.agent == "a.1") + 1]
    assert [f"harness: {told.text}" for told in replay(log)["a.1"].unreported] == [news]


async def test_the_text_of_a_failed_run_refers_to_no_page_of_the_earlier_result(harness: Harness) -> None:
    harness.config("[agents.delegation]\nresult_chars = 1000\n")
    again = call("delegate_task", resume="a.1", task="go on")
    script = {
        "a": [Say("", [delegate("researcher", "x")]), Say("", [again]), Say("fin")],
        "a.1": [Say("found it"), Say("half " * 100, fail=ProviderError("auth", "no key"))],
    }
    s = await harness.ran(script)
    first, _, rest = s.results()[1].partition("Result of its earlier run:\n")
    assert rest.startswith("> found it\n---")
    assert "half" in first
    assert "offset" not in first
