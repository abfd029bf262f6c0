"""`friday sessions replay` and `friday cassette`, as a person uses them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from friday_cli.store.store import Store
from friday_cli.system.paths import store_path
from tests.cli.console import Console
from tests.workspace.worktrees.repo_fixture import git, repository

PLAY = {
    "a": [
        {"calls": [{"name": "delegate_task", "arguments": {"profile": "researcher", "task": "look"}}]},
        {"text": "It says: {results}"},
    ],
    "a.1": [
        {"calls": [{"name": "list_dir", "arguments": {"path": "."}}]},
        {"calls": [{"name": "task_result", "arguments": {"result": "One file.", "status": "success"}}]},
    ],
}


@pytest.fixture
def recorded(console: Console) -> str:
    """The id of a recorded session, made by a command."""
    scenario = console.project.parent / "play.json.yaml"
    scenario.write_text(json.dumps({"agents": PLAY}), encoding="utf-8")
    ran = console.process("ask", "-q", "--output-format", "json", "--model", f"scripted:{scenario}", "go")
    return str(ran.document["session_id"])


def test_a_session_is_replayed_for_nothing_and_a_change_is_named(
    console: Console, recorded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(console.project)
    ran = console.ok("sessions", "replay", recorded[:8])
    assert ran.out.startswith(
        f"session {recorded[:8]}: replayed without a difference: 2 agents, 4 requests, 3 calls; $0"
    )
    shown = console.ok("sessions", "replay", recorded[:8], "--speed", "4").out
    assert "It says:" in shown
    assert console.ok("sessions", "replay", recorded[:8], "--json").document["divergences"] == []
    (console.project / "AGENTS.md").write_text("Never use tabs.\n", encoding="utf-8")
    changed = console("sessions", "replay", recorded[:8])
    assert changed.code == 1
    assert changed.out.startswith("a turn 1: system line ")
    assert "(AGENTS.md changed since) [prefix]" in changed.out
    assert "differs from the recording (1 difference)" in changed.out
    every = console("sessions", "replay", recorded[:8], "--go-on")
    assert "4 requests" in every.out


def test_cassettes_are_added_checked_shown_and_accepted(
    console: Console, recorded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(console.project)
    console.ok("cassette", "add", recorded[:8], "one")
    console.ok("cassette", "add", recorded[:8], "two")
    text = Path(".friday/cassettes/one.jsonl").read_text(encoding="utf-8")
    assert str(console.project) not in text
    assert recorded not in text
    assert [row[:3] for row in console.ok("cassette", "list").rows] == [["one", "2", "4"], ["two", "2", "4"]]
    assert "a.1 researcher: 2 requests, completed (done)" in console.ok("cassette", "show", "one").out
    assert console.ok("cassette", "check").out == "2 cassettes: 2 as recorded\n"
    (console.project / "AGENTS.md").write_text("Never use tabs.\n", encoding="utf-8")
    ran = console("cassette", "check")
    assert ran.code == 1
    assert ran.out.count("AGENTS.md changed since") == 1, "a change that meets two cassettes is shown once"
    assert "one, two:" in ran.out
    assert "2 cassettes: 0 as recorded, 2 with 1 difference" in ran.out
    ran = console.ok("cassette", "accept", "--all", "--yes")
    assert "accepted for 2 cassettes" in ran.err
    assert console.ok("cassette", "check").out == "2 cassettes: 2 as recorded\n"


def test_what_cannot_be_replayed_says_why(console: Console, recorded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(console.project)
    assert "Use " in console.refused("sessions", "replay", f"{recorded[:8]}:a.1")
    assert "There are no cassettes in" in console.refused("cassette", "check")
    console.ok("cassette", "add", recorded[:8], "one")
    assert "Did you mean one?" in console.refused("cassette", "check", "onee")
    assert "is not a name" in console.refused("cassette", "add", recorded[:8], "../one")
    Path(".friday/cassettes/one.jsonl").write_text("{}\n", encoding="utf-8")
    assert "one.jsonl:1" in console.refused("cassette", "check")
    console.ok("cassette", "add", recorded[:8], "two")
    listed = console("cassette", "list")
    assert (listed.code, [row[0] for row in listed.rows]) == (1, ["two"])
    assert "one.jsonl:1" in listed.err


def test_no_hook_acts_on_a_call_that_did_not_run(
    console: Console, recorded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hook that formats what was written would be given any path by a cassette of somebody else."""
    monkeypatch.chdir(console.project)
    console.ok("cassette", "add", recorded[:8], "one")
    ran = {event: console.home / event for event in ("PreToolUse", "PostToolUse", "PostToolBatch")}
    entries = {event: [{"hooks": [{"type": "command", "command": f"touch {path}"}]}] for event, path in ran.items()}
    (console.friday_home / "hooks.json").write_text(json.dumps({"hooks": entries}), encoding="utf-8")
    console.ok("cassette", "check")
    assert [event for event, path in ran.items() if path.exists()] == ["PreToolUse"]


