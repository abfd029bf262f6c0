"""The ladder of a profile: a cheap model first, a dearer one only where the check fails."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.console import CommandResult, Console
from tests.workspace.worktrees.repo_fixture import repository

PROFILE = """---
name: fixer
description: Fixes things.
models: [MODELS]
check: grep -q 42 answer.txt
allowedTools: [write_file, read_file]
mode: edits
MORE---
Fix it.
"""
ASKS = [
    {"calls": [{"name": "delegate_task", "arguments": {"profile": "fixer", "task": "Write 42 into answer.txt."}}]},
    {"text": "{results}"},
]


def model(console: Console, name: str, agent: str, turns: list[dict[str, Any]], cost: float = 1.0) -> str:
    price = {"input": cost, "output": cost}
    (console.home / f"{name}.json").write_text(json.dumps({"agents": {agent: turns}, "price": price}))
    return f"scripted:{console.home / name}.json"


def writes(text: str, says: str) -> list[dict[str, Any]]:
    write = {"name": "write_file", "arguments": {"path": "answer.txt", "content": text}}
    return [{"calls": [write]}, {"text": says}]


def climb(
    console: Console, cheap: list[dict[str, Any]], dear: list[dict[str, Any]], *more: str, keys: str = ""
) -> CommandResult:
    models = model(console, "cheap", "a.1", cheap), model(console, "dear", "a.1", dear, cost=100.0)
    folder = console.friday_home / "profiles"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "fixer.md").write_text(
        PROFILE.replace("MODELS", ", ".join(f'"{each}"' for each in models)).replace("MORE", keys)
    )
    root = model(console, "root", "a", ASKS)
    return console("ask", "go", "-m", root, "--mode", "edits", "--output-format", "json", *more)


def shown(console: Console, ran: CommandResult) -> str:
    return console.ok("sessions", "show", ran.document["session_id"], "--agent", "a.1").out


def test_the_dear_model_goes_on_where_the_check_fails(console: Console) -> None:
    dear = [{"text": "seen: {last}", "calls": writes("42\n", "")[0]["calls"]}, {"text": "It is 42 now."}]
    ran = climb(console, writes("41\n", "I wrote it."), dear)
    assert "It is 42 now." in ran.document["result"], ran
    assert (console.project / "answer.txt").read_text() == "42\n"
    text = shown(console, ran)
    assert (
        "scripted/cheap did not pass the check `grep -q 42 answer.txt`: it ended with exit code 1; scripted/dear takes over"
        in text
    )
    assert ("scripted/dear passed the check" in text, "[Evidence]" in text, "I wrote it." in text) == (True, True, True)
    assert "scripted/cheap did not pass the check" in ran.document["result"]  # the parent reads it in the receipt


def test_a_cheap_model_that_passes_is_all_that_is_paid(console: Console) -> None:
    ran = climb(console, writes("42\n", "done"), writes("42\n", "dear"))
    assert ("dear" in ran.document["result"], ran.document["cost_usd"] < 0.1) == (False, True), ran
    assert "scripted/cheap passed the check" in shown(console, ran)


def test_where_no_model_passes_the_run_failed(console: Console) -> None:
    ran = climb(console, writes("40\n", "first"), writes("41\n", "second"))
    assert (
        "scripted/dear did not pass the check `grep -q 42 answer.txt`: it ended with exit code 1."
        in ran.document["result"]
    )
    assert "failed" in shown(console, ran)


def test_all_rungs_have_one_budget(console: Console) -> None:
    dear = [{"calls": writes("41\n", "")[0]["calls"]}] * 9
    ran = climb(console, writes("40\n", "first"), dear, keys="maxIterations: 4\n")
    text = shown(console, ran)
    assert ("completed (turns)" in text, text.count("✓ write_file")) == (True, 3)


def main_agent(console: Console, first: list[dict[str, Any]], then: list[dict[str, Any]], *more: str) -> CommandResult:
    models = model(console, "cheap", "a", first), model(console, "dear", "a", then, cost=100.0)
    folder = console.friday_home / "profiles"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "fixer.md").write_text(
        PROFILE.replace("MODELS", ", ".join(f'"{each}"' for each in models)).replace("MORE", "")
    )
    return console("ask", "Write it.", "--profile", "fixer", "--mode", "edits", "--output-format", "json", *more)


def test_a_main_agent_climbs_too(console: Console) -> None:
    dear = [{"text": "seen: {last}", "calls": writes("42\n", "")[0]["calls"]}, {"text": "It is 42 now."}]
    ran = main_agent(console, writes("41\n", "I wrote it."), dear)
    assert (ran.code, ran.document["result"]) == (0, "It is 42 now."), ran
    text = console.ok("sessions", "show", ran.document["session_id"]).out
    assert ("scripted/dear passed the check" in text, "I wrote it." in text) == (True, True)
    (console.project / "answer.txt").unlink()
    failed = main_agent(console, writes("40\n", "first"), writes("41\n", "second"))
    assert (failed.code, "scripted/dear did not pass the check" in failed.err + failed.out) == (1, True), failed


def test_each_model_can_begin_with_the_files_as_they_were(console: Console) -> None:
    repository(console.project, **{"old.txt": "old\n"})
    looks = {"name": "read_file", "arguments": {"path": "answer.txt"}}
    both = [
        *writes("41\n", "")[0]["calls"],
        {"name": "write_file", "arguments": {"path": "old.txt", "content": "new\n"}},
    ]
    dear = [
        {"text": "seen: {last}", "calls": [looks, {"name": "read_file", "arguments": {"path": "old.txt"}}]},
        {"text": "now: {results} :now", "calls": writes("42\n", "")[0]["calls"]},
        {"text": "It is 42 now."},
    ]
    cheap = [{"calls": [{"name": "read_file", "arguments": {"path": "old.txt"}}]}, {"calls": both}, {"text": "done"}]
    ran = climb(console, cheap, dear, keys="isolation: worktree\nladder: fresh\n")
    text = shown(console, ran)
    assert "its changes were undone" in text
    seen = text.split("now:")[1].split(":now")[0]
    assert ("41" in seen, "answer.txt: no such file" in seen, "1\told" in seen) == (False, True, True), text
    assert "It is 42 now." in ran.document["result"]
    assert (console.project / "old.txt").read_text() == "old\n"


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ("models: [a, b]", "a ladder needs a check"),
        ("check: make test", "there are none"),
        ("models: [a]\ncheck: make test", "at least two models"),
        ("models: [a, b]\ncheck: make test\nmodel: c", "cannot be used together with models"),
        ("models: [a, b]\ncheck: make test\nladder: fresh", "fresh needs a worktree of its own"),
        ("ladder: fresh", "about several models, and there are none"),
    ],
)
def test_half_a_ladder_is_refused(console: Console, keys: str, problem: str) -> None:
    folder = console.friday_home / "profiles"
    folder.mkdir(parents=True)
    (folder / "half.md").write_text(f"---\nname: half\ndescription: x\n{keys}\n---\nDo it.\n")
    assert (
        problem
        in console("profiles", "check", str(folder / "half.md")).out
        + console("profiles", "check").err
        + console("profiles", "check").out
    )


def test_the_check_of_a_project_is_shown_before_it_is_trusted_and_needs_a_sandbox(console: Console) -> None:
    models = model(console, "cheap", "a.1", writes("42\n", "done")), model(console, "dear", "a.1", [])
    folder = console.project / ".friday" / "profiles"
    folder.mkdir(parents=True)
    (folder / "fixer.md").write_text(
        PROFILE.replace("MODELS", ", ".join(f'"{each}"' for each in models)).replace("MORE", "")
    )
    said = console("trust")
    assert "runs the command `grep -q 42 answer.txt`, in the sandbox and without keys" in said.out + said.err
    root = model(console, "root", "a", ASKS)
    ran = console("ask", "go", "-m", root, "--mode", "edits", "--trust", "--output-format", "json")
    assert "needs a sandbox, and none works here" in ran.document["result"]


def test_a_ladder_is_shown(console: Console) -> None:
    climb(console, [], [])
    assert "until `grep -q 42 answer.txt` passes" in console.ok("profiles", "show", "fixer").out


def test_a_ladder_is_replayed_with_the_models_and_checks_of_its_log(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(console.project)
    ran = climb(console, writes("41\n", "I wrote it."), writes("42\n", "It is 42 now."))
    (console.project / "answer.txt").write_text("nobody looks at this\n")
    session = ran.document["session_id"]
    same = console.ok("sessions", "replay", session)
    assert "replayed without a difference: 2 agents, 6 requests, 3 calls" in same.out
    assert (console.project / "answer.txt").read_text() == "nobody looks at this\n"
    console.ok("cassette", "add", session, "ladder")
    console.ok("cassette", "check")
    profile = console.friday_home / "profiles/fixer.md"
    profile.write_text(profile.read_text().replace("dear.json", "other.json"))
    other = console("sessions", "replay", session)
    assert (other.code, "a.1 turn 3: model" in other.out) == (1, True), other.out
    assert ("- scripted/dear" in other.out, "+ scripted/other" in other.out) == (True, True), other.out
    text = profile.read_text()
    profile.write_text(text.replace("check: grep -q 42 answer.txt\n", "").replace("models:", "#"))
    without = console("sessions", "replay", session)
    assert (without.code, "[missing]" in without.out or "[parameter]" in without.out) == (1, True), without.out


def test_a_check_that_was_not_recorded_is_named_and_not_run(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(console.project)
    ran = climb(console, writes("42\n", "done"), writes("42\n", "dear"))
    session = ran.document["session_id"]
    folder = console.project / ".friday/cassettes"
    console.ok("cassette", "add", session, "old")
    lines = (folder / "old.jsonl").read_text().splitlines()
    kept = [line for line in lines if '"kind": "checked"' not in line]
    assert len(kept) == len(lines) - 1
    (folder / "old.jsonl").write_text("\n".join(kept) + "\n")
    (console.project / "answer.txt").unlink()
    checked = console("cassette", "check")
    assert "the check `grep -q 42 answer.txt` runs now; it was not recorded [extra]" in checked.out, checked
