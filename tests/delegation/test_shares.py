"""Sub-agents that share a token limit: each waits for its share, and none is cut short or timed out by that."""

from __future__ import annotations

import asyncio

import pytest

from friday_cli.core.limits.budget import USUAL_REPLY
from friday_cli.core.protocol.events import StatusChanged
from friday_cli.core.protocol.messages import Usage
from friday_cli.frontends.oneshot.progress import ProgressLines
from friday_cli.view import SessionView
from friday_cli.view.tree import render_tree
from tests.delegation.harness import Harness, until
from tests.engine_fixture import Say, batch, call, delegate

NEED = Usage(input=300, output=4000)


def tasks(count: int, profile: str) -> Say:
    return Say("", [batch(*[{"profile": profile, "task": f"part {n}"} for n in range(1, count + 1)])])


@pytest.mark.parametrize(("limit", "waiting"), [(60_000, 0), (40_000, 1)])
async def test_five_children_with_enough_for_all_are_all_done(harness: Harness, limit: int, waiting: int) -> None:
    """Each needs 4,300 tokens and 5 of its 8 seconds."""
    harness.profile("worker", "allowedTools: []", "timeout: 8")
    script = {"a": [tasks(5, "worker"), Say("fin")], "*": [Say("my part", usage=NEED, delay_s=5)]}
    s = await harness.ran(script, flags={"limits.max_tokens": limit})
    children = s.agents()
    assert {path: s.end(path) for path in children} == dict.fromkeys(children, ("completed", "done"))
    assert {round(s.finished(path).duration_s, 3) for path in children} == {5}, "a wait for tokens is no work"
    assert min(request.max_output for path in children for request in s.requests(path)) >= USUAL_REPLY
    waited = {path for path in children if "waiting_budget" in {e.status for e in s.of(StatusChanged, path)}}
    assert len(waited) == waiting
    assert s.finished("a").tree_usage.billed <= limit


@pytest.mark.parametrize("turns", [1, 4])
async def test_ten_researchers_of_160_s_under_a_lead_are_all_done(harness: Harness, turns: int) -> None:
    """With the default budgets and 300 s for each: the wait for tokens and places takes many times that."""
    harness.profile("lead", "subAgents: [worker]", "timeout: 3600")
    harness.profile("worker", "allowedTools: [todo]")
    used = Usage(input=100, output=2400 // turns)
    steps = [
        Say("", [call("todo", items=[{"text": f"step {n}"}])], usage=used, delay_s=160 / turns)
        for n in range(turns - 1)
    ]
    script = {
        "a": [Say("", [delegate("lead", "all")]), Say("fin")],
        "a.1": [tasks(10, "worker"), Say("all of it")],
        "*": [*steps, Say("found", usage=used, delay_s=160 / turns)],
    }
    s = await harness.ran(script)
    assert {path: s.end(path) for path in s.agents()} == dict.fromkeys(s.agents(), ("completed", "done"))
    assert len(s.agents()) == 11
    assert {round(s.finished(f"a.1.{n}").duration_s, 3) for n in range(1, 11)} == {160}


async def test_who_waits_for_tokens_says_so_on_every_face(harness: Harness) -> None:
    harness.profile("worker", "allowedTools: []")
    script = {"a": [tasks(5, "worker"), Say("fin")], "*": [Say("my part", usage=NEED, delay_s=5)]}
    async with harness.open(script, flags={"limits.max_tokens": 20_000}) as s:
        asked = asyncio.create_task(s.session.prompt("go"))
        await until(lambda: any(e.status == "waiting_budget" for e in s.of(StatusChanged)))
        await asyncio.sleep(2)
        view = SessionView.of(s.envelopes)
        waiting = [a for a in view.agents.values() if a.status == "waiting_budget"]
        now = s.envelopes[-1].at
        lines = ProgressLines(view).lines(120, now)
        for agent in waiting:
            assert s.tree.known(agent.path).status == "waiting_budget"  # type: ignore[union-attr]
            assert f"◔ {agent.path} worker · waits for tokens · " in "\n".join(render_tree(view))
            (line,) = [line for line in lines if f" {agent.path} " in line]
            assert line.startswith("◔")
            assert "waits for tokens" in line
            assert agent.active_s(now + 60) == agent.active_s(now), "its clock is stopped"
        await asked
