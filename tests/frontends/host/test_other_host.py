"""`--host` with a program in place of ssh. A real server: `python -m tests.counterparts ssh`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.frontends.tui.terminal_fixture import Terminal, scripted
from tests.session.harness import Harness, does

KEPT = """
import json, os, sys
with open("asked", "w") as file:
    json.dump([sys.argv[1:], sys.stdin.read() if not os.isatty(0) else None], file)
"""
SCREEN = """
import os, signal, sys, tty
tty.setraw(0)
os.write(1, b"".join(b"\\x1b[?%dh" % mode for mode in (1049, 1000, 1003, 2004)) + b"\\x1b[?25l" + b"drawn")
"""


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which a command runs, and in which `ssh.py` is what it finds as ssh."""
    program = tmp_path / "ssh"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {tmp_path}/ssh.py "$@"\n')
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "sent"),
    [
        (("agents", "--host", "box", "--json"), "exec env FRIDAY_REACHED_AS=box friday agents --json"),
        (("agents", "send", "7f3a:a.2", "it's $HOME; ls", "--host=box"), "exec env FRIDAY_REACHED_AS=box friday agents send 7f3a:a.2 'it'\"'\"'s $HOME; ls'"),
        (("agents", "--host", "box", "send", "7f3a", "--", "--host x"), "exec env FRIDAY_REACHED_AS=box friday agents send 7f3a -- '--host x'"),
        (("attach", "7f3a", "--host", "me@box"), "exec env FRIDAY_REACHED_AS=me@box friday attach 7f3a"),
    ],
)  # fmt: skip
def test_the_command_goes_through_ssh_as_it_is(ssh: Path, words: tuple[str, ...], sent: str) -> None:
    """And a script keeps its own input."""
    (ssh / "ssh.py").write_text(KEPT)
    ran = friday(ssh, *words)
    host = "me@box" if "me@box" in words else "box"
    assert (ran.returncode, json.loads((ssh / "asked").read_text())) == (0, [["--", host, sent], ""])


def test_what_the_other_machine_names_can_be_typed_here(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Friday knows by which name the person reaches it."""
    monkeypatch.setenv("FRIDAY_REACHED_AS", "my box")
    starts = """Start one: ssh 'my box' 'cd FOLDER && friday ask -b "TASK"'"""
    assert starts in friday(harness.project, "agents").stderr
    with Terminal(harness.project, "attach") as terminal:
        terminal.until(starts.encode())
    model = scripted(harness.project, {"a": [does(("bash", {"command": "touch made"})), {"text": "all done"}]})
    begun = friday(harness.project, "ask", "-b", "-m", model, "make it").stdout
    for command in ("attach ", "agents logs ", "agents stop "):
        (line,) = [line for line in begun.splitlines() if f"friday {command}" in line]
        assert line.endswith(" --host 'my box'"), begun
    while "answer" not in (table := friday(harness.project, "agents").stdout):
        pass
    assert " --host 'my box' yes | no" in table
    with Terminal(harness.project, "-m", model, "-i", "make another") as terminal:
        terminal.until(b"wants to run a command")
        terminal.type(b"/detach\r", until=b"--host 'my box'` lists it.")
        assert terminal.end() == 0
        other = re.search(rb"`friday attach (\w+) --host 'my box'` opens it", terminal.out)
    assert other
    friday(harness.project, "agents", "stop", other[1].decode())
    session = begun.partition("session ")[2][:8]
    friday(harness.project, "agents", "stop", session)
    assert (
        f"`friday attach {session} --host 'my box'` resumes it"
        in friday(harness.project, "agents", "send", session, "x").stderr
    )


@pytest.mark.parametrize(
    ("code", "told"), [(0, ""), (2, ""), (127, "has no `friday` on the PATH"), (255, "the connection to box failed")]
)
def test_its_exit_code_is_that_of_the_command(ssh: Path, code: int, told: str) -> None:
    (ssh / "ssh.py").write_text(f"raise SystemExit({code})")
    ran = friday(ssh, "agents", "--host", "box")
    assert ran.returncode == code
    assert told in ran.stderr if told else not ran.stderr


@pytest.mark.parametrize(("end", "code"), [("sys.exit(255)", 255), ("os.kill(os.getpid(), 15)", 143)])
def test_a_lost_connection_gives_the_terminal_back(ssh: Path, end: str, code: int) -> None:
    (ssh / "ssh.py").write_text(SCREEN + end)
    with Terminal(ssh, "attach", "--host", "box") as terminal:
        terminal.until(b"drawn")
        terminal.ends_clean(code)


def friday(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    argv, env = (
        [sys.executable, "-m", "friday_cli", *words],
        os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
    )
    return subprocess.run(
        argv, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False, input="mine"
    )
