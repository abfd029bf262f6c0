"""`notify.command`: the person's own program is run once for each thing that needs them."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from friday_cli.core.protocol.events import AgentStarted, Envelope, PermissionAnswered, PermissionAsked, QuestionAsked
from friday_cli.frontends.person_notifier import PersonNotifier
from friday_cli.view import SessionView
from tests.delegation.harness import until

RECORDS = "import os, sys; open(sys.argv[1], 'a').write(sys.argv[2] + ' ' + str('A_API_KEY' in os.environ) + '\\n')"


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with what the command was told; it is set in the user's file, another one in the project's."""
    home, project, file = tmp_path / "home", tmp_path / "work; rm", tmp_path / "told"
    home.mkdir()
    (project / ".friday").mkdir(parents=True)
    monkeypatch.setenv("FRIDAY_HOME", str(home))
    monkeypatch.setenv("A_API_KEY", "secret-value")
    command = json.dumps([sys.executable, "-c", RECORDS, str(file)])
    (home / "config.toml").write_text(f"[notify]\ncommand = {command}\n")
    (project / ".friday" / "config.toml").write_text('[notify]\ncommand = ["touch", "taken"]\n')
    return file


def lines(told: Path) -> list[str]:
    """What the command was told so far."""
    return told.read_text().splitlines() if told.is_file() else []


async def test_each_thing_is_told_once_and_not_what_is_answered_at_once(told: Path) -> None:
    view, problems = SessionView(), list[str]()
    notifier = PersonNotifier(told.parent / "work; rm", problems.append, wait_s=0.05)
    events = [
        AgentStarted(1, "friday", "go", "m/m"),
        PermissionAsked("p1", "c1", "bash", "ls"),
        PermissionAnswered("p1", "allow"),
        QuestionAsked("q1", "c2", "Which one?"),
    ]
    for number, event in enumerate(events, 1):
        view.apply(Envelope(number, 1.0, "a", event))
        notifier.follow(view)
    await until(lambda: bool(lines(told)))
    notifier.follow(SessionView())
    notifier.follow(view)  # still open, and seen again: for example when a chat was attached meanwhile
    await asyncio.sleep(0.1)
    notifier.tell("is done")
    await until(lambda: len(lines(told)) > 1)
    assert lines(told) == ["needs you: a question (work; rm) False", "is done (work; rm) False"]
    assert problems == []
    await notifier.close()


async def test_a_command_that_does_not_work_is_reported_once(told: Path) -> None:
    (told.parent / "home" / "config.toml").write_text('[notify]\ncommand = ["/no/such/program"]\n')
    problems = list[str]()
    notifier = PersonNotifier(told.parent, problems.append)
    notifier.tell("is done")
    notifier.tell("is done")
    await until(lambda: bool(problems))
    await notifier.close()
    assert len(problems) == 1
    assert problems[0].startswith("notify.command in your settings: it could not be started")
