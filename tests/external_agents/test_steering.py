"""A message to an external agent at work, and pictures, which it does not take."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from friday_cli.core.protocol.events import TextDelta
from friday_cli.session.session import Options, Session
from tests.external_agents.conftest import Robot

OFFERED = {"_meta": {"steering": {"supported": True}}}
INJECTED = {"result": {"outcome": "injected"}}


@pytest.mark.parametrize(
    ("about", "how", "result", "prompts"),
    [
        (OFFERED, INJECTED, "I work. [Use tabs.] done", 1),
        (OFFERED, {"result": {"outcome": "promptRequired"}}, "second", 2),
        (OFFERED, {"error": {"code": -32603, "message": "no"}}, "second", 2),
        (OFFERED, {"result": {}}, "second", 2),
        ({}, INJECTED, "second", 2),
        ({"_meta": {"steering": "yes"}}, INJECTED, "second", 2),
    ],
)
async def test_a_message_is_read_during_the_prompt_or_with_the_next(
    robot: Robot, about: dict[str, Any], how: dict[str, Any], result: str, prompts: int
) -> None:
    go_on = robot.project / "go-on"
    wait: dict[str, Any] = {"until_steered": how} if about == OFFERED else {"until_file": str(go_on)}
    robot.plays([{"say": "I work. "}, wait, {"say": " done"}], [{"say": "second"}], about=about)
    session = await Session.open(Options(robot.project, profile="robot", below="robot"), env=robot.env)
    assert session.program is not None
    work = asyncio.create_task(session.program.delegate("robot", "go", "go"))
    async for envelope in session.events():
        if isinstance(envelope.event, TextDelta) and envelope.agent == "a.1":
            break
    await session.send("a.1", "Use tabs.")
    go_on.touch()
    assert (await work).text == result
    await session.close()
    steered = [one for one in robot.received if one.get("method") == "_session/steering"]
    assert [one["params"]["_meta"] for one in steered] == [
        {"steering": {"idleBehavior": "promptRequired"}} for _ in range(about == OFFERED)
    ]
    assert robot.prompts() == ["You are the robot.\n\ngo", "Use tabs."][:prompts]


def picture(robot: Robot) -> None:
    (robot.project / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 40)


def test_a_picture_reaches_a_program_that_takes_pictures(robot: Robot) -> None:
    robot.plays([{"say": "a cat"}], features={"promptCapabilities": {"image": True}})
    picture(robot)
    assert robot.ask("What is in @a.png?").document["result"] == "a cat"
    (asked,) = [one["params"]["prompt"] for one in robot.received if one.get("method") == "session/prompt"]
    assert [part["type"] for part in asked] == ["text", "image"]
    assert asked[1]["mimeType"] == "image/png"


def test_a_picture_is_refused_where_it_cannot_be_seen(robot: Robot) -> None:
    robot.plays([{"say": "never"}])
    picture(robot)
    ran = robot.ask("What is in @a.png?")
    assert (ran.code, robot.prompts()) == (1, [])
    assert "robot takes no pictures. Name the file without @" in ran.agent("a.1")["error"]
    again = robot("--resume-agent", f"{ran.document['session_id']}:a.1", "And in @a.png?")
    assert (again.code, "takes no pictures" in again.err) == (2, True)
