"""The row above the status line that a program of the user writes."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from .chat import opened

ONE = {"a": [{"text": "One."}]}
SHOWS = (
    "import json, os, sys; d = json.load(sys.stdin); "
    "print('\\x1b[31mown', d['mode'], d['agents']['running'], os.path.basename(d['cwd']), 'A_API_KEY' in os.environ, '[b]x[/b]')"
    "; print('second')"
)


def configure(*command: str) -> None:
    path = Path(os.environ["FRIDAY_HOME"]) / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"[tui]\nstatus_command = {json.dumps(command)}\n")


async def test_the_first_line_of_the_program_is_shown_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_API_KEY", "secret-value")
    configure(sys.executable, "-c", SHOWS)
    (tmp_path / ".friday").mkdir()
    (tmp_path / ".friday" / "config.toml").write_text('[tui]\nstatus_command = ["touch", "taken"]\n')
    async with opened(tmp_path, ONE) as chat:
        await chat.shows(f"own ask 0 {tmp_path.name} False [b]x[/b]")
        assert "second" not in chat.frame
        await chat.press("shift+tab", shows="own edits 0")
        assert not (tmp_path / "taken").exists()


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("/no/such/program",), "No such file"),
        ((sys.executable, "-c", "import time; time.sleep(60)"), "longer than 0 s"),
        (("./status.sh",), "No such file"),
        (("sh", "{folder}/status.sh"), "status.sh is in the folder where agents work"),
        (("sh", "-c", "x=1; sh {folder}/status.sh"), "status.sh is in the folder where agents work"),
        (("env", "--chdir={folder}/status.sh"), "status.sh is in the folder where agents work"),
    ],
)
async def test_a_program_that_does_not_work_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], told: str
) -> None:
    monkeypatch.setattr("friday_cli.frontends.tui.own_status.LONGEST_S", 0.2)
    (tmp_path / "status.sh").write_text("#!/bin/sh\necho RUN-BY-AGENTS\n")
    (tmp_path / "status.sh").chmod(0o755)
    configure(*(word.replace("{folder}", str(tmp_path)) for word in command))
    async with opened(tmp_path, ONE) as chat:
        await chat.shows("tui.status_command in your settings:")
        assert "".join(told.split()) in "".join(chat.frame.replace("▌", " ").split())  # a long path is broken
        assert "RUN-BY-AGENTS" not in chat.frame
        await chat.ask("hello", shows="One.")
