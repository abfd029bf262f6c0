"""Questions of an external agent that a person answers: what the person sees, and what becomes of the answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.protocol.events import AgentFinished, PermissionAsked, TextDelta
from friday_cli.session.session import Options, Session
from tests.external_agents.conftest import Robot


def change(*rows: tuple[str | None, str], kind: str = "edit") -> dict[str, Any]:
    content = [{"type": "diff", "path": "a.txt", "oldText": old, "newText": new} for old, new in rows]
    return {"kind": kind, "locations": [{"path": "a.txt"}], "content": content}


async def answered(robot: Robot, *answers: ApprovalAnswer) -> tuple[list[PermissionAsked], str]:
    """The questions of a run of the robot, answered in turn, and its result."""
    options = Options(robot.project, profile="robot", below="robot", mode="ask", attended=True)
    session = await Session.open(options, env=robot.env)
    assert session.program is not None
    work = asyncio.create_task(session.program.delegate("robot", "go", "go"))
    asked: list[PermissionAsked] = []
    async for envelope in session.events():
        if isinstance(envelope.event, PermissionAsked):
            asked.append(envelope.event)
            await session.answer(envelope.event.id, answers[len(asked) - 1])
            if len(asked) == len(answers):
                break
    result = (await work).text
    await session.close()
    return asked, result


@pytest.mark.parametrize(
    ("call", "diff"),
    [
        (change(("one\ntwo\n", "one\nTWO\n")), [" one", "-two", "+TWO", " three"]),
        (change(("one", "1"), ("three", "3")), ["-one", "+1", " two", "-three", "+3"]),
        (change((None, "all new\n")), ["-one", "-two", "-three", "+all new"]),
        (change(("not there\n", "x\n")), ["-not there", "+x"]),
        (change(kind="delete"), ["-one", "-two", "-three"]),
        (change(), None),
    ],
)
async def test_a_person_sees_the_change_of_a_file_before_it_is_made(
    robot: Robot, call: dict[str, Any], diff: list[str] | None
) -> None:
    (robot.project / "a.txt").write_text("one\ntwo\nthree\n")
    robot.plays([{"ask": {"call": call}}, {"say": " done"}])
    (asked,), result = await answered(robot, ApprovalAnswer("allow"))
    assert (asked.tool, asked.subject, result) == ("write_file", "a.txt", "[yes] done")
    lines = asked.change and [line for line in asked.change.diff.splitlines() if line[:2] != "@@"]
    assert lines == diff


async def test_what_a_stopped_program_used_is_unknown_and_not_nothing(robot: Robot) -> None:
    robot.plays([{"say": "I work."}, {"hang": 0}])
    session = await Session.open(Options(robot.project, profile="robot", below="robot"), env=robot.env)
    assert session.program is not None
    work = asyncio.create_task(session.program.delegate("robot", "go", "go"))
    async for envelope in session.events():
        if isinstance(envelope.event, TextDelta):
            break
    await session.stop("a.1")
    await work
    found = [
        one.event for one in await session.history() if one.agent == "a.1" and isinstance(one.event, AgentFinished)
    ]
    assert [(one.usage.cost_usd, one.usage.estimated) for one in found] == [(None, True)]
    await session.close()


async def test_what_a_person_says_with_a_no_reaches_the_program(robot: Robot) -> None:
    (robot.project / "a.txt").write_text("one\n")
    run = {"call": {"kind": "execute", "rawInput": {"command": "make test"}}}
    robot.plays([{"ask": {"call": change(("one", "1"))}}, {"ask": run}, {"say": " first"}], [{"say": "second"}])
    no, other = ApprovalAnswer("deny", reason="Leave that file."), ApprovalAnswer("allow", command="make check")
    _, result = await answered(robot, no, other)
    assert result == "second"
    assert robot.prompts()[1] == (
        "Not allowed: a.txt. Leave that file.\n\nNot allowed: make test. Run this instead: make check"
    )
