"""`friday eval from-git`: which commits become tasks."""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.cli.console import Console
from tests.workspace.worktrees.repo_fixture import commit, git, repository

FROM_GIT = [sys.executable, "-m", "friday_cli", "eval", "from-git", "--check"]


def change(project: Path, subject: str, **files: str) -> str:
    commit(project, **files)
    git(project, "commit", "-q", "--amend", "-m", subject)
    return git(project, "rev-parse", "HEAD").strip()


def test_commits_that_change_code_and_its_tests_become_tasks(console: Console) -> None:
    project = repository(console.project, **{"code.sh": "echo 1\n"})
    wanted = change(
        project,
        "Say two\n\nBecause one is not enough.\n\nSigned-off-by: P <p@example.org>",
        **{"code.sh": "echo 2\n", "test_two.sh": 'test "$(sh code.sh)" = 2\n'},
    )
    change(project, "Only words", **{"README.md": "more\n"})
    change(project, "Only a test", **{"test_more.sh": "true\n"})
    change(project, "A test that passes before", **{"code.sh": "echo 2 # two\n", "test_before.sh": "true\n"})
    change(project, "A broken test", **{"code.sh": "echo 4\n", "test_four.sh": "false\n"})
    change(project, "Large", **{"code.sh": "echo 3\n" + "# line\n" * 500, "test_large.sh": "grep -q 3 code.sh\n"})
    ran = console.ok("eval", "from-git", "--check", "sh {tests}", "--output", "evals")
    assert [line[0] for line in ran.out.splitlines()] == ["✗", " ", "✗", " ", "✓"], ran
    assert "1 of 3 commits can be made a task; evals has 1 task\n" in ran.err
    checked = [line for line in ran.err.splitlines() if line.startswith("friday: checking ")]
    assert [line.partition("-")[2] for line in checked] == ["a-broken-test", "a-test-that-passes-before", "say-two"]
    (folder,) = [path for path in (project / "evals").iterdir() if path.is_dir()]
    assert folder.name == f"{wanted[:8]}-say-two"
    task = tomllib.loads((folder / "task.toml").read_text())
    assert task["task"] == "Say two\n\nBecause one is not enough."
    assert (task["reference"], task["hidden"]) == (wanted, ["test_two.sh"])
    assert "✓" in console.ok("eval", "check", "evals", "--times", "1", "--trust").out
    error = console("eval", "from-git", "--check", "bash {tests}", "--output", "evals")
    assert (error.code, "has another suite already" in error.err) == (2, True)
    shutil.rmtree(project / "evals")
    assert console("eval", "from-git", "--check", "sh {tests}", "--since", "HEAD~1").code == 1


def test_what_is_not_a_repository_or_a_commit_is_refused(console: Console) -> None:
    assert "is not in a git repository" in console("eval", "from-git", "--check", "true").err
    repository(console.project)
    assert "nowhere is not a commit" in console("eval", "from-git", "--check", "true", "--since", "nowhere").err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_was_found_is_kept_when_it_is_stopped(console: Console, tmp_path: Path, number: signal.Signals) -> None:
    """The second commit, whose check never ends, is what it is stopped in."""
    project = repository(console.project, **{"code.sh": "echo 1\n"})
    change(project, "Wait", **{"code.sh": "echo 2\n", "test_wait.sh": "sleep 60\n"})
    change(project, "Say three", **{"code.sh": "echo 3\n", "test_three.sh": 'test "$(sh code.sh)" = 3\n'})
    (temporary := tmp_path / "temporary").mkdir()
    running = subprocess.Popen(
        [*FROM_GIT, "sh {tests}", "--most", "2", "--output", "evals"],
        cwd=project,
        env={**console.env, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    assert "say-three" in running.stdout.readline()
    running.send_signal(number)
    _, said = running.communicate()
    assert running.returncode == 128 + number
    assert "-wait\n" in said
    last = "friday: stopped: 1 of 1 commit can be made a task; evals has 1 task; the same command continues"
    assert said.splitlines()[-1] == last
    assert len(list((project / "evals").glob("*-say-three/task.toml"))) == 1
    assert not list(temporary.iterdir())


def test_the_same_command_continues_behind_what_it_has(console: Console) -> None:
    project = repository(console.project, **{"code.sh": "echo 0\n"})
    for number in range(1, 6):
        test = "false\n" if number == 2 else f'test "$(sh code.sh)" = {number}\n'
        change(project, f"Say {number}", **{"code.sh": f"echo {number}\n", f"test_{number}.sh": test})
    command = ("eval", "from-git", "--check", "sh {tests}", "--most")
    assert "evals has 3 tasks\n" in console.ok(*command, "3").err
    (removed,) = (project / "evals").glob("*-say-4")
    shutil.rmtree(removed)
    with (project / "evals" / "suite.toml").open("a", encoding="utf-8") as written:
        written.write("timeout = 60\n")
    ran = console.ok(*command, "3")  # a person removed what lies between two others, so it is not made again
    assert [line.partition("-")[2] for line in ran.out.splitlines() if line[0] != " "] == ["say-2", "say-1"]
    ran = console.ok(*command, "3")
    assert (ran.out, "no commit was checked; evals has 3 tasks\n" in ran.err) == ("", True)


def test_a_task_that_cannot_be_written_leaves_nothing_of_itself(console: Console) -> None:
    """As on a full disk. Half a task would end each later use of the suite."""
    project = repository(console.project, **{"code.sh": "echo 0\n"})
    change(project, "Say one\n\n" + "and say why\n" * 9_000, **{"code.sh": "echo 1\n", "test_one.sh": "sh code.sh | grep 1\n"})  # fmt: skip
    command = shlex.join([*FROM_GIT, "sh {tests}", "--output", "evals"])
    for limit, code, tasks in (("ulimit -f 100; ", 1, 0), ("", 0, 1)):
        ran = subprocess.run(["bash", "-c", limit + command], cwd=project, env=console.env, capture_output=True, text=True)  # fmt: skip
        assert (ran.returncode, len(list((project / "evals").glob("*/task.toml")))) == (code, tasks), ran


def test_a_check_that_cannot_be_started_ends_it(console: Console) -> None:
    project = repository(console.project, **{"code.sh": "echo 1\n"})
    for number in range(3):
        change(project, f"Change {number}", **{"code.sh": f"echo {number}\n", f"test_{number}.sh": "true\n"})
    ran = console("eval", "from-git", "--check", "no-such-program {tests}", "--most", "1", "--output", "evals")
    assert ran.code == 1
    assert len(ran.out.splitlines()) == 2
    assert "could not be started" in ran.err
    assert "by its whole path" in ran.err
    assert "`[sandbox]`" in ran.err


def test_an_early_end_closes_what_ran(console: Console) -> None:
    """In a process of its own: what is not closed is written when it ends."""
    project = repository(console.project, **{"code.sh": "echo 1\n"})
    for number in range(3):
        change(project, f"Change {number}", **{"code.sh": f"echo {number}\n", f"test_{number}.sh": "true\n"})
    argv = [*FROM_GIT, "no-such-program {tests}"]
    ran = subprocess.run(argv, cwd=project, env=console.env, capture_output=True, text=True)
    assert (ran.returncode, "Traceback" in ran.stderr) == (1, False), ran.stderr
