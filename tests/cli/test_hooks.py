"""`friday hooks`, the trust question, the doctor and the pages about hooks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from jsonschema import Draft202012Validator

from friday_cli.extensions import trust, trust_review
from friday_cli.extensions.hooks.hook import HooksFile
from tests.agents.hooks.hook_files import answer, hook, own_hooks, project_hooks
from tests.cli.console import Console

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs/hooks.md").read_text(encoding="utf-8")
GUARD = [
    hook("echo no >&2; exit 2", matcher="Bash", **{"if": "Bash(git push *)"}),
    hook(answer("PreToolUse"), matcher="Write"),
]


def test_list_and_test_show_what_would_run_and_what_it_answers(console: Console) -> None:
    assert "no hooks" in console("hooks", "list").err
    own_hooks({"PreToolUse": GUARD, "Later": [hook("true")], "Stop": [{"hooks": [{"type": "prompt", "prompt": "x"}]}]})
    listed = console("hooks", "list", "--json").document
    assert [(row["event"], row["matcher"], row["source"]) for row in listed["hooks"]] == [
        ("PreToolUse", "Bash", "user"),
        ("PreToolUse", "Write", "user"),
    ]
    assert [
        "there is no event 'Later'" in text or "'prompt' are not supported" in text for text in listed["problems"]
    ] == [True] * 2
    assert console("hooks", "test", "PreToolUse", "--json").document["answers"] == []
    given = Path("input.json")
    given.write_text(json.dumps({"tool_input": {"command": "true; git push origin"}}), encoding="utf-8")
    words = ("--agent", "a.1", "--profile", "coder", "--input", str(given), "--json")
    ran = console("hooks", "test", "PreToolUse", *words).document
    assert [(row["decision"], row["reason"]) for row in ran["answers"]] == [("deny", "no")]
    assert (ran["input"]["agent_id"], ran["input"]["friday"]["depth"]) == ("a.1", 1)
    assert "Unknown event 'Nope'" in console("hooks", "test", "Nope").err
    project_hooks(console.project, {"Stop": [hook("true")]})
    doctor = console("doctor").out
    assert "2 of yours, 0 of the project" in doctor
    assert ".friday/hooks.json of the project" in doctor, "it is not trusted"


@pytest.mark.usefixtures("sandbox_kind")
def test_a_hook_is_tried_in_the_sandbox_of_the_settings(console: Console, tmp_path: Path) -> None:
    (hidden := tmp_path / "hidden").mkdir()
    (hidden / "notes.txt").write_text("what nobody reads", encoding="utf-8")
    console.configure(f"[sandbox]\nread_deny = [{str(hidden)!r}]\n")
    project_hooks(console.project, {"Stop": [hook(f"cat {hidden}/notes.txt >&2; exit 2")]})
    console.ok("trust", "--yes")
    (ran,) = console.ok("hooks", "test", "Stop", "--json").document["answers"]
    assert "what nobody reads" not in ran["reason"], ran
    assert "notes.txt" in ran["reason"], "why cat could not read it"


@pytest.mark.usefixtures("sandbox_kind")
def test_a_hook_of_a_project_below_tmp_sees_the_project(console: Console) -> None:
    """Which commands in bubblewrap do not see otherwise."""
    (console.project / "notes.txt").write_text("read me", encoding="utf-8")
    project_hooks(console.project, {"Stop": [hook("cat notes.txt >&2; exit 2")]})
    console.ok("trust", "--yes")
    (ran,) = console.ok("hooks", "test", "Stop", "--json").document["answers"]
    assert (ran["decision"], ran["reason"]) == ("deny", "read me"), ran


def test_a_broken_file_is_named_with_its_line(console: Console) -> None:
    own_hooks({}).write_text('{"hooks": {\n  "Stop": [}\n}', encoding="utf-8")
    listed = console("hooks", "list").err
    assert "hooks.json:2: is not valid JSON" in listed
    assert "its hooks are not used" in listed
    assert "no hooks" not in listed


def test_the_trust_question_shows_commands_and_hashes(tmp_path: Path) -> None:
    (tmp_path / "guard.sh").write_text("exit 0\n", encoding="utf-8")
    guard = hook("sh guard.sh now", matcher="Bash")
    guard["hooks"].append({"type": "prompt", "prompt": "Is it safe?"})  # reported, and the hook beside it is used
    project_hooks(tmp_path, {"PreToolUse": [guard]})
    project_hooks(tmp_path, {"Stop": [hook("true")]}, ".claude/settings.json")
    rows = trust_review.lines(trust.is_trusted(tmp_path))
    sha = trust.hash_of(b"exit 0\n")[:12]
    assert (".friday/hooks.json", f"runs on PreToolUse Bash: sh guard.sh now; guard.sh has the sha256 {sha}") in rows
    assert ("guard.sh", "script of a hook") in rows
    assert (".claude/settings.json", "runs on Stop: true") in rows
    (tmp_path / ".claude/settings.json").write_text('{"permissions": {}}', encoding="utf-8")
    assert ".claude/settings.json" not in trust.is_trusted(tmp_path).files


def test_the_schema_takes_the_examples() -> None:
    found = json.loads((PROJECT / "docs/hooks.schema.json").read_text(encoding="utf-8"))
    for text in re.findall(r"```json\n(.*?)```", PAGE, re.S):
        Draft202012Validator(found).validate(json.loads(text))
        assert msgspec.json.decode(text, type=HooksFile).hooks
    assert not Draft202012Validator(found).is_valid({"hooks": {"PreToolUse": [{"hooks": [{"command": ""}]}]}})


def test_the_examples_of_the_page_run_without_a_key(tmp_path: Path) -> None:
    example, policy = re.findall(r"```sh\n(.*?)```", PAGE, re.S)
    (tmp_path / "README.md").write_text("# x\n", encoding="utf-8")
    start = f'friday() {{ {sys.executable} -m friday_cli "$@"; }}\n'
    env = {**os.environ, "PYTHONPATH": str(PROJECT), "TMPDIR": str(tmp_path)}
    ran = subprocess.run(
        ["bash", "-ec", start + example], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    )
    assert "deny" in ran.stdout
    assert "no looking today" in ran.stderr
    for cost, code in ((0.5, 0), (2, 2), (None, 2)):
        given = json.dumps({"friday": {"estimate": {"max_cost": cost}}})
        assert subprocess.run(["sh", "-c", policy], input=given, text=True, capture_output=True).returncode == code