def test_cassettes_of_others_lead_nowhere(console: Console, recorded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a project's cassettes that never end, and a folder that is a link."""
    monkeypatch.chdir(console.project)
    console.ok("cassette", "add", recorded[:8], "one")
    folder = Path(".friday/cassettes")
    os.mkfifo(folder / "two.jsonl")
    assert "two.jsonl" in console.refused("cassette", "check", "two") + console.refused(
        "cassette", "add", recorded[:8], "three"
    )
    (folder / "two.jsonl").unlink()
    (folder / "texts.json").unlink()
    (folder / "texts.json").symlink_to("/dev/zero")
    assert "is not an event of a cassette" in console.refused("cassette", "check")
    lines = (folder / "one.jsonl").read_text(encoding="utf-8").replace('"at": 0.0,', '"at": 1e308,')
    (folder / "one.jsonl").write_text(lines, encoding="utf-8")
    assert "at: 1e+308 is not a time" in console.refused("cassette", "check")
    (outside := console.project.parent / "outside").mkdir()
    Path(".friday").rename("kept")
    Path(".friday").symlink_to(outside)
    assert "leads out of this folder" in console.refused("cassette", "add", recorded[:8], "one")
    assert list(outside.iterdir()) == []


def test_a_cassette_chooses_no_folder_of_profiles(
    console: Console, recorded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(console.project)
    console.ok("cassette", "add", recorded[:8], "one")
    (chosen := console.project.parent / "chosen").mkdir()
    (chosen / "spy.md").write_text("---\nname: spy\ndescription: Reads everything.\n---\nRead.")
    path = Path(".friday/cassettes/one.jsonl")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    (begun,) = [row["event"] for row in rows if row["event"]["kind"] == "workspace"]
    begun["flags"] = {**begun.get("flags", {}), "agents.delegation.profiles.directory": str(chosen)}
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    console.ok("cassette", "check")  # a profile more would be another prompt


async def _old(session: str) -> None:
    """A log as earlier versions wrote it: without requests."""
    async with Store(store_path()) as store:
        await store._writer.submit(lambda db: db.execute("DELETE FROM events WHERE kind IN ('requested', 'workspace')"))


async def test_an_older_log_says_that_requests_are_not_recorded(console: Console, recorded: str) -> None:
    import asyncio

    await _old(recorded)
    error = await asyncio.to_thread(console.refused, "sessions", "replay", recorded[:8])
    assert "Its log has no requests: it was made by an earlier version of Friday." in error


WORKS = {
    "a": [
        {"calls": [{"name": "read_file", "arguments": {"path": "notes.txt"}}]},
        {"calls": [{"name": "bash", "arguments": {"command": "cat notes.txt program.sh | wc -l; sh program.sh"}}]},
        {"calls": [{"name": "edit_file", "arguments": {"path": "notes.txt", "old": "one", "new": "two"}}]},
        {"calls": [{"name": "bash", "arguments": {"command": "cat notes.txt; cat gone.txt"}}]},
        {"text": "Done."},
    ],
}


@pytest.mark.usefixtures("sandbox_kind")
def test_tools_run_again_in_a_copy_of_the_start(
    console: Console, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(console.project)
    project = repository(console.project, **{"notes.txt": "one\n", "program.sh": "echo 1\n"})
    (tmp_path / "play.yaml").write_text(json.dumps({"agents": WORKS}), encoding="utf-8")
    ran = console("ask", "go", "-m", f"scripted:{tmp_path}/play.yaml", "--mode", "auto", "--output-format", "json")
    session, refs = ran.document["session_id"], git(project, "for-each-ref")
    assert (project / "notes.txt").read_text(encoding="utf-8") == "two\n", ran
    refused = console("sessions", "replay", session, "--tools", "run")
    assert "runs: cat notes.txt; cat gone.txt" in refused.err, refused
    again = console("sessions", "replay", session, "--tools", "run", "--yes")
    assert (again.code, "replayed without a difference: 1 agent, 5 requests, 4 calls" in again.out) == (0, True), again
    (project / "program.sh").write_text("echo 2\n", encoding="utf-8")
    changed = console("sessions", "replay", session, "--tools", "run", "--yes", "--go-on")
    assert changed.code == 1
    assert "a turn 2: result of bash" in changed.out
    assert "  - 1\n  + 2" in changed.out, changed
    assert (project / "notes.txt").read_text(encoding="utf-8") == "two\n"
    assert (git(project, "for-each-ref"), git(project, "worktree", "list").count("\n")) == (refs, 1)


FORKED = {
    "a": {
        "turns": [
            {"calls": [{"name": "delegate_task", "arguments": {"profile": "coder", "task": "make it"}}]},
            {"text": "ok"},
        ]
    },
    "a.1": {
        "count": "history",
        "turns": [
            {"calls": [{"name": "write_file", "arguments": {"path": "b.txt", "content": "first\n"}}]},
            {"calls": [{"name": "edit_file", "arguments": {"path": "b.txt", "old": "first", "new": "second"}}]},
            {"calls": [{"name": "task_result", "arguments": {"result": "second it is", "status": "success"}}]},
        ],
    },
}
OTHERWISE = {
    "a.1": {
        "count": "history",
        "turns": [
            {"text": ""},
            {"calls": [{"name": "read_file", "arguments": {"path": "b.txt"}}]},
            {"calls": [{"name": "edit_file", "arguments": {"path": "b.txt", "old": "first", "new": "third"}}]},
            {"calls": [{"name": "task_result", "arguments": {"result": "third it is", "status": "success"}}]},
        ],
    },
}


def test_a_fork_at_a_step_goes_on_with_the_files_of_that_moment(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(console.project)
    for words in (
        ["init", "-q"],
        ["-c", "user.name=x", "-c", "user.email=x@y", "commit", "-q", "--allow-empty", "-m", "start"],
    ):
        subprocess.run(["git", *words], cwd=console.project, check=True)
    scenarios = [console.project.parent / name for name in ("then.yaml", "now.yaml")]
    for path, play in zip(scenarios, (FORKED, OTHERWISE), strict=True):
        path.write_text(json.dumps({"agents": play}), encoding="utf-8")
    ran = console.process("ask", "-q", "--yolo", "--output-format", "json", "-m", f"scripted:{scenarios[0]}", "go")
    session = str(ran.document["session_id"])
    assert "There is no turn 9 of a.1" in console.refused("sessions", "fork", session, "--step", "a.1:9")
    assert "write an agent" in console.refused("sessions", "fork", session, "--step", "7")
    assert "need --step" in console.refused("sessions", "fork", session, "--compare")
    assert "cannot be combined with" in console.refused("sessions", "fork", session, "--step", "a.1:2", "--at", "1")
    forks = console.friday_home / "data" / "forks"
    assert "nowhere" in console.refused("sessions", "fork", session, "--step", "a.1:2", "-m", "nowhere/x")
    assert not list(forks.iterdir()), "nothing was forked"
    (console.project / "AGENTS.md").write_text("Never use tabs.\n", encoding="utf-8")
    ran = console.process(
        "sessions", "fork", session, "--step", "a.1:2", "-m", f"scripted:{scenarios[1]}", "--compare", "--trust"
    )
    assert ran.code == 0, ran
    assert "not trusted" not in ran.err
    assert "-second it is\n+third it is" in ran.out
    (folder,) = forks.iterdir()
    assert (folder / "b.txt").read_text(encoding="utf-8") == "third\n"
    assert (console.project / "b.txt").read_text(encoding="utf-8") == "second\n"


def test_a_copy_of_the_folder_neither_reads_nor_changes_what_is_behind_a_link(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent can make a link of a folder with files that git knows, and hide that link from git."""
    monkeypatch.chdir(console.project)
    (secret := console.home / ".ssh").mkdir()
    (other := console.home / "other").mkdir()
    (secret / "key").write_text("CANARY", encoding="utf-8")
    (other / "notes.txt").write_text("mine", encoding="utf-8")
    project = repository(console.project, **{"hidden/key": "x\n", "seen/notes.txt": "x\n", "kept.txt": "kept\n"})
    scenario = console.project.parent / "play.yaml"
    scenario.write_text(json.dumps({"agents": {"a": [{"text": "one"}, {"text": "two"}]}}), encoding="utf-8")
    ran = console.process("ask", "-q", "--output-format", "json", "-m", f"scripted:{scenario}", "go")
    for name, behind in (("hidden", secret), ("seen", other)):
        (project / name).rename(console.home / f"was-{name}")
        (project / name).symlink_to(behind)
    (project / ".git" / "info" / "exclude").write_text("hidden\n", encoding="utf-8")
    session = str(ran.document["session_id"])
    forked = console.process("sessions", "fork", session, "--step", "a:1", "-m", f"scripted:{scenario}", "--yes")
    assert forked.code == 0, forked
    (folder,) = (console.friday_home / "data" / "forks").iterdir()
    assert (folder / "kept.txt").read_text(encoding="utf-8") == "kept\n"
    assert "CANARY" not in "".join(p.read_text() for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
    assert not (folder / "hidden").exists()
    assert (folder / "seen").is_symlink()
    assert {path.name: path.read_text() for path in (*secret.iterdir(), *other.iterdir())} == {
        "key": "CANARY",
        "notes.txt": "mine",
    }
