"""Limits that hold whatever a model asks for: number of agents, depth, time, and delegation of a whole task."""

from __future__ import annotations

import pytest

from friday_cli.core.agent.agent import Policy
from friday_cli.core.protocol.errors import ProviderError, ToolError
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.protocol.run_result import RunResult
from friday_cli.core.subagents.node import AgentSummary, ChildNumbers, SubagentTask
from friday_cli.tools.delegate import _same_task
from tests.engine_fixture import Bench, Model, Profile, Say, batch, call, delegate, make, ran, until
from tests.strict import strict

LOOK = make("look")
DEEP = {"worker": Profile(offers=("worker",))}


async def test_the_depth_limit_holds_at_execution_too() -> None:
    bench = Bench(Model({}), policy=Policy(max_depth=1), profiles=DEEP)
    bench.begin()
    child = bench.tree.spawn("a", SubagentTask("worker", "x"))
    with pytest.raises(ToolError, match="Agents may be nested 1 deep; you are at 1"):
        bench.tree.spawn(child.path, SubagentTask("worker", "y"))
    await until(lambda: not bench.tree.running("a"))


async def test_agents_of_earlier_processes_count_and_their_numbers_are_not_used_again() -> None:
    bench = Bench(Model({"a": [Say("", [delegate("worker")])]}), policy=Policy(max_agents=3))
    bench.tree._summaries |= {
        f"a.{n}": AgentSummary(f"a.{n}", "worker", "old", "completed", RunResult("completed", "done")) for n in (1, 2)
    }
    bench.tree._numbers = ChildNumbers(bench.tree._summaries)
    await bench.prompt()
    assert list(bench.agents) == ["a", "a.3"]
    bench.begin()
    with pytest.raises(ToolError, match="has had 3 agents"):
        bench.tree.spawn("a", SubagentTask("worker", "x"))
    await until(lambda: not bench.tree.running("a"))


async def test_a_task_or_a_message_of_blanks_is_refused_before_a_request() -> None:
    turns = [
        Say("", [delegate("worker", " \n\t"), batch({"profile": "worker", "task": "  "}, {"profile": "worker"})]),
        Say("", [call("delegate_task", task=" ", resume="a.1")]),
    ]
    bench = await ran(Model({"a": turns}))
    assert list(bench.agents) == ["a", "a.1"]
    assert len(bench.requests("a.1")) == 1
    alone, both, again = bench.results()
    for told in (alone, both, again):
        assert "The text is empty. Say what the sub-agent should do." in told
    assert alone.startswith("error: ")
    with pytest.raises(ToolError, match="The text is empty"):
        await bench.tree.send("a", " ", "person")


async def test_no_child_is_started_with_a_budget_that_is_used_up() -> None:
    turns = [Say("", [delegate("worker")], usage=Usage(output=17_800)), Say("then alone")]
    bench = await ran(Model({"a": turns}), me=Profile(tokens=20_000, time_s=0))
    assert bench.results() == ["error: No agent was started: the tokens budget of a is used up."]


async def test_a_child_that_hands_its_whole_task_on_is_told_once_and_then_stopped() -> None:
    script = {
        "a": [Say("", [delegate("worker", "Review the file parser.py for errors and list them.")])],
        "a.1": [
            Say("let me", [delegate("worker", "Review the file parser.py for errors and list them!")]),
            Say("again", [delegate("worker", "Please review the file parser.py for errors and list them.")]),
        ],
    }
    bench = await ran(Model(script), profiles=DEEP)
    assert list(bench.agents) == ["a", "a.1"]
    end = bench.finished("a.1")
    assert (end.status, end.stop_reason, end.result) == ("failed", "loop", "let me\n\nagain")
    assert bench.results("a.1")[0].startswith("error: This is your whole task")
    assert strict(bench.agents["a.1"].conversation.history) == []


