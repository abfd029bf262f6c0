"""What is told of a delegation: the order of things, and the fields of its beginning and its end."""

from __future__ import annotations

import asyncio

from friday_cli.core.protocol.displays import DelegationDisplay
from friday_cli.core.protocol.events import (
    AgentFinished,
    AgentStarted,
    MessageAdded,
    Prefix,
    StatusChanged,
    ToolFinished,
    ToolStarted,
    encode,
)
from friday_cli.core.protocol.messages import Usage
from friday_cli.view import SessionView
from tests.delegation.harness import Actors, Harness, until
from tests.engine_fixture import Say, batch, call, delegate

TASK = "Count the lines\nof x.txt"


async def test_the_order_of_a_delegation_from_the_call_to_the_next_request(harness: Harness) -> None:
    harness.file("x.txt", "1\n2\n")
    script = {
        "a": [Say("", [delegate("researcher", TASK)]), Say("two")],
        "a.1": [Say("", [call("read_file", path="x.txt")]), Say("2 lines")],
    }
    s = await harness.ran(script)
    story = [
        (e.agent, type(e.event).__name__)
        for e in s.envelopes
        if isinstance(e.event, (AgentStarted, AgentFinished, Prefix, MessageAdded, ToolStarted, ToolFinished))
    ]
    assert story == [
        ("a", "AgentStarted"), ("a", "Prefix"), ("a", "MessageAdded"),  # the prompt
        ("a", "MessageAdded"), ("a", "ToolStarted"),  # the call, seen with its task before anything is spent
        ("a.1", "AgentStarted"), ("a.1", "Prefix"), ("a.1", "MessageAdded"),  # the child, its tools, its task
        ("a.1", "MessageAdded"), ("a.1", "ToolStarted"), ("a.1", "ToolFinished"), ("a.1", "MessageAdded"),
        ("a.1", "MessageAdded"), ("a.1", "AgentFinished"),
        ("a", "ToolFinished"), ("a", "MessageAdded"),  # its result, before the next request
        ("a", "MessageAdded"), ("a", "AgentFinished"),
    ]  # fmt: skip
    (started,) = s.of(ToolStarted, "a")
    assert (started.tool, started.title) == ("delegate_task", "researcher: Count the lines of x.txt")
    (finished,) = s.of(ToolFinished, "a")
    assert finished.display == DelegationDisplay(("a.1",)), "a face finds the child by that"
    assert "delegate_id: a.1" in s.results()[0]
    assert s.model.requests[-1].messages[-1].results[0].text.startswith("## Result from 'researcher' (a.1)")


async def test_a_beginning_tells_whose_what_and_how(harness: Harness) -> None:
    script = {
        "a": [Say("", [delegate("researcher", TASK, background=True), delegate("researcher", "y")]), Say("x"), Say("z")]
    }
    s = await harness.ran(script)
    first, second = s.of(AgentStarted, "a.1")[0], s.of(AgentStarted, "a.2")[0]
    assert (first.parent, first.profile, first.task, first.background) == ("a", "researcher", TASK, True)
    assert (second.parent, second.task, second.background) == ("a", "y", False)
    calls = [c.id for m in s.of(MessageAdded, "a") for c in m.message.calls]
    assert [first.call_id, second.call_id] == calls
    assert (
        first.model,
        first.mode,
        first.tokens,
        first.turns,
        first.time_s,
    ) == ("scripted/stage", "yolo", 50_000, 25, 300)
    assert "read_file" in first.tools


async def test_an_end_tells_how_what_it_brought_and_what_it_took(harness: Harness) -> None:
    harness.profile("lead", "subAgents: [researcher]")
    script = {
        "a": [Say("", [delegate("lead", "x")]), Say("fin")],
        "a.1": [
            Say("", [delegate("researcher", "y")], usage=Usage(input=100, output=10), delay_s=2),
            Say("brought", delay_s=3),
        ],
        "a.1.1": [Say("part", usage=Usage(input=40, output=4), delay_s=5)],
    }
    s = await harness.ran(Actors(script, price=0.001))
    end = s.finished("a.1")
    assert (
        end.status,
        end.stop_reason,
        end.success,
        end.result,
        end.error,
    ) == ("completed", "done", True, "brought", "")
    assert (end.usage.billed, end.tree_usage.billed) == (110 + 15, 110 + 15 + 44)
    assert end.tree_usage.cost_usd is not None
    assert abs(end.tree_usage.cost_usd - 0.169) < 1e-9
    assert (end.duration_s, end.wall_s) == (5.0, 10.0), "it waited for its own for 5 s"
    assert end.receipt.tools == {"delegate_task": 1}
    assert '"profile":"lead","success":true' in encode(end).decode(), "read by programs without the beginning"
    assert not s.finished("a.1").partial
    totals = SessionView.of(s.envelopes)
    assert totals.totals.billed == sum(e.usage.billed for e in s.of(AgentFinished)) == s.finished("a").tree_usage.billed
    assert totals.usage_of("a.1").billed == end.tree_usage.billed


