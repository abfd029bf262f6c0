"""`friday eval check`: a suite whose checks decide nothing is found before it costs anything."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.console import Console
from tests.workspace.worktrees.repo_fixture import commit, git, repository

TASK: dict[str, Any] = {
    "name": "answer",
    "task": "Write 42 into answer.txt.",
    "start": {"answer.txt": "?\n"},
    "solution": {"answer.txt": "42\n", "wanted.txt": "42\n"},
    "hidden": ["wanted.txt"],
    "check": ["cmp answer.txt {tests}"],
}


def suite(console: Console, *tasks: dict[str, Any]) -> str:
    (console.project / "suite.jsonl").write_text("".join(json.dumps(TASK | task) + "\n" for task in tasks))
    return "suite.jsonl"


def test_the_sample_can_be_used(console: Console) -> None:
    ran = console.ok("eval", "check", "sample", "--times", "1")
    assert "can be used" in ran.err
    assert all(line.startswith("✓ ") for line in ran.out.splitlines())


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, ""),
        ({"check": ["true"]}, "the check passes before anything is done"),
        (
            {"solution": {"answer.txt": "41\n", "wanted.txt": "42\n"}},
            "`cmp answer.txt wanted.txt` ended with exit code 1",
        ),
        ({"hidden": ["other.txt"]}, "the reference does not have the file other.txt"),
        ({"setup": "echo broken; exit 3"}, "the setup ended with exit code 3: broken"),
        ({"check": ["there-is-no-such-command"]}, "`there-is-no-such-command` ended with exit code 127"),
        ({"solution": {}, "reference": "fix.patch"}, "neither a file nor a folder"),
    ],
)
def test_a_task_that_decides_nothing_is_named(console: Console, change: dict[str, Any], found: str) -> None:
    ran = console("eval", "check", suite(console, change), "--times", "1", "--trust")
    assert (ran.code, found in ran.out) == (1 if found else 0, True), ran


def test_a_check_that_passes_now_and_then_is_named(console: Console, tmp_path: Path) -> None:
    counter = tmp_path / "count"
    check = f"test -f wanted.txt && echo x >> {counter} && cmp answer.txt wanted.txt && test $(wc -l < {counter}) != 4"
    ran = console("eval", "check", suite(console, {"check": [check]}), "--times", "3", "--trust")
    assert ran.code == 1
    assert "passes with the reference 2 of 3" in ran.out


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"check": []}, "`check` is missing"),
        ({"task": " "}, "`task` is missing"),
        ({"name": "../x"}, "may only contain letters"),
        ({"hidden": ["../x"]}, "is not a path below"),
        ({"start": {}}, "one of `commit`, `folder` or `start`"),
        ({"solution": {}}, "`reference` is missing"),
        ({"chekc": "true"}, "chekc"),
    ],
)
def test_a_wrong_task_is_refused_with_its_line(console: Console, change: dict[str, Any], problem: str) -> None:
    error = console.refused("eval", "check", suite(console, {"name": "first"}, change), "--trust")
    assert error.startswith("suite.jsonl:2: ")
    assert problem in error


def test_the_commands_of_a_suite_need_trust(console: Console) -> None:
    name = suite(console, {"check": ["touch ran"], "setup": "make x"})
    assert "make x; touch ran" in console.refused("eval", "check", name)
    assert not (console.project / "ran").exists()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"task": "", "file": "../outside.txt"}, "it is outside"),
        ({"task": "", "file": "link.txt"}, "it is outside"),
        ({"task": "", "file": ".env"}, "its name is that of a file with secrets"),
        ({"task": "", "file": "innocent.txt"}, "its name is that of a file with secrets"),
        ({"task": "", "file": "mine.txt"}, "git ignores it"),
        ({"start": {}, "folder": ".."}, "it is outside"),
        ({"start": {}, "folder": "linked"}, "it is outside"),
        ({"start": {}, "folder": ".git"}, "it belongs to git"),
        ({"solution": {}, "reference": "../outside.txt"}, "it is outside"),
        ({"solution": {}, "reference": "link.txt"}, "it is outside"),
        ({"task": "", "file": "device"}, "it is outside"),
    ],
)
def test_a_suite_gives_agents_no_file_from_elsewhere_and_no_secret(
    console: Console, change: dict[str, Any], why: str
) -> None:
    project = repository(console.project, **{".gitignore": "mine.txt\n"})
    for name in ("../outside.txt", ".env", "mine.txt"):
        (project / name).write_text("CANARY")
    for name, target in (
        ("link.txt", "../outside.txt"),
        ("innocent.txt", ".env"),
        ("linked", ".."),
        ("device", "/dev/zero"),
    ):
        (project / name).symlink_to(target)
    said = console.refused("eval", "check", suite(console, change), "--trust")
    assert why in said
    assert "CANARY" not in said


def test_a_task_file_without_an_end_is_refused(console: Console) -> None:
    (console.project / "evals" / "one").mkdir(parents=True)
    (console.project / "evals" / "one" / "task.toml").symlink_to("/dev/zero")
    assert "device, pipe or socket" in console.refused("eval", "check", "evals", "--trust")


def test_another_repository_needs_a_yes_for_this_run(console: Console, tmp_path: Path) -> None:
    private = repository(tmp_path / "private", **{"code.py": "CANARY\n"})
    head = git(private, "rev-parse", "HEAD").strip()
    repository(console.project)
    name = suite(console, {"start": {}, "repo": str(private), "commit": head})
    assert f"gives agents files of {private}" in console.refused("eval", "check", name)
    console.ok("trust", "--yes")
    assert f"the suite is not in: {private}" in console.refused("eval", "check", name)


def test_tasks_of_commits_begin_without_what_came_later(console: Console) -> None:
    project = repository(console.project, **{"code.py": "x = 1\n"})
    first = git(project, "rev-parse", "HEAD").strip()
    commit(project, **{"code.py": "x = 2\n", "test.py": "import code\n"})
    last = git(project, "rev-parse", "HEAD").strip()
    (project / "evals" / "two").mkdir(parents=True)
    (project / "evals" / "two" / "task.toml").write_text(
        f'task = "Make x 2."\ncommit = "{first[:10]}"\nreference = "{last}"\nhidden = ["test.py"]\n'
        f"""check = ["grep -q 2 code.py && test -f test.py", "! git cat-file -e {last}", "test $(git rev-parse HEAD) = {first}"]\n"""
    )
    assert (
        "fails before 1 of 1, passes with the reference 1 of 1"
        in console.ok("eval", "check", "evals", "--times", "1", "--trust").out
    )


@pytest.mark.usefixtures("sandbox_kind")
def test_installed_packages_of_the_repository_can_be_used(console: Console) -> None:
    """Here the project is below /tmp, which commands in bubblewrap do not see otherwise."""
    project = repository(console.project, **{"code.txt": "1\n"})
    head = git(project, "rev-parse", "HEAD").strip()
    tool = project / ".venv" / "tool"
    tool.parent.mkdir()
    (tool.parent / "pyvenv.cfg").touch()
    tool.write_text("grep -q 2 code.txt\n")
    change = {"start": {}, "commit": head, "solution": {"code.txt": "2\n"}, "hidden": []}
    task = change | {"check": [f"sh {tool}", f"! cat {project}/code.txt"]}
    assert (
        "passes with the reference 1 of 1"
        in console.ok("eval", "check", suite(console, task), "--times", "1", "--trust").out
    )


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (
            {
                "setup": "git config filter.x.clean 'touch {mark}; cat'; git config filter.x.smudge 'touch {mark}; cat';"
                " echo '* filter=x' > .gitattributes",
                "solution": {"wanted.txt": "42\n"},
                "reference": "fix.patch",
            },
            "passes with the reference 1 of 1",
        ),
        ({"start": {}, "folder": "fixture", "solution": {}, "reference": "solved"}, "passes with the reference 1 of 1"),
        (
            {"setup": "ln -s {outside} out", "solution": {"answer.txt": "42\n"}, "reference": "solved"},
            "passes with the reference 1 of 1",
        ),
        (
            {"start": {"x": ""}, "setup": "ln -s {outside} out", "hidden": ["out/secret"], "check": ["cat out/secret"]},
            "the reference does not have the file out/secret",
        ),
        ({"start": {}, "folder": "pipe"}, "pipe"),
    ],
    ids=["filters of git", "a link in the fixture", "a link of the setup", "a hidden file through a link", "a pipe"],
)
def test_a_suite_changes_reads_and_starts_nothing_outside(
    console: Console, tmp_path: Path, change: dict[str, Any], found: str
) -> None:
    """What Friday does itself for a suite is not confined: no setting of git, link or pipe of the suite leads it elsewhere."""
    outside, mark = tmp_path / "outside", tmp_path / "mark"
    outside.mkdir()
    (outside / "secret").write_text("CANARY")
    for name, text in (("fixture/answer.txt", "?\n"), ("solved/answer.txt", "42\n"), ("solved/wanted.txt", "42\n")):
        (console.project / name).parent.mkdir(exist_ok=True)
        (console.project / name).write_text(text)
    (console.project / "fixture" / "out").symlink_to(outside)
    (console.project / "solved" / "out").mkdir()
    (console.project / "solved" / "out" / "pwned").write_text("pwned")
    (console.project / "pipe").mkdir()
    os.mkfifo(console.project / "pipe" / "fifo")
    (console.project / "fix.patch").write_text("--- a/answer.txt\n+++ b/answer.txt\n@@ -1 +1 @@\n-?\n+42\n")
    written = json.loads(json.dumps(change).replace("{mark}", str(mark)).replace("{outside}", str(outside)))
    ran = console("eval", "check", suite(console, written), "--times", "1", "--trust")
    assert found in ran.out, ran
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert not mark.exists()
    assert "CANARY" not in ran.out + ran.err