@pytest.mark.parametrize(("own", "task", "same"), [
    ("Find the retry logic.", "find  the RETRY logic", True),
    ("Find the retry logic.", "As a first step: find the retry logic.", False),
    ("Review login.py, cart.py and mail.py for errors.", "Review cart.py for errors.", False),
    ("调查重试逻辑并报告结果", "调查重试逻辑并报告结果。", True), ("word " * 40_000 + "one", "word " * 40_000 + "two", True),
    ("the same long preamble " * 400 + "Now do the first half. " * 150, "the same long preamble " * 400 + "Sum all up in one line. " * 200, False),
    ("a" * 200_000, "ab" * 100_000, False), ("x", "y", False),
])  # fmt: skip
def test_what_counts_as_the_whole_task_however_long_it_is(own: str, task: str, same: bool) -> None:
    assert _same_task(own, task) is same


async def test_a_part_of_a_task_may_be_handed_on_and_the_root_may_hand_on_all() -> None:
    script = {
        "a": [Say("", [delegate("worker", "go")])],
        "a.1": [Say("", [delegate("worker", "Only look for the version of the parser.")])],
    }
    bench = Bench(Model(script), profiles=DEEP)
    await bench.prompt("go")
    assert list(bench.agents) == ["a", "a.1", "a.1.1"]


async def test_only_the_time_of_the_root_includes_that_in_which_its_sub_agents_work() -> None:
    script = {
        "a": [Say("", [delegate("lead", "all")])],
        "a.1": [Say("", [delegate("worker", "part")], delay_s=2), Say("ready", delay_s=2)],
        "a.1.1": [Say("", fail=ProviderError("server", "503", retry_after=40.0)), Say("x", delay_s=6)],
    }
    bench = await ran(Model(script), profiles={"lead": Profile(offers=("worker",), time_s=5), "worker": Profile()})
    end = bench.finished("a.1")
    assert (end.status, end.duration_s) == ("completed", pytest.approx(4))
    assert end.wall_s > 50
    assert bench.finished("a").duration_s == pytest.approx(10)


@pytest.mark.parametrize("deep", [False, True])
async def test_a_time_limit_of_a_call_or_of_the_root_counts_while_sub_agents_work(deep: bool) -> None:
    """Also while the sub-agent only waits for one of its own. What was finished by then is in the wrap-up."""
    part = [Say("", [delegate("lead", "deeper")]), Say("half")] if deep else [Say("never", delay_s=900)]
    team = batch({"profile": "worker", "task": "quick"}, {"profile": "lead", "task": "slow"})
    script = {
        "a": [Say("", [delegate("lead", "all", timeout_s=20)]), Say("fin")],
        "a.1": [Say("", [team]), Say("the best")],
        "a.1.1": [Say("found it", delay_s=2)],
        "a.1.2": [Say("I looked", [call("look", text="x", seconds=1)]), *part],
        "a.1.2.1": [Say("never", delay_s=900)],
    }
    profiles = {"lead": Profile(offers=("worker", "lead")), "worker": Profile()}
    bench = await ran(Model(script), [LOOK], profiles=profiles)
    assert bench.ended("a.1") == ("timeout", "time", "the best", False)
    assert bench.finished("a.1").wall_s == pytest.approx(20)
    (read,) = bench.results("a.1")
    assert read.startswith("cancelled: # Task 1 of 2\n## Result from 'worker' (a.1.1): completed\n> found it\n---\n")
    assert "# Task 2 of 2\n## Result from 'lead' (a.1.2): stopped with its parent\n> I looked\n---\n" in read
    assert bench.requests("a.1")[-1].messages[-2].results[0].text in read, "the wrap-up turn reads it"
    script["a"] = [Say("", [delegate("lead", "all")]), Say("fin")]
    bench = await ran(Model(script), [LOOK], profiles=profiles, me=Profile(time_s=20, tokens=0))
    assert bench.finished("a").wall_s == pytest.approx(20)
    assert (bench.finished("a").status, bench.finished("a.1").stop_reason) == ("timeout", "parent")
