"""A reader that stops reading, signals that the parent has blocked, pipes in the place of settings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.friday import Friday

LONG = "agents:\n  a:\n    - text: " + "'" + "word " * 40_000 + "'\n"
SLOW = (
    "agents:\n  a:\n    - text: '"
    + "word " * 40_000
    + "'\n      calls: [{name: bash, arguments: {command: sleep 600}}]\n"
)


@contextmanager
def unread(friday: Friday, *argv: str) -> Iterator[subprocess.Popen[bytes]]:
    """`friday ask` whose standard output is a pipe that nobody reads."""
    command = [sys.executable, "-m", "friday_cli", "ask", "-m", friday.model, *argv]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, cwd=friday.project, env=friday.env, stdout=pipe, stderr=pipe)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_a_reader_that_never_reads_holds_up_neither_a_signal_nor_the_time_limit(friday: Friday, form: str) -> None:
    friday.plays(SLOW)
    options = ["--output-format", form, "--yolo", "go"]
    with unread(friday, "--timeout", "1", *options) as process:
        assert process.wait(60) == 5
    friday.plays(LONG)
    with unread(friday, *options) as process:
        assert process.stderr is not None
        if form == "text":
            assert process.stdout is not None
            assert process.stdout.read(4) == b"word"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2.0)  # it waits for its reader
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (143, -signal.SIGTERM)


def test_a_failed_run_whose_reader_has_gone_still_fails(friday: Friday) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    friday.plays("agents:\n  a:\n    - fail: {kind: auth, message: no key}\n")
    command = [sys.executable, "-m", "friday_cli", "ask", "-m", friday.model, "--output-format", "json", "go"]
    done = subprocess.run(
        command, cwd=friday.project, env=friday.env, stdout=writing, stderr=subprocess.PIPE, timeout=60
    )
    os.close(writing)
    assert done.returncode == 1


def test_commands_end_where_the_parent_has_blocked_signals(friday: Friday) -> None:
    friday.plays(
        "agents:\n  a:\n    - calls: [{name: bash, arguments: {command: echo hi > made}}]\n    - text: Done.\n"
    )
    command = [sys.executable, "-m", "friday_cli", "ask", "-m", friday.model, "--yolo", "--timeout", "50", "go"]
    blocked = [signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1]
    done = subprocess.run(
        command,
        cwd=friday.project,
        env=friday.env,
        capture_output=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, blocked),
    )
    assert (done.returncode, done.stdout) == (0, b"Done.\n")
    assert (friday.project / "made").read_text() == "hi\n"


@pytest.mark.parametrize("name", ["auth.toml", "mcp.json"])
@pytest.mark.parametrize("kind", ["pipe", "large"])
def test_a_pipe_or_a_huge_file_in_the_place_of_settings_is_said_and_not_waited_for(
    friday: Friday, name: str, kind: str
) -> None:
    path = friday.home / name
    if kind == "pipe":
        os.mkfifo(path)
    else:
        with path.open("wb") as file:
            file.truncate(3 * 2**30)
    friday.plays("agents:\n  a:\n    - text: Done.\n")
    model = "openai/gpt-5" if name == "auth.toml" else friday.model
    command = [sys.executable, "-m", "friday_cli", "ask", "-m", model, "go"]
    done = subprocess.run(command, cwd=friday.project, env=friday.env, capture_output=True, text=True, timeout=60)
    assert name in done.stderr
    assert ("is a pipe" if kind == "pipe" else "is larger than 1,000,000 bytes") in done.stderr
    assert "itself failed" not in done.stderr


PLACES = (
    ".git/packed-refs", ".git/HEAD", ".git/index", ".git/info/exclude", ".gitignore", "AGENTS.md", ".mcp.json", ".lsp.json", ".friday/config.toml",
    ".friday/hooks.json", "profiles/x.md", ".claude/agents/x.md", ".claude/settings.json", ".claude/skills/a/SKILL.md", ".agents/plugins/p/plugin.json",
    ".fridayignore",
)  # fmt: skip


@pytest.mark.parametrize("kind", ["pipe", "endless"])
def test_a_pipe_or_an_endless_file_in_a_folder_that_nobody_trusts_is_not_waited_for(friday: Friday, kind: str) -> None:
    for name in PLACES:
        (friday.project / name).parent.mkdir(parents=True, exist_ok=True)
        if name == ".git/HEAD":
            (friday.project / name).write_text("ref: refs/heads/main\n")
        elif kind == "pipe":
            os.mkfifo(friday.project / name)
        else:
            (friday.project / name).symlink_to("/dev/zero")
    friday.plays("agents: {a: [{calls: [{name: write_file, arguments: {path: new, content: x}}]}, {text: Done.}]}")
    assert friday.run("--yolo", "go").out == "Done.\n"