async def test_every_status_is_seen_on_the_way(harness: Harness) -> None:
    harness.config("[agents.delegation]\nmax_concurrent = 1\n")
    harness.profile("lead", "subAgents: [researcher]", "allowedTools: [write_file]")
    script = {
        "a": [Say("", [delegate("lead", "x"), delegate("researcher", "last")]), Say("fin")],
        "a.1": [
            Say("", [delegate("researcher", "y")]),
            Say("", [call("write_file", path="x", content="x")]),
            Say("ok"),
        ],
    }
    async with harness.open(script, mode="ask", attended=True) as s:
        asking = asyncio.ensure_future(s.session.prompt("go"))
        await until(s.asked)
        await s.session.stop("a.1")
        await asking
        seen = {(e.agent, e.event.status) for e in s.envelopes if isinstance(e.event, StatusChanged)}
        assert {("a.1", "running"), ("a.1", "waiting_child"), ("a.1", "waiting_user"), ("a", "waiting_child")} <= seen
        assert s.finished("a.1").status == "cancelled"


async def test_ended_delegations_can_be_had_again_with_their_tree(harness: Harness) -> None:
    harness.profile("lead", "subAgents: [researcher]")
    script = {
        "a": [Say("", [delegate("lead", "x")]), Say("fin")],
        "a.1": [
            Say("", [batch({"profile": "researcher", "task": "p"}, {"profile": "researcher", "task": "q"})]),
            Say("brought"),
        ],
    }
    s = await harness.ran(script)
    script = {
        "a": [
            Say(
                "",
                [
                    call("list_sub_agents"),
                    call("get_delegation_result", id="a.1"),
                    call("get_delegation_result", id="a.1.2"),
                ],
            )
        ]
    }
    s = await harness.ran(script, resume=s.session.id, prompt="and?")
    listing, lead, part = s.results()[-3:]
    assert listing.splitlines() == [
        "ok: a.1 | lead | completed | x",
        "a.1.1 | researcher | completed | p",
        "a.1.2 | researcher | completed | q",
    ]
    assert "Its own sub-agents: a.1.1 researcher completed, a.1.2 researcher completed" in lead
    assert "- WARNING about a.1.1: no tool was run" in lead
    assert "## Result from 'researcher' (a.1.2): completed" in part


async def test_general_is_the_parent_again_with_an_empty_conversation(harness: Harness) -> None:
    harness.file("AGENTS.md", "Use tabs.\n")
    s = await harness.ran(
        {"a": [Say("my thoughts", [delegate("general", "do it all")]), Say("fin")]},
        trusted=True,
        prompt="a private question",
    )
    root, child = s.requests()[0], s.requests("a.1")[0]
    assert s.of(AgentStarted, "a.1")[0].model == s.of(AgentStarted, "a")[0].model
    assert "Use tabs." in child.system
    assert root.system.split("# Environment")[1].splitlines()[2] in child.system
    assert [m.text for m in child.messages] == ["do it all"]
    mine = {t.name for t in child.tools}
    theirs = {t.name for t in root.tools}
    assert mine - {"task_result"} <= theirs
    assert {"read_file", "write_file", "bash", "memory_save"} <= mine


async def test_a_main_agent_that_lists_its_tools_gets_no_delegation_unasked(harness: Harness) -> None:
    harness.profile("scripted-one", "allowedTools: [read_file]")
    s = await harness.ran({"a": [Say("", [delegate("researcher", "x")]), Say("fin")]}, profile="scripted-one")
    assert {t.name for t in s.requests()[0].tools} == {"read_file"}
    assert s.results()[0].startswith("denied: There is no tool 'delegate_task'")
