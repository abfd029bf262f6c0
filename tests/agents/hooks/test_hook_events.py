"""Events of a session's life beside calls: which hooks they fire, and how a hook stops a run at each of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from friday_cli.core.protocol.events import AgentFinished
from tests.agents.hooks.hook_files import Recorder, hook, own_hooks
from tests.session.harness import Harness, delegates, does, says
from tests.workspace.worktrees.repo_fixture import repository

OFF = {"sandbox.kind": "none"}
STOP = "echo '" + json.dumps({"continue": False, "stopReason": "enough"}) + "'"
BLOCK = "echo more >&2; exit 2"
ENDED = ("completed", "done")
REFUSED = ("failed", "hook")
WORK = [does(("bash", {"command": "touch new"})), delegates("coder"), says("done"), says("again")]
STOPS: dict[str, tuple[str, dict[str, tuple[str, str]]]] = {
    "a prompt": ("UserPromptSubmit", {"a": REFUSED}),
    "a call": ("PreToolUse", {"a": REFUSED}),
    "a question": ("PermissionRequest", {"a": REFUSED}),
    "a result": ("PostToolUse", {"a": REFUSED}),
    "the calls of a reply": ("PostToolBatch", {"a": REFUSED}),
    "the start of a child": ("SubagentStart", {"a": ENDED, "a.1": REFUSED}),
    "the end of a child": ("SubagentStop", {"a": ENDED, "a.1": ENDED}),
    "the end": ("Stop", {"a": ENDED, "a.1": ENDED}),
}
"""What is going on, the event, and how the agents end."""


@pytest.mark.parametrize("kind", STOPS)
async def test_continue_false_ends_the_run_at_each_event(harness: Harness, kind: str) -> None:
    event, wanted = STOPS[kind]
    ends = event in ("Stop", "SubagentStop")  # there it wins over a hook that sends back to work
    own_hooks({event: [hook(STOP), *([hook(BLOCK)] if ends else [])]})
    harness.plays({"a": WORK, "a.1": [says("fine"), says("again")]})
    session = await harness.ran(flags=OFF, allow=() if event == "PermissionRequest" else ("bash",))
    log = await harness.log(session.id)
    ended = {e.agent: e.event for e in log if isinstance(e.event, AgentFinished)}
    assert {path: (end.status, end.stop_reason) for path, end in ended.items()} == wanted
    results = {"a": "done", "a.1": "fine"}
    assert all(end.result == results[path] for path, end in ended.items() if end.status == "completed")
    assert all("enough" in end.error for end in ended.values() if end.stop_reason == "hook")


@pytest.mark.parametrize("changes", [True, False], ids=["discarded", "unchanged"])
async def test_worktrees_notifications_and_unawaited_hooks_fire(
    harness: Harness, tmp_path: Path, changes: bool
) -> None:
    recorder = Recorder(tmp_path / "inputs")
    own_hooks(
        {
            **recorder.hooks("WorktreeCreate", "WorktreeRemove", "Notification"),
            "PreToolUse": [hook(f"{recorder.command}; echo never >&2; exit 2", matcher="Agent", **{"async": True})],
        }
    )
    repository(harness.project)
    child = ("delegate_task", {"profile": "coder", "task": "alone", "isolation": "worktree"})
    harness.plays(
        {
            "a": [does(child), says("done")],
            "a.1": [*[does(("write_file", {"path": "new", "content": "x"}))] * changes, says("fine")],
        }
    )
    async with harness.after_run(flags=OFF, mode="yolo") as session:
        if changes:
            await session.discard_worktree("a.1")
    ((status, _),) = await harness.results(session.id, "a")
    assert status == "ok"  # the answer of a hook that nothing waits for does not count
    assert len(recorder.inputs("PreToolUse")) == 1  # it has ended when the session is closed
    (created,) = recorder.inputs("WorktreeCreate")
    (removed,) = recorder.inputs("WorktreeRemove")
    assert created["friday"]["name"] == created["name"] == removed["friday"]["name"]
    assert removed["worktree_path"] == created["friday"]["folder"]
    told = {
        one["notification_type"]: (one["friday"]["agent"], one["message"]) for one in recorder.inputs("Notification")
    }
    assert told.keys() == {"agent_completed", "idle_prompt"}
    assert told["idle_prompt"] == ("a", "Friday is waiting for your input")
    assert told["agent_completed"][0] == "a.1"


COMPACTIONS: dict[str, tuple[str, bool]] = {
    "reported": ("true", True),
    "blocked": (BLOCK, False),
    "stopped": (STOP, False),
    "for another trigger": (BLOCK, True),
}


@pytest.mark.parametrize("kind", COMPACTIONS)
async def test_a_compaction_is_reported_and_can_be_blocked(harness: Harness, tmp_path: Path, kind: str) -> None:
    command, happens = COMPACTIONS[kind]
    recorder = Recorder(tmp_path / "inputs")
    matcher = "auto" if kind == "for another trigger" else "manual"
    own_hooks(
        {
            **recorder.hooks("PostCompact"),
            "PreCompact": [hook(recorder.command), hook(command, matcher=matcher)],
            "SessionStart": [hook("echo the tests need node 24", matcher="compact")],
        }
    )
    harness.plays({"a": [says("one"), says("The summary.")]})
    async with harness.after_run(flags=OFF) as session:
        before: list[Any] = list(session._main.agent.conversation.history)
        if happens:
            await session.compact("keep the names")
        else:
            with pytest.raises(Exception, match=r"more|enough"):
                await session.compact("keep the names")
            assert session._main.agent.conversation.history == before
        texts = [message.text for message in session._main.agent.conversation.history]
    (asked,) = recorder.inputs("PreCompact")
    assert (asked["trigger"], asked["custom_instructions"]) == ("manual", "keep the names")
    assert [one["compact_summary"] for one in recorder.inputs("PostCompact")] == ["The summary."] * happens
    assert any("the tests need node 24" in text for text in texts) == happens
