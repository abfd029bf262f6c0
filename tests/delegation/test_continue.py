"""Continuing a child that ended: its history, rights, depth, model and what is left of its budget."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from friday_cli.core.eventlog.notices import NOTE
from friday_cli.core.protocol.errors import ProviderError, UsageError
from friday_cli.core.protocol.events import AgentFinished, AgentStarted, MessageAdded, Notice
from friday_cli.core.protocol.limits import Limits
from friday_cli.core.protocol.messages import Usage
from tests.delegation.harness import Actors, Harness, until
from tests.engine_fixture import Say, call, delegate
from tests.strict import strict


def again(path: str, task: str = "go on", **more: Any) -> Any:
    return call("delegate_task", resume=path, task=task, **more)


@pytest.mark.parametrize(("first", "status"), [
    (Say("one"), "completed"),
    (Say("half", fail=ProviderError("auth", "no key")), "failed"),
    (Say("", [call("task_result", result="no", status="error")]), "failed"),
    (Say("late", delay_s=1000), "timeout"),
])  # fmt: skip
async def test_the_model_goes_on_with_a_child_however_it_ended(harness: Harness, first: Say, status: str) -> None:
    script = {
        "a": [
            Say("", [delegate("researcher", "look", timeout_s=50)]),
            Say("", [again("a.1", "and the rest")]),
            Say("fin"),
        ],
        "a.1": [first, *([Say("wrap")] if status == "timeout" else []), Say("two")],
    }
    s = await harness.ran(script)
    first_end, second_end = s.of(AgentFinished, "a.1")
    assert (first_end.run, first_end.status) == (1, status)
    assert (second_end.run, second_end.status, second_end.result) == (2, "completed", "two")
    last = s.requests("a.1")[-1]
    assert [m.text for m in last.messages if m.role == "user" and m.source == "parent"] == ["look", "and the rest"]
    assert strict(last.messages) == []
    assert s.agents() == ["a.1"], "it is the same agent"
    assert "## Result from 'researcher' (a.1): completed\n> two" in s.results()[1]


async def test_what_a_continued_child_claims_is_held_against_what_it_then_did(harness: Harness) -> None:
    harness.file("x.txt", "x\n")
    script = {
        "a": [
            Say("", [delegate("coder", "look")]),
            Say("", [again("a.1", "mend it")]),
            Say("", [again("a.1", "and?")]),
            Say("fin"),
        ],
        "a.1": [
            Say("nothing to see"),
            Say("", [call("todo", items=[]), call("read_file", path="x.txt")]),
            Say("I fixed it."),
            Say("As I said."),
        ],
    }
    s = await harness.ran(script)
    assert [end.receipt.warnings for end in s.of(AgentFinished, "a.1")] == [
        ("no tool was run: nothing in this result was checked",),
        ("claims changes, but no file was changed",),
        (),
    ]


async def test_an_aborted_child_is_continued_only_when_asked(harness: Harness) -> None:
    script = {
        "a": [
            Say("", [delegate("researcher", "look", background=True)]),
            Say("", [call("cancel_sub_agent", id="a.1", mode="abort")]),
            Say("stopped"),
            Say("", [again("a.1")]),
            Say("fin"),
        ],
        "a.1": [Say("never", delay_s=1000), Say("now")],
    }
    async with harness.open(script) as s:
        await s.session.prompt("go")
        await asyncio.sleep(10_000)
        assert len(s.of(AgentStarted, "a.1")) == 1, "nothing ended starts again by itself"
        assert (await s.session.prompt("continue it")).text == "fin"
        assert s.finished("a.1").result == "now"


async def test_a_continued_child_has_the_rights_and_prefix_that_it_had(harness: Harness) -> None:
    harness.file("x.txt", "x\n")
    harness.profile("reader", "allowedTools: [read_file]", body="Read only.")
    script = {"a": [Say("", [delegate("reader", "look")]), Say("first")], "a.1": [Say("one")]}
    s = await harness.ran(script)
    (before,) = s.requests("a.1")
    harness.profile(
        "reader", "allowedTools: [read_file, bash, write_file]", "subAgents: [coder]", body="Do as you like."
    )
    script = {
        "a": [Say("", [again("a.1")]), Say("second")],
        "a.1": [
            Say(
                "",
                [
                    call("bash", command="id"),
                    call("write_file", path="y", content="y"),
                    delegate("coder", "x"),
                    call("read_file", path="x.txt"),
                ],
            ),
            Say("two"),
        ],
    }
    s = await harness.ran(script, resume=s.session.id, prompt="go on")
    after = s.requests("a.1")[0]
    assert (after.system, after.tools) == (before.system, before.tools)
    assert [r.split(":")[0] for r in s.results("a.1")] == ["denied", "denied", "denied", "ok"]
    assert not (harness.project / "y").exists()
    assert s.of(AgentStarted, "a.1")[1].tools == s.of(AgentStarted, "a.1")[0].tools


async def test_a_continued_child_keeps_its_model(harness: Harness) -> None:
    harness.profile("cheap", "model: anthropic/claude-haiku-4-5")
    harness.env["ANTHROPIC_API_KEY"] = "sk-canary-0123456789"
    async with harness.open({"a": [Say("", [delegate("researcher", "look")]), Say("x"), Say("", [again("a.1")])]}) as s:
        await s.session.prompt("go")
        s.root.conversation.provider = other = Actors(
            {"a": [Say("", [again("a.1")])], "a.1": [Say("two")]}, model="other"
        )
        await s.session.prompt("continue it")
        assert [r.agent for r in other.requests] == ["a", "a.1", "a"]
        words = s.of(Notice, "a.1")[-1].text
        assert words.startswith("a.1 resumes with scripted/other instead of scripted/stage: "), (
            "a model that cannot be had is said"
        )


async def test_tokens_are_those_of_its_life_and_its_children_count(harness: Harness) -> None:
    harness.profile("lead", "maxTokenBudget: 40000", "subAgents: [researcher]")
    script = {
        "a": [Say("", [delegate("lead", "all")]), Say("", [again("a.1")]), Say("", [again("a.1")]), Say("fin")],
        "a.1": [
            Say("", [delegate("researcher", "deep")], usage=Usage(input=4000)),
            Say("one", usage=Usage(output=1000)),
            Say("two", usage=Usage(input=3000)),
            Say("three", usage=Usage(input=1000)),
        ],
        "a.1.1": [Say("deep", usage=Usage(input=20_000))],
    }
    s = await harness.ran(script)
    granted = [e.tokens for e in s.of(AgentStarted, "a.1")]
    assert granted == [40_000] * 3, "what was granted for its life does not grow by continuing"
    assert s.finished("a.1").tree_usage.billed == 4000 + 1000 + 3000 + 1000 + 20_000


async def test_a_spent_budget_needs_more_from_the_parent_and_never_gets_above_the_hard_limit(harness: Harness) -> None:
    harness.config("[agents.delegation.token_budget]\nmax = 30000\n")
    harness.profile("small", "maxTokenBudget: 12000")
    script = {
        "a": [
            Say("", [delegate("small", "look")]),
            Say("", [again("a.1")]),
            Say("", [again("a.1", max_tokens=50_000)]),
            Say("", [again("a.1", max_tokens=50_000)]),
            Say("fin"),
        ],
        "a.1": [
            Say("one", usage=Usage(input=11_900)),
            Say("two", usage=Usage(input=10_000)),
            Say("three", usage=Usage(input=7_800)),
        ],
    }
    s = await harness.ran(script)
    results = s.results()
    assert results[1].startswith(
        "error: a.1 was not continued: the tokens budget of a.1 is used up. Give it max_tokens from what you have left."
    )
    first, second, third = s.of(AgentStarted, "a.1")
    assert first.tokens == 12_000
    assert second.tokens == 11_900 + 12_000, "its profile's budget anew"
    assert third.tokens == 30_000, "and no more over its life than the settings allow anybody"
    assert s.finished("a.1").usage.billed <= 30_000


async def test_what_the_parent_has_left_bounds_what_it_can_give(harness: Harness) -> None:
    harness.profile("lead", "maxTokenBudget: 20000", "subAgents: [researcher]")
    script = {
        "a": [Say("", [delegate("lead", "all")]), Say("fin")],
        "a.1": [
            Say("", [delegate("researcher", "deep", max_tokens=6000)]),
            Say("", [again("a.1.1", max_tokens=100_000)]),
            Say("ok"),
        ],
        "a.1.1": [Say("deep", usage=Usage(input=5000)), Say("deeper", usage=Usage(input=10))],
    }
    s = await harness.ran(script)
    first, second = s.of(AgentStarted, "a.1.1")
    assert first.tokens == 6000
    assert second.tokens <= 5000 + 20_000 - 5000 - 30, "what it used, and what its parent had left"


async def test_cost_counts_over_its_life_too(harness: Harness) -> None:
    harness.profile("dear", "maxCost: 1.6")
    script = {
        "a": [Say("", [delegate("dear", "look")]), Say("", [again("a.1")]), Say("", [again("a.1")])],
        "a.1": [Say("one", usage=Usage(input=8000)), Say("two", usage=Usage(input=8000))],
    }
    s = await harness.ran(Actors(script, price=0.0001))
    assert [e.cost_usd for e in s.of(AgentStarted, "a.1")] == [pytest.approx(1.6), pytest.approx(1.6)]
    assert s.results()[2].startswith("error: a.1 was not continued: the cost budget of a.1 is used up.")


async def test_turns_and_time_count_for_each_run(harness: Harness) -> None:
    script = {
        "a": [
            Say("", [delegate("researcher", "look", max_iterations=2)]),
            Say("", [again("a.1", timeout_s=40)]),
            Say("one"),
            Say("", [call("list_dir")]),
            Say("", [call("list_dir", path=".")]),
            Say("two"),
        ]
    }
    async with harness.open(script, flags={"limits.max_turns": 3}) as s:
        outcomes = [await s.session.prompt("go"), await s.session.prompt("and again")]
        assert [(o.stop_reason, o.text) for o in outcomes] == [("done", "one"), ("done", "two")]
        first, second = s.of(AgentStarted, "a.1")
        assert (first.turns, first.time_s, second.turns, second.time_s) == (2, 300, 25, 40)


async def test_a_child_at_work_is_not_continued_nor_one_whose_children_are(harness: Harness) -> None:
    harness.profile("lead", "subAgents: [researcher]")
    script = {
        "a": [
            Say("", [delegate("lead", "x", background=True)]),
            Say("", [again("a.1")]),
            Say("w", delay_s=20),
            Say("", [again("a.1")]),
            Say("y"),
        ],
        "a.1": [Say("", [delegate("researcher", "deep", background=True)], delay_s=10), Say("done")],
        "a.1.1": [Say("deep", delay_s=200)],
    }
    s = await harness.ran(script)
    assert s.results()[1] == "error: a.1 is still at work: send it a message instead."
    assert s.results()[2].startswith("error: a.1 has ended, but sub-agents of it are still at work: a.1.1.")


async def test_a_grandchild_is_continued_from_above_without_waking_its_parent(harness: Harness) -> None:
    harness.profile("lead", "subAgents: [researcher]")
    script = {
        "a": [Say("", [delegate("lead", "x")]), Say("", [again("a.1.1", "more")]), Say("fin")],
        "a.1": [Say("", [delegate("researcher", "deep")]), Say("done")],
        "a.1.1": [Say("deep"), Say("deeper")],
    }
    async with harness.open(script, flags={"limits.max_tokens": 300_000}) as s:
        await s.session.prompt("go")
        assert "deeper" in s.results()[1]
        assert len(s.of(AgentStarted, "a.1")) == 1
        assert s.root.tree_usage.billed == 15 * 7
        assert s.root.budget.tokens.holdback == 0, "nothing is left set aside"


async def test_who_cannot_go_on_because_a_profile_is_gone_is_named(harness: Harness) -> None:
    harness.profile("lead", "subAgents: [researcher]")
    script = {
        "a": [Say("", [delegate("lead", "x")]), Say("fin")],
        "a.1": [Say("", [delegate("researcher", "deep")]), Say("done")],
    }
    s = await harness.ran(script)
    (harness.home / "profiles" / "lead.md").unlink()
    s = await harness.ran({"a": [Say("", [again("a.1.1")]), Say("fin")]}, resume=s.session.id, prompt="go on")
    assert s.results()[-1].startswith("error: a.1 cannot be resumed without its profile. There is no profile 'lead'. ")


async def test_a_person_continues_a_child_and_can_give_it_more(harness: Harness) -> None:
    harness.profile("small", "maxTokenBudget: 12000")
    script = {
        "a": [Say("", [delegate("small", "look")]), Say("fin")],
        "a.1": [Say("one", usage=Usage(input=11_900)), Say("two")],
    }
    async with harness.open(script) as s:
        await s.session.prompt("go")
        with pytest.raises(UsageError, match=r"the tokens budget of a\.1 is used up"):
            await s.session.result(await s.session.start_agent("a.1", "go on"))
        outcome = await s.session.result(await s.session.start_agent("a.1", "go on", limits=Limits(8000)))
        assert (outcome.status, outcome.text) == ("completed", "two")
        assert s.heard("a.1") == ["parent: look", "person: go on"]
        assert len(s.of(AgentFinished, "a")) == 1, "the main agent is not bothered"
        for path in ("a.7", "a"):
            with pytest.raises(UsageError):
                await s.session.result(await s.session.start_agent(path, "x"))


@pytest.mark.parametrize("crashes", [False, True])
async def test_the_main_agent_hears_of_it_at_its_next_turn_and_is_not_woken(harness: Harness, crashes: bool) -> None:
    """Also where a later process continues, which is how `friday ask --resume-agent` and then `--continue` are used."""
    script = {"a": [Say("", [delegate("researcher", "look")]), Say("fin")], "a.1": [Say("one"), Say("two")]}
    async with harness.open(script) as s:
        await s.session.prompt("go")
        await s.session.result(await s.session.start_agent("a.1", "look again"))
        assert len(s.of(AgentFinished, "a")) == 1
        if crashes:
            s.crash()
    s = await harness.ran({"a": [Say("I see")]}, resume=s.session.id, prompt="and?")
    _, prompt, begun, ended = s.heard()
    assert prompt.endswith("and?")
    assert begun.startswith(
        f"harness: {NOTE} The user has continued your sub-agent a.1 (researcher) and told it: look again"
    )
    assert f"{NOTE} The sub-agent a.1 (researcher), which the user continued, has ended: completed (done)." in ended
    assert len(s.of(AgentFinished, "a")) == 2


async def test_after_a_crash_nothing_revives_unasked_and_all_that_was_written_is_there(harness: Harness) -> None:
    harness.file("x.txt", "x\n")
    script = {
        "a": [Say("", [delegate("researcher", "look", max_tokens=20_000)])],
        "a.1": [
            Say("found one", [call("read_file", path="x.txt")], usage=Usage(input=3000)),
            Say("never", delay_s=100),
        ],
    }
    async with harness.open(script) as s:
        asking = asyncio.ensure_future(s.session.prompt("go"))
        await until(lambda: len(s.requests("a.1")) == 2)
        s.crash()
        await s.session.close()
        await asking
    script = {"a": [Say("", [again("a.1", "where were you?")]), Say("fin")], "a.1": [Say("and two")]}
    async with harness.open(script, resume=s.session.id) as s:
        assert s.end("a.1") == ("interrupted", "process")
        assert s.finished("a.1").result == "found one"
        assert s.finished("a.1").usage.billed > 3000, "with an estimate of the request that was cut off"
        await asyncio.sleep(10_000)
        assert s.model.requests == []
        assert (await s.session.prompt("and now?")).text == "fin"
        (note,) = [text for text in s.heard() if "and now?" in text]
        assert "The process died while these sub-agents were running." in note
        assert "- a.1 (researcher): look" in note
        second = s.of(AgentStarted, "a.1")[1]
        assert (second.run, second.tokens, second.parent) == (2, 20_000, "a")
        request = s.requests("a.1")[0]
        assert [m.text for m in request.messages if m.role == "user"] == ["look", "where were you?"]
        assert "1\tx" in request.messages[2].results[0].text
        assert strict(request.messages) == []
        await s.session.prompt("more?")
        assert "The process died" not in s.heard()[-1], "it is said once"


async def test_news_that_the_crash_came_before_is_read_after_it(harness: Harness) -> None:
    model = Actors(
        {
            "a": [Say("", [delegate("researcher", "look", background=True)]), Say("never", delay_s=100)],
            "a.1": [Say("found y", delay_s=5)],
        }
    )
    async with harness.open(model) as s:
        asking = asyncio.ensure_future(s.session.prompt("go"))
        await until(lambda: s.of(AgentFinished, "a.1"))
        await asyncio.sleep(1)
        s.crash()
        await s.session.close()
        await asking
    async with harness.open({"a": [Say("I see")]}, resume=s.session.id) as s:
        await asyncio.sleep(100)
        assert s.model.requests == [], "nobody asked"
        await s.session.prompt("hello")
        texts = [m.message.text for m in s.of(MessageAdded, "a")]
        assert any("a.1 (researcher) has ended: completed" in text for text in texts)
        assert len(s.requests()) == 1
