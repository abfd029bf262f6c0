"""What is decided on a worktree while somebody is about to go on in it."""

from __future__ import annotations

import asyncio

import pytest

from friday_cli.core.agent.agent import Agent
from friday_cli.core.protocol.errors import UsageError
from friday_cli.workspace.local import LocalWorkspace
from tests.session.harness import Stage, delegates, does, says
from tests.workspace.worktrees.repo_fixture import listing


@pytest.mark.parametrize("decision", ["apply", "discard"])
async def test_a_worktree_is_not_taken_from_who_is_about_to_go_on_in_it(stage: Stage, decision: str) -> None:
    def writes(name: str) -> object:
        return does(("write_file", {"path": name, "content": name}))

    stage.plays({
        "a": [delegates("worker", isolation="worktree"), says("x")],
        "a.1": [writes("one"), delegates("helper", "and two"), says("ok")],
        "a.1.1": [writes("two"), says("ok"), writes("three"), says("ok")],
    })  # fmt: skip
    async with stage.session(mode="yolo") as session:
        await session.prompt("go")
        places = session._parts.isolation
        again, reached, go = places.workspace_for_resume, asyncio.Event(), asyncio.Event()

        async def held(parent: Agent, path: str) -> LocalWorkspace | None:
            place = await again(parent, path)
            if path == "a.1":  # made anew as the parent of who goes on, and not at work itself
                reached.set()
                await go.wait()
            return place

        places.workspace_for_resume = held  # type: ignore[method-assign]
        async with asyncio.timeout(60):
            resumed = asyncio.create_task(session.resume_agent("a.1.1", "go on"))
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
                await decided  # it came when the other had ended again
            except UsageError as error:
                refused = "a.1.1 still works in that worktree" in str(error)
                await session.apply_worktree("a.1")
    there = {"one", "two", "three"} <= listing(stage.project).keys()
    assert there is (refused or decision == "apply")
