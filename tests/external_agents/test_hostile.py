"""Programs that lie, hang, flood or die: the run ends in time with what there is, one line says why, and no process is left."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from friday_cli.external_agents import connection, driver
from tests.external_agents.conftest import Robot

ASK = {"call": {"kind": "read", "locations": [{"path": "a.txt"}]}}


def of_program(robot: Robot) -> list[str]:
    """The processes that were started by a program of this test."""
    found = []
    for pid in (name for name in os.listdir("/proc") if name.isdigit()):
        try:
            environ = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if f"HOME={robot.home}/data/spill".encode() in environ:
            found.append(pid)
    return found


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine answers a cancel late."""
    monkeypatch.setattr(driver, "CANCEL_S", 60.0)


@pytest.mark.parametrize(
    ("steps", "script", "words"),
    [
        ([{"die": 3}], {}, "robot ended with exit code 3 before it was done. It wrote: a fault of its own"),
        ([{"ask": {**ASK, "die": True}}], {}, "robot ended with exit code 3 before it was done"),
        ([{"say": "so far"}, {"hang": 0}], {}, "Nothing came from robot for 3 s."),
        ([{"answer": {"never": True}}], {}, "Nothing came from robot for 3 s."),
        ([{"flood": 20}, {"say": "late"}], {}, "it wrote more than 16 MB that are not messages"),
        ([{"raw": '{"jsonrpc": "2.0", "method": "x", "params": {"a": "' + "x" * 9_000_000 + '"}}'}], {}, "is too long"),
        ([{"answer": {"stopReason": "cancelled"}}], {}, "robot ended without an answer (cancelled)"),
        ([{"answer": {"stopReason": "refusal"}}], {}, "robot refused to answer"),
        ([{"think": "only"}], {}, "robot gave an empty answer"),
        ([], {"silent": ["initialize"]}, "robot did not answer initialize within 2 s."),
        ([], {"errors": {"session/prompt": {"code": 1, "message": "\x1b[2Jbroken"}}}, "robot: broken"),
    ],
)
def test_a_failure_ends_the_run_with_one_line(
    robot: Robot, monkeypatch: pytest.MonkeyPatch, steps: list[Any], script: dict[str, Any], words: str
) -> None:
    if "silent" in script:
        monkeypatch.setattr(connection, "INITIALIZE_S", 2.0)
    if words.startswith("Nothing came"):
        monkeypatch.setattr(driver, "QUIET_S", 1.0)
        monkeypatch.setattr(driver, "SILENT_S", 3.0)
    robot.plays(steps, **script)
    ran = robot.ask("go", "--mode", "auto")
    agent = ran.agent("a.1")
    assert ran.code == 1
    assert words in agent["error"]
    assert "\n" not in agent["error"]
    if any("say" in step and "hang" in steps[-1] for step in steps):
        assert ran.document["result"] == "so far"
    assert of_program(robot) == []


@pytest.mark.parametrize("words", [["true"], ["echo", "hello"], ["sh", "-c", "echo '{}'; read x"]])
def test_a_program_that_does_not_speak_the_protocol(robot: Robot, words: list[str]) -> None:
    robot.profile("robot", f"external: {{acp: {json.dumps(words)}}}")
    ran = robot.ask()
    assert ran.code == 1
    assert "robot" in ran.agent("a.1")["error"]


