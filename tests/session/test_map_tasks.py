"""`map_tasks` with a person: one question, and interrupts."""

from __future__ import annotations

import json

import pytest

from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.protocol.events import AgentStarted, PermissionAsked, ToolFinished
from friday_cli.frontends.options import map_tool
from tests.session.harness import Harness

CALL = {"profile": "summarizer", "task": "Look at {item}.", "items": list("abcdefghijkl"), "max_cost": 1}


@pytest.mark.parametrize("when", ["asked", "running", "never"])
async def test_a_person_is_asked_once_and_an_interrupt_ends_the_call(harness: Harness, when: str) -> None:
    slow = {"delay_s": 60} if when == "running" else {}
    play = {
        "a": [{"calls": [{"name": "map_tasks", "arguments": CALL}]}, {"text": "done"}],
        "a.*": {"turns": [], "otherwise": {"text": "found", **slow}},
    }
    harness.scenario.write_text(json.dumps({"price": {"input": 1.0, "output": 5.0}, "agents": play}))
    asked: list[PermissionAsked] = []
    flags = {"agents.delegation.batches": True}
    async with harness.session(attended=True, flags=flags, map_tool=map_tool) as session:
        run = session.start("go")
        async for envelope in session.events():
            match envelope.event:
                case PermissionAsked() as question:
                    asked.append(question)
                    if when == "asked":
                        break
                    await session.answer(question.id, ApprovalAnswer("allow"))
                case AgentStarted(parent="a") if when == "running":
                    break
                case ToolFinished():
                    break
        if when != "never":
            await session.stop()
        await session.result(run)
    (question,) = asked
    assert question.subject == "summarizer: 12 items: the cost is unknown (no runs yet), cap $1.00"
    assert question.rule == ""
    log = await harness.log(session.id)
    (end,) = [e.event for e in log if isinstance(e.event, ToolFinished)]
    assert end.text is not None
    words = {"asked": "was stopped", "running": "12 waiting", "never": "12 items: 12 done"}
    assert words[when] in end.text
