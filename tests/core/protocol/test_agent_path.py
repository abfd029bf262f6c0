"""Who is stopped with whom: agents that were continued, and those whose parent has ended."""

from __future__ import annotations

import asyncio

import pytest

from friday_cli.core.eventlog.replay import replay
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.events import AgentFinished, AgentStarted, InboxMessage
from friday_cli.core.subagents.node import SubagentTask
from tests.engine_fixture import Bench, Model, Profile, Say, delegate, until

DEEP = {"worker": Profile(offers=("worker",))}


async def test_no_agent_is_resumed_under_one_that_is_being_stopped() -> None:
    script = {
        "a": [Say("", [delegate("worker")])],
        "a.1": [Say("", [delegate("worker", "a part of that")]), Say("thinking", delay_s=100, wrap_up="so far")],
    }
    bench = Bench(Model(script), profiles=DEEP)
    bench.begin()
    await until(lambda: len(bench.of(AgentFinished, "a.1.1")) == 1)
    stopping = asyncio.create_task(bench.tree.stop("a.1", level="cancel", why="cancelled"))
    await asyncio.sleep(0)
    with pytest.raises(ToolError, match=r"a\.1, above a\.1\.1, is just ending"):
        await bench.tree.resumer.resume("a.1.1", SubagentTask("worker", "more"), by=None)
    await stopping
    await bench.tree.stop("a")


async def test_two_children_of_an_ended_agent_that_are_continued_share_its_budget() -> None:
    script = {
        "a": [Say("", [delegate("worker")]), Say("waiting", delay_s=500)],
        "a.1": [Say("", [delegate("worker", "one"), delegate("worker", "two")])],
    }
    bench = Bench(Model(script), profiles=DEEP)
    bench.begin()
    await until(lambda: len(bench.of(AgentFinished, "a.1")) == 1)
    nodes = [
        await bench.tree.resumer.resume(path, SubagentTask("worker", "more"), by=None) for path in ("a.1.1", "a.1.2")
    ]
    assert nodes[0].agent.parent is nodes[1].agent.parent
    await bench.tree.stop("a")


async def test_a_message_to_a_child_that_has_not_begun_is_in_the_log_after_its_start() -> None:
    bench = Bench(Model({"a": [Say("busy", delay_s=50)]}))
    bench.begin()
    await until(lambda: bool(bench.of(AgentStarted, "a")))
    node = bench.tree.spawn("a", SubagentTask("worker", "look"))
    await bench.tree.send("a.1", "and this", "person")
    kinds = [type(e.event) for e in bench.envelopes if e.agent == "a.1"]
    assert kinds.index(AgentStarted) < kinds.index(InboxMessage)
    known = replay(bench.envelopes)["a.1"]
    assert "and this" in [m.text for m in (*known.inbox, *known.history)]
    assert node.task
    await bench.tree.stop("a")
