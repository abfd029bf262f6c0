from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings

from friday_cli.core.protocol import events as ev
from friday_cli.core.protocol.decode import decode_envelope
from friday_cli.core.protocol.displays import DiffDisplay
from friday_cli.core.protocol.events import AgentStarted, Envelope, MessageAdded, encode
from friday_cli.core.protocol.messages import Image, Message, Text, ToolCall, ToolResult, user
from friday_cli.view.reports import FORMATS, FormatName, RecordedSession
from tests.scenarios import logs, numbered, results, said, tree

KEY = "sk-" + "ant-api03-" + "x" * 40
FEW = settings(max_examples=40)


def export(log: list[Envelope], form: FormatName, *, version: str, title: str = "") -> str:
    return FORMATS[form].write(RecordedSession("7f3a", log, version, title))


def atif(log: list[Envelope]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(export(log, "atif", version="1.0"))
    return document


def faults(document: dict[str, Any]) -> list[str]:
    """What breaks the rules of ATIF v1.7 (Harbor's RFC 0001, and the checks of its validator)."""
    found: list[str] = []

    def keys(where: str, value: dict[str, Any], needed: set[str], allowed: set[str]) -> None:
        if missing := needed - value.keys():
            found.append(f"{where}: {missing} missing")
        if odd := value.keys() - needed - allowed:
            found.append(f"{where}: {odd} unknown")

    optional = {"session_id", "trajectory_id", "notes", "final_metrics", "extra", "subagent_trajectories"}
    keys("trajectory", document, {"schema_version", "agent", "steps"}, optional | {"continued_trajectory_ref"})
    if document.get("schema_version") != "ATIF-v1.7":
        found.append("schema_version")
    keys("agent", document["agent"], {"name", "version"}, {"model_name", "tool_definitions", "extra"})
    if not document["steps"]:
        found.append("no steps")
    children = document.get("subagent_trajectories", [])
    names = [child.get("trajectory_id") for child in children]
    if None in names or len(set(names)) != len(names):
        found.append("trajectory_id of children")
    agent_only = {"model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics", "observation"}
    for number, step in enumerate(document["steps"], 1):
        where = f"step {number}"
        keys(where, step, {"step_id", "source", "message"}, agent_only | {"timestamp", "extra"})
        if step["step_id"] != number or step["source"] not in ("system", "user", "agent"):
            found.append(f"{where}: id or source")
        if step["source"] != "agent" and agent_only & step.keys():
            found.append(f"{where}: fields of an agent")
        datetime.fromisoformat(step["timestamp"].replace("Z", "+00:00"))
        calls = {call["tool_call_id"] for call in step.get("tool_calls", [])}
        for call in step.get("tool_calls", []):
            keys(where, call, {"tool_call_id", "function_name", "arguments"}, {"extra"})
            if not isinstance(call["arguments"], dict):
                found.append(f"{where}: arguments")
        for result in step.get("observation", {"results": []})["results"]:
            keys(where, result, {"source_call_id", "content"}, {"subagent_trajectory_ref", "extra"})
            if result["source_call_id"] not in calls:
                found.append(f"{where}: result without a call")
            for ref in result.get("subagent_trajectory_ref", []):
                if ref["trajectory_id"] not in names:
                    found.append(f"{where}: {ref} leads nowhere")
    for child in children:
        found += faults(child)
    return found


def test_markdown_without_a_title_is_headed_by_the_first_prompt() -> None:
    again = AgentStarted(2, "general", "and then?", "m")
    log = [*tree("7f3a"), *numbered(("a", again), first=100)]
    assert export(log, "md", version="1").startswith("# Count the lines of main.py\n")


def test_atif_of_a_delegation() -> None:
    document = atif(tree("7f3a"))
    assert faults(document) == []
    assert (document["session_id"], document["trajectory_id"]) == ("7f3a", "7f3a:a")
    assert document["agent"]["model_name"] == "acme/small"
    assert document["agent"]["tool_definitions"][0]["function"]["name"] == "read_file"
    assert [step["source"] for step in document["steps"]] == ["system", "user", "agent", "agent"]
    asked = document["steps"][2]
    assert asked["metrics"]["prompt_tokens"] == 500
    assert asked["observation"]["results"][0]["content"] == "It has 2 lines."
    assert asked["observation"]["results"][0]["subagent_trajectory_ref"][0]["trajectory_id"] == "7f3a:a.1"
    assert document["final_metrics"]["total_completion_tokens"] == 48
    assert document["final_metrics"]["total_cost_usd"] == 1.25
    assert document["final_metrics"]["extra"]["tree"]["cost_usd"] == 2.0
    child = document["subagent_trajectories"][0]
    assert child["final_metrics"]["total_prompt_tokens"] == 230
    assert child["final_metrics"]["total_cached_tokens"] == 100
    assert child["steps"][0]["extra"] == {"from": "parent"}
    assert child["extra"]["receipt"]["tools"] == {"read_file": 1}


@FEW
@given(logs())
def test_every_session_is_valid_atif_and_json(log: list[Envelope]) -> None:
    kept = [e for e in log if e.seq is not None]
    assert faults(atif(kept)) == []
    document = json.loads(export(kept, "json", version="1.0"))
    assert [decode_envelope(encode(e)).seq for e in kept] == [e["seq"] for e in document["events"]]
    assert export(kept, "md", version="1.0").endswith("\n")


def test_atif_tells_of_unreadable_arguments_compaction_and_pictures() -> None:
    log = numbered(("a", AgentStarted(1, "p", "t", "m")),
                   ("a", said("", ToolCall("c", "bash", error="not JSON", raw='{"command'))) ,
                   ("a", results(ToolResult("c", "bad", "error", (Image("image/png", "QUJD"),)))),
                   ("a", ev.Compacted((user("so far: nothing"),), 900, 100)),
                   ("a", MessageAdded(Message("user", (Text("look"), Image("image/png", "QUJDREVG"))))))  # fmt: skip
    document = atif(log)
    assert faults(document) == []
    first, second, third = document["steps"]
    assert first["tool_calls"][0] == {
        "tool_call_id": "c",
        "function_name": "bash",
        "arguments": {},
        "extra": {"error": "not JSON", "raw": '{"command'},
    }
    assert first["observation"]["results"][0]["content"] == "bad\n[image/png, 3 bytes, omitted]"
    assert second["extra"]["context_management"] == {"type": "compaction", "tokens_before": 900, "tokens_after": 100}
    assert third["message"] == "look\n[image/png, 6 bytes, omitted]"


def test_secrets_and_controls_leave_no_export() -> None:
    nasty = f"token {KEY} \x1b]0;owned\x07\x9b31m\u202eend"
    log = numbered(("a", ev.SessionStarted(1, "s", nasty, nasty)), ("a", AgentStarted(1, nasty, nasty, nasty)),
                   ("a", MessageAdded(user(nasty))), ("a", said(nasty, ToolCall(nasty, nasty, {nasty: [nasty]}))),
                   ("a", ev.ToolStarted(nasty, nasty, nasty)),
                   ("a", ev.ToolFinished(nasty, nasty, "ok", 1.0, DiffDisplay(nasty, nasty))),
                   ("a", results(ToolResult(nasty, nasty))), ("a", ev.Notice(nasty)))  # fmt: skip
    for form in ("md", "json", "atif"):
        text = export(log, form, version="1.0")
        assert KEY not in text
        assert not [c for c in text if (ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0 or c == "\u202e"], form
        assert "end" in text


@pytest.mark.parametrize("form", ["md", "html", "json", "atif", "perfetto"])
@pytest.mark.parametrize(
    ("secret", "text"),
    [
        ("hunter2hunter2", "https://me:hunter2hunter2@host.example/"),
        ("b2c3d4e5f6a7b8c9d0e1f2", "ghp_a1b2c3d4e5f6a7b8c9d0e1f2"),
        ("abcdefghijklmnop", "sk-abcdefghijklmnop"),
        ("abcdefghijklmnop", "sk-abcdef\u200bghijk\x1b[0mlmnop"),
    ],
)
def test_a_secret_is_masked_wherever_its_text_is_cut_or_escaped(form: str, secret: str, text: str) -> None:
    """Titles and labels are cut, and Markdown's characters escaped: half of a key is not recognized as one."""
    for before in (0, 20, 80, 90, 185, 192, 290, 385, 985):
        nasty = f"{'x' * before} {text} {'y' * 2000}"
        log = numbered(("a", ev.SessionStarted(1, "s", "/w", "1")), ("a", AgentStarted(1, "general", nasty, "m")),
                       ("a", MessageAdded(user(nasty))), ("a", said("done", ToolCall("c", "bash", {"command": nasty}))),
                       ("a", ev.ToolStarted("c", "bash", nasty)), ("a", results(ToolResult("c", nasty))), ("a", ev.Notice(nasty)))  # fmt: skip
        shown = export(log, form, version="1.0").replace("\\", "")
        assert secret[:9] not in shown, (form, before)


def test_markdown_shows_the_conversation_and_lets_no_text_pose_as_another() -> None:
    log = numbered(("a", ev.SessionStarted(1, "s", "/w", "1")), ("a", AgentStarted(1, "general", "do *it* <b>", "m")),
                   ("a", MessageAdded(user("do *it* <b>"))),
                   ("a", said("done\n\n### You\n\nyes, delete all", ToolCall("c", "bash", {"command": "ls"}))),
                   ("a", ev.ToolStarted("c", "bash", "ls `x`")), ("a", results(ToolResult("c", "a\n```\n### You\nb"))))  # fmt: skip
    text = export(log, "md", version="1.0")
    assert text.startswith("# do \\*it\\* \\<b\\>\n")
    assert text.count("\n### You\n") == 2  # the person's own, and the one inside the fenced output
    assert "\n> ### You\n" in text
    assert "\n````\na\n```\n### You\nb\n````\n" in text
    assert "**bash** `` ls `x` `` (ok)" in text


def test_our_json_has_every_event_and_agent() -> None:
    document = json.loads(export(tree("s"), "json", version="1.0"))
    assert [agent["path"] for agent in document["agents"]] == ["a", "a.1"]
    assert document["agents"][0]["tree_usage"]["cost_usd"] == 2.0
    assert len(document["events"]) == len(tree())
    assert decode_envelope(json.dumps(document["events"][5])) == tree()[5]
