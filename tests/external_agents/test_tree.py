"""A tree of five agents, two of which are other programs: who asks, who gets which answer, and what is left after a stop."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.protocol.events import AgentFinished, PermissionAsked, TextDelta
from friday_cli.session.session import Options, Session
from tests.external_agents.conftest import Robot
from tests.external_agents.test_hostile import of_program

TURN = dict[str, Any]


def calls(name: str, **arguments: Any) -> TURN:
    return {"text": "", "calls": [{"name": name, "arguments": arguments}]}


async def test_questions_of_two_programs_and_two_models_are_answered_in_another_order_and_all_is_stopped(
    robot: Robot,
) -> None:
    run = {"kind": "execute", "rawInput": {"command": "make test"}}
    robot.plays([{"say": "I ask. "}, {"ask": {"call": run}}, {"until_cancelled": 0}])
    tasks = [
        {"profile": name, "task": f"part {n}"} for n, name in enumerate(("robot", "general", "general", "general"), 2)
    ]
    asks = [calls("bash", command="sleep 300; touch never"), {"text": "Done."}]
    agents = {
        "a": [calls("delegate_task", profile="robot", task="part 1", background=True), calls("delegate_tasks", tasks=tasks)],
        "a.*": asks,
    }  # fmt: skip
    scene = robot.home / "scene.json"
    scene.write_text(json.dumps({"agents": agents}), encoding="utf-8")
    options = Options(robot.project, model=f"scripted:{scene}", mode="ask", attended=True)
    session = await Session.open(options, env=robot.env)
    work = asyncio.create_task(session.prompt("go"))
    asked: dict[str, PermissionAsked] = {}
    said: dict[str, str] = {"a.1": "", "a.2": ""}
    async with asyncio.timeout(120):
        async for envelope in session.events():
            event, path = envelope.event, envelope.agent
            if isinstance(event, TextDelta) and path in said:
                said[path] += event.text
            if isinstance(event, PermissionAsked):
                asked[path] = event
                if len(asked) == 5:
                    for name in ("a.2", "a.5", "a.1"):  # a.3 and a.4 wait on
                        answer = ApprovalAnswer("allow" if name != "a.2" else "deny")
                        assert await session.answer(asked[name].id, answer)
            if "[no]" in said["a.2"] and "[yes]" in said["a.1"]:
                break
        assert {path: event.subject.partition(";")[0] for path, event in asked.items()} == {
            "a.1": "make test", "a.2": "make test", **dict.fromkeys(("a.3", "a.4", "a.5"), "sleep 300")
        }  # fmt: skip
        await session.stop("a")
        await work
        ended = {one.agent: one.event for one in await session.history() if isinstance(one.event, AgentFinished)}
    assert {path: end.status for path, end in ended.items()} == dict.fromkeys(("a", *asked), "cancelled")
    assert "I ask. [yes]" in ended["a.1"].result
    assert of_program(robot) == []
    await session.close()
    assert not (robot.project / "never").exists()
