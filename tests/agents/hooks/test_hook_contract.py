"""What hooks read is what Claude Code 2.1.330 gives them: recorded there, key for key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from friday_cli.extensions.hooks.hook import EVENTS
from tests.agents.hooks.hook_files import Recorder, own_hooks
from tests.session.harness import Harness, delegates, does, says

COMMON = {"session_id": str, "transcript_path": str, "cwd": str, "hook_event_name": str}
PROMPT, MODE, EFFORT = {"prompt_id": str}, {"permission_mode": str}, {"effort": {"level": str}}
CALL = {"tool_name": str, "tool_input": dict, "tool_use_id": str}
BASH = {"stdout": str, "stderr": str, "interrupted": bool, "isImage": bool, "noOutputExpected": bool}
STOP = {"stop_hook_active": bool, "last_assistant_message": str, "background_tasks": list, "session_crons": list}
CHILD = {"agent_id": str, "agent_type": str}
STATS = ("readCount", "searchCount", "bashCount", "editFileCount", "linesAdded", "linesRemoved", "otherToolCount")
AGENT = {
    "status": str, "prompt": str, "agentId": str, "agentType": str, "toolsUsed": list, "content": list,
    "resolvedModel": str, "totalDurationMs": int, "totalTokens": int, "totalToolUseCount": int, "usage": dict,
    "toolStats": dict.fromkeys(STATS, int), "canContinueAgent": bool,
}  # fmt: skip
"""Not ours: harnessNoteCount, harnessTailCount and harnessSectionHash, which tell of notes inside Claude Code."""
CHILD_CALL = {**CHILD, **CALL}
ALL = {**COMMON, **PROMPT, **MODE, **EFFORT}
TABLE: list[tuple[str, dict[str, object], dict[str, Any]]] = [
    ("SessionStart", {}, {**COMMON, "source": str}),
    ("UserPromptSubmit", {}, {**COMMON, **PROMPT, **MODE, "prompt": str}),
    ("PreToolUse", {"tool_name": "Bash"}, {**ALL, **CALL, "tool_input": {"command": str}}),
    ("PermissionRequest", {"tool_name": "Write"}, {
        **ALL, "tool_name": str, "tool_input": {"file_path": str, "content": str},
        "permission_suggestions": [{"type": str, "mode": str, "destination": str}],
    }),
    ("PostToolUse", {"tool_name": "Bash"}, {**ALL, **CALL, "tool_response": BASH, "duration_ms": int}),
    ("PostToolUseFailure", {}, {**ALL, **CALL, "error": str, "is_interrupt": bool, "duration_ms": int}),
    ("PostToolBatch", {}, {**ALL, "tool_calls": [
        {"tool_name": str, "tool_input": dict, "tool_use_id": str, "tool_response": str},
    ]}),
    ("PreToolUse", {"tool_name": "Agent"}, {**ALL, **CALL, "tool_input": {
        "description": str, "prompt": str, "subagent_type": str, "run_in_background": bool,
    }}),
    ("SubagentStart", {}, {**COMMON, **PROMPT, **CHILD}),
    ("PreToolUse", {"tool_name": "Read"}, {**ALL, **CHILD_CALL, "tool_input": {"file_path": str}}),
    ("PostToolUse", {"tool_name": "Read"}, {**ALL, **CHILD_CALL, "tool_response": dict, "duration_ms": int}),
    ("SubagentStop", {}, {**ALL, **CHILD, **STOP, "agent_transcript_path": str}),
    ("PostToolUse", {"tool_name": "Agent"}, {**ALL, **CALL, "tool_response": AGENT, "duration_ms": int}),
    ("Stop", {}, {**ALL, **STOP}),
    ("SessionEnd", {}, {**COMMON, **PROMPT, "reason": str}),
]  # fmt: skip
"""Event, which of its inputs, and its recorded keys with their types. MessageDisplay is not ours: events are its equal."""


def differences(wanted: Any, found: Any, where: str = "") -> list[str]:
    """The keys of `wanted` that `found` lacks or has with another type."""
    if isinstance(wanted, dict):
        if not isinstance(found, dict):
            return [f"{where}: {found!r}"]
        return [line for key in wanted for line in differences(wanted[key], found.get(key), f"{where}.{key}")]
    if isinstance(wanted, list):
        rows = found if isinstance(found, list) and found else [None]
        return [line for row in rows for line in differences(wanted[0], row, f"{where}[]")]
    exact = isinstance(found, wanted) and (wanted is bool or not isinstance(found, bool))
    return [] if exact else [f"{where}: {found!r}"]


def read(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


@pytest.fixture
async def recorded(harness: Harness, tmp_path: Path) -> list[dict[str, Any]]:
    recorder = Recorder(tmp_path / "inputs")
    own_hooks(recorder.hooks(*EVENTS))
    (harness.project / "a.txt").write_text("text\n")
    harness.plays(
        {
            "a": [
                does(("bash", {"command": "echo hello"}), ("bash", {"command": "false"})),
                does(("write_file", {"path": "new.txt", "content": "x"})),
                delegates("researcher"),
                says("done"),
            ],
            "a.1": [does(("read_file", {"path": "a.txt"})), does(("task_result", {"result": "fine", "success": True}))],
        }
    )
    await harness.ran(allow=("bash",))
    return recorder.inputs()


async def test_the_input_of_each_event_has_the_recorded_keys(recorded: list[dict[str, Any]]) -> None:
    for event, which, keys in TABLE:
        found = [one for one in recorded if one["hook_event_name"] == event and which.items() <= one.items()]
        assert found, (event, which)
        assert [line for one in found for line in differences(keys, one, event)] == []
        for one in found:  # these have no mode there
            assert ("permission_mode" in one) == (event not in ("SessionStart", "SubagentStart", "SessionEnd"))
            assert one["friday"].keys() >= {"version", "agent", "parent", "depth", "profile", "task", "budget"}
    ran = [one["tool_response"] for one in recorded if one["hook_event_name"] == "PostToolUse"]
    assert [one["stdout"] for one in ran if "stdout" in one] == ["hello"]  # without our note about its end
    (ended,) = (one for one in recorded if one["hook_event_name"] == "SubagentStop")
    rows = [json.loads(line) for line in read(ended["agent_transcript_path"]).splitlines()]
    assert [row["type"] for row in rows] == ["user", "assistant", "user", "assistant", "user"]
    (started,) = (one for one in recorded if one["hook_event_name"] == "SubagentStart")
    assert started["friday"]["task"] == "look"
    assert started["friday"]["limits"]["max_tokens"] > 0
    agent = next(one for one in recorded if one.get("tool_name") == "Agent" and one["hook_event_name"] == "PreToolUse")
    assert agent["friday"]["estimate"]["agents"] == 1
    (usual,) = agent["friday"]["estimate"]["usual"]
    assert (usual["runs"], usual["tokens"], usual["suggested_tokens"]) == (0, None, None)