@pytest.mark.parametrize(
    ("steps", "script", "result"),
    [
        ([{"say": "one"}], {"twice": True}, "one"),
        ([{"raw": "npm warn something"}, {"raw": "[1]"}, {"say": "one"}], {}, "one"),
        ([{"update": {"what": "agent_message_chunk", "in_session": "other", "content": {"type": "text", "text": "no"}}},
          {"say": "one"}], {}, "one"),
        ([{"ask": {**ASK, "session": "other"}}, {"say": " one"}], {}, "[This is not the session of this agent.] one"),
        ([{"request": {"method": "fs/write_text_file", "params": {"sessionId": "s-1", "path": "x", "content": ""}}},
          {"request": {"method": "craft/drainMidTurnQueue", "params": {}}}], {}, "[-32601][-32601]"),
        ([{"say": "\x1b]0;title\x07red\u202e\x1b[31m!\x9b2J"}], {}, "red!"),
        ([{"update": {"what": "tool_call", "toolCallId": 7}}, {"update": {"what": "plan", "entries": 3}},
          {"update": {"what": "usage_update", "used": -1, "cost": "x"}}, {"say": "one"}], {}, "one"),
    ],
)  # fmt: skip
def test_nonsense_changes_nothing(robot: Robot, steps: list[Any], script: dict[str, Any], result: str) -> None:
    robot.plays(steps, **script)
    ran = robot.ask("go")
    assert (ran.code, ran.document["result"]) == (0, result)


def test_what_it_starts_ends_with_it(robot: Robot) -> None:
    robot.plays([{"start": "trap '' TERM HUP; sleep 300"}, {"start": "setsid sleep 300"}, {"say": "done"}])
    assert robot.ask().document["result"] == "done"
    assert of_program(robot) == []


def test_a_limit_leads_to_a_last_prompt_in_which_questions_are_refused(robot: Robot) -> None:
    work = [{"run": "true"}, {"say": "a"}] * 3
    robot.plays([*work, {"until_cancelled": 0}], [{"ask": ASK}, {"say": " This far."}])
    ran = robot.ask("go", "--max-turns", "2", "--yolo")
    assert ran.document["stop_reason"] == "iterations"
    assert ran.document["result"] == "[no] This far."
    assert "You have used all your turns" in robot.prompts()[-1]


def test_a_program_that_hangs_after_a_cancel_is_ended_with_its_partial_text(
    robot: Robot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "CANCEL_S", 0.5)
    robot.plays([{"say": "So far."}, {"run": "true"}, {"say": "a"}, {"hang": 0}])
    ran = robot.ask("go", "--max-turns", "1", "--yolo")
    assert ran.document["stop_reason"] == "iterations"
    assert "So far." in ran.document["result"]
    assert of_program(robot) == []


def test_time_ends_it(robot: Robot) -> None:
    robot.plays([{"say": "So far."}, {"until_cancelled": 0}], [{"say": "In time."}])
    ran = robot.ask("go", "--timeout", "8")  # in which it has begun on a busy machine, too
    assert (ran.document["status"], ran.document["result"]) == ("timeout", "In time.")


def test_lies_are_told_apart_from_what_was_seen(robot: Robot) -> None:
    robot.in_git()
    robot.plays(
        [{"claim_edit": "never.txt"}, {"write": {"quiet.txt": "x\n"}}, {"claim_run": "make test"}, {"say": "All tests pass."}]
    )  # fmt: skip
    ran = robot.ask("go", "--mode", "auto")
    receipt = ran.agent("a.1")["receipt"]
    assert [row["path"] for row in receipt["files"]] == ["quiet.txt"]
    assert receipt["reported"] == ["changed never.txt", "ran make test -> ok"]
    assert any("never.txt" in text for text in receipt["warnings"])


def test_an_ended_agent_goes_on_in_its_own_session_or_with_the_text_of_it(robot: Robot) -> None:
    robot.plays([{"say": "first"}], features={"sessionCapabilities": {"resume": {}}})
    session = robot.ask("The task.").document["session_id"]
    robot.record.unlink()
    robot.plays([{"say": "second"}], features={"sessionCapabilities": {"resume": {}}})
    assert robot.json("More.", "--resume-agent", f"{session}:a.1").document["result"] == "second"
    assert [one["method"] for one in robot.received][1] == "session/resume"
    assert robot.prompts() == ["More."]
    robot.plays([{"say": "third"}])
    robot.record.unlink()
    assert robot.json("Again.", "--resume-agent", f"{session}:a.1").document["result"] == "third"
    assert "The task." in robot.prompts()[0]
    assert "You said:\nsecond" in robot.prompts()[0]
