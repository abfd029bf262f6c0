"""Decisions about a worktree while an agent is resumed in it, and after one below it was resumed."""

from __future__ import annotations

import asyncio

import pytest

from friday_cli.core.agent.agent import Agent
from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.events import AgentFinished, PermissionAsked, ToolFinished
from friday_cli.workspace.local import LocalWorkspace
from tests.session.harness import Harness, delegates, does, says
from tests.workspace.worktrees.repo_fixture import listing
from tests.workspace.worktrees.steps import applies, isolated, ran, reads, resumes, writes

DONE = says("Done.")


@pytest.mark.parametrize("decision", ["apply", "discard"])
async def test_a_worktree_is_not_removed_while_an_agent_is_resumed_in_it(harness: Harness, decision: str) -> None:
    harness.plays(
        {
            "a": [isolated(), DONE],
            "a.1": [writes("one", "1"), delegates("helper", "and two"), DONE],
            "a.1.1": [writes("two", "2"), DONE, writes("three", "3"), DONE],
        }
    )
    async with harness.after_run(mode="yolo") as session:
        isolation = session._parts.shared.isolation
        restore, reached, go = isolation.workspace_for_resume, asyncio.Event(), asyncio.Event()

        async def held(parent: Agent, path: str) -> LocalWorkspace | None:
            workspace = await restore(parent, path)
            if path == "a.1":  # restored as the parent of the resumed agent; it does not run itself
                reached.set()
                await go.wait()
            return workspace

        isolation.workspace_for_resume = held  # type: ignore[method-assign]

        async def resume() -> None:
            await session.result(await session.start_agent("a.1.1", "continue"))

        async with asyncio.timeout(60):
            resumed = asyncio.create_task(resume())
            await asyncio.wait([resumed, asyncio.create_task(reached.wait())], return_when=asyncio.FIRST_COMPLETED)
            assert not resumed.done()
            doing = session.apply_worktree("a.1") if decision == "apply" else session.discard_worktree("a.1")
            decided = asyncio.ensure_future(doing)
            await asyncio.wait([decided], timeout=0.5)  # it waits, however long this takes
            assert not decided.done()
            go.set()
            await resumed
            refused = False
            try:
                await decided  # it was made after the resumed agent had ended
            except UsageError as error:
                refused = "a.1.1 still works in that worktree" in str(error)
                await session.apply_worktree("a.1")
    present = {"one", "two", "three"} <= listing(harness.project).keys()
    assert present is (refused or decision == "apply")


async def test_a_child_that_is_resumed_while_a_person_is_asked_keeps_its_worktree(harness: Harness) -> None:
    both = (("apply_delegation", {"id": "a.1"}), ("delegate_task", {"resume": "a.1", "task": "more"}))
    harness.plays(
        {
            "a": [isolated(), does(*both), applies(), DONE],
            "a.1": [writes("x", "early"), DONE, reads("x"), writes("x", "late"), DONE],
        }
    )
    flags = {"permissions.ask": ("edit_file(x)", "write_file(x)")}
    asked: dict[str, str] = {}  # the open question of each agent: "a" wants to apply, "a.1" to write
    write_questions = applied = 0
    async with harness.session(mode="yolo", flags=flags, attended=True) as session:
        node = session.start("go")
        async for envelope in session.events():
            match envelope.event:
                case PermissionAsked() as event:
                    asked[envelope.agent] = event.id
                    write_questions += envelope.agent == "a.1"
                case AgentFinished() if envelope.agent == "a":
                    break
                case ToolFinished(tool="apply_delegation"):
                    applied += 1
            if "a" in asked and (applied or write_questions == 2):  # the child runs again
                await session.answer(asked.pop("a"), ApprovalAnswer("allow"))
            if "a.1" in asked and (applied or write_questions == 1):
                await session.answer(asked.pop("a.1"), ApprovalAnswer("allow"))
        await session.result(node)
        results = await harness.results(session.id, "a")
    assert (results[1][0], "a.1 still works in that worktree" in results[1][1]) == ("error", True)
    assert results[3][0] == "ok"
    assert (harness.project / "x").read_text() == "late"


async def test_the_changes_of_a_child_remain_after_its_own_child_was_resumed(harness: Harness) -> None:
    session = await ran(
        harness,
        {
            "a": [isolated(), resumes("a.1.1"), does(("list_sub_agents", {})), applies(), DONE],
            "a.1": [writes("x", "x"), delegates("helper", "write y", isolation="worktree"), DONE],
            "a.1.1": [writes("y", "y"), DONE, DONE],
        },
    )
    results = await harness.results(session.id, "a")
    assert results[2][1].count("its changes wait in its worktree") == 2
    assert results[3][0] == "ok"
    assert (harness.project / "x").read_text() == "x"
