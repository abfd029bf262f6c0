"""Run slots: given up while an agent waits, so that nesting and open questions cannot block anybody."""

from __future__ import annotations

import asyncio

import pytest

from friday_cli.core.agent.agent import Policy
from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.permissions.rule import Rule
from friday_cli.core.protocol.agent_path import depth_of
from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.events import PermissionAsked, ToolFinished
from friday_cli.core.protocol.provider import Request
from friday_cli.core.protocol.tool import ToolContext
from tests.engine_fixture import Arguments, Bench, Model, Profile, Say, batch, call, delegate, make, ran, until


def fan_out(width: int) -> Model:
    """Every agent reads for a second; above depth 3 it hands out `width` tasks then, and answers after another second."""

    def play(request: Request, count: int) -> Say:
        if count == 0:
            return Say("", [call("look", seconds=1)])
        if count == 1 and depth_of(request.agent) < 3:
            tasks = [{"profile": "worker", "task": f"{request.agent} part {n}"} for n in range(width)]
            return Say("", [batch(*tasks)], delay_s=1.0)
        return Say(f"{request.agent} is done", delay_s=1.0)

    return Model(play)


class CountingTool:
    """The tool `look` of children, which counts how many of its calls run at once."""

    def __init__(self) -> None:
        self.at_once = self.most_at_once = 0
        self.tool = make("look", self._look)

    async def _look(self, ctx: ToolContext, args: Arguments) -> str:
        child = ctx.agent != "a"
        self.at_once += child
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(args.seconds)
        self.at_once -= child
        return "looked"


async def test_one_run_slot_with_depth_three_and_fan_out_five_ends() -> None:
    look = CountingTool()
    bench = Bench(
        fan_out(5), [look.tool], {"worker": Profile(offers=("worker",), time_s=0)}, policy=Policy(max_concurrent=1)
    )
    assert (await bench.prompt()).status == "completed"
    assert len(bench.started()) == 1 + 5 + 25 + 125
    assert {bench.finished(p).status for p in bench.agents} == {"completed"}
    assert look.most_at_once == 1
    assert bench.model.most_at_once > 1, "who waits for the service needs no slot"


@pytest.mark.parametrize("places", [1, 2, 5])
async def test_no_more_children_run_tools_at_once_than_there_are_run_slots(places: int) -> None:
    look = CountingTool()
    bench = await ran(
        fan_out(3), [look.tool], {"worker": Profile(offers=("worker",))}, policy=Policy(max_concurrent=places)
    )
    assert look.most_at_once == places
    assert max(bench.finished(path).duration_s for path in bench.agents if path != "a") == pytest.approx(3), (
        "a wait for a slot does not count"
    )
    assert bench.tree.slots._value == places


async def test_questions_of_many_agents_are_open_together_and_hold_no_run_slot() -> None:
    asking = [Say("", [call("shell", text="make")]), Say("asked")]
    script = {"a": [Say("", [batch(*[{"profile": "worker", "task": f"part {n}"} for n in range(5)])])]}
    script |= {f"a.{n}": asking for n in range(1, 5)} | {"a.5": [Say("quick", delay_s=1.0)]}
    bench = Bench(
        Model(script), [make("shell", effect="run")], policy=Policy(max_concurrent=2), rules=[Rule("shell", "", "ask")]
    )
    node = bench.begin()
    await until(lambda: len(bench.approvals.pending) == 4)
    assert set(bench.approvals.pending.values()) == {"a.1", "a.2", "a.3", "a.4"}
    await asyncio.sleep(3600)
    assert bench.outcome("a.5").text == "quick", "a neighbour works on meanwhile"
    assert {bench.node(f"a.{n}").summary.status for n in range(1, 5)} == {"waiting_user"}
    for ask_id, path in list(bench.approvals.pending.items()):
        assert await bench.approvals.answer(ask_id, ApprovalAnswer("deny" if path == "a.2" else "allow"))
    await node.finished()
    assert {bench.finished(p).status for p in bench.agents} == {"completed"}
    assert all(bench.finished(p).duration_s < 10 for p in bench.agents), "an hour of a person's is nobody's work"
    assert all(done.duration_s < 10 for done in bench.of(ToolFinished) if done.tool == "shell"), "nor a call's"
    assert bench.results("a.2") == ["denied: The user denied this shell call."]
    assert len(bench.of(PermissionAsked)) == 4


async def test_an_agent_that_waits_for_a_rate_limit_releases_its_run_slot() -> None:
    busy = Say(fail=ProviderError("server", "503", retry_after=30.0))
    script = {
        "a": [Say("", [delegate("worker"), delegate("worker")])],
        "a.1": [Say("", [call("look")]), busy],
        "*": [Say("", [call("look", seconds=1)])],
    }
    bench = Bench(Model(script), [make("look")], policy=Policy(max_concurrent=1))
    node = bench.begin()
    await until(lambda: "a.2" in bench.agents and bench.node("a.2").ended)
    assert asyncio.get_running_loop().time() < 5
    assert bench.node("a.1").summary.status == "waiting_rate"
    await node.finished()
    assert bench.finished("a.1").status == "completed"
    assert bench.finished("a.1").duration_s < 1


async def test_calls_in_line_behind_a_question_are_no_work() -> None:
    """Three changes of one reply, the first asks a person: its place is free and its clock stands still."""
    changes = [call("change", text=str(n), seconds=1) for n in range(3)]
    script = {
        "a": [Say("", [delegate("worker"), delegate("other", "b")])],
        "a.1": [Say("", changes)],
        "a.2": [Say("quick")],
    }
    profiles = {"worker": Profile(rules=[Rule("change", "0", "ask")], time_s=10), "other": Profile()}
    bench = Bench(Model(script), [make("change", effect="write")], profiles, policy=Policy(max_concurrent=1))
    node = bench.begin()
    await until(lambda: bool(bench.approvals.pending))
    await asyncio.sleep(3600)
    assert bench.node("a.1").summary.status == "waiting_user"
    assert bench.outcome("a.2").text == "quick"
    await bench.approvals.answer(next(iter(bench.approvals.pending)), ApprovalAnswer("allow"))
    await node.finished()
    assert (bench.finished("a.1").status, bench.finished("a.1").duration_s) == ("completed", pytest.approx(3))
