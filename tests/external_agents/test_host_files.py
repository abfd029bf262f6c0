"""What a program can write is kept for its next run, or read by the person's own programs: Friday follows no link in it, and says what changed."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from friday_cli.external_agents import programs
from friday_cli.external_agents.login_folder import LoginFolder
from tests.external_agents.conftest import AGENT, Robot
from tests.workspace.sandbox.conftest import KINDS, chosen


def with_login(robot: Robot, monkeypatch: pytest.MonkeyPatch, *steps: Any) -> Path:
    """Let the scripted program be one with a login folder, which is returned, and do these steps."""
    script = robot.project / "acp.json"  # a sandbox hides the home, and bubblewrap temporary folders too
    script.write_text(json.dumps({"prompts": [[*steps, {"say": "done"}]]}))
    argv = (sys.executable, AGENT, str(script))
    monkeypatch.setitem(
        programs.PROGRAMS, "codex", programs.KnownProgram(argv, "", "none", login_folder=("X_HOME", ".x"))
    )
    robot.profile("robot", "external: codex")
    login = robot.home.parent / "login"
    (login / "hooks").mkdir(parents=True)
    (login / "config.toml").write_text("mine\n")
    (login / "hooks" / "h").write_text("mine\n")
    (login / "auth.json").write_text("old\n")
    robot.setenv("X_HOME", str(login))
    return login


@pytest.mark.parametrize("kind", [*KINDS, "none"])
def test_it_renews_its_login_and_its_settings_stay_or_are_named(
    robot: Robot, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    if kind != "none" and isinstance(found := chosen(kind), str):
        pytest.skip(f"NOT TESTED HERE: {found}")
    robot.setenv("FRIDAY_SANDBOX", kind)
    login = robot.home.parent / "login"
    here = shlex.quote(str(login))
    command = f"cd {here}; echo new > auth.json; echo bad > config.toml; echo bad > hooks/h; echo bad > settings.json"
    with_login(robot, monkeypatch, {"run_quietly": command})
    ran = robot.ask("go", "--mode", "auto")
    assert ran.document["result"] == "done", ran.agent("a.1")["error"]
    assert (login / "auth.json").read_text() == "new\n"
    warned = [text for text in ran.agent("a.1")["receipt"]["warnings"] if "may run code" in text]
    frozen = kind in ("bubblewrap", "seatbelt")
    names = "settings.json" if frozen else "config.toml, hooks/h, settings.json"
    assert warned == [f"{names} changed in {login} while codex ran, and may run code at its next start: check it"]
    assert ((login / "config.toml").read_text() == "mine\n") is frozen
    assert (login / "settings.json").read_text() == "bad\n"  # nothing is undone


def test_without_a_change_there_is_no_warning(robot: Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    login = with_login(robot, monkeypatch)
    os.mkfifo(login / "hooks" / "pipe")
    assert "may run code" not in str(robot.ask().agent("a.1")["receipt"])


def test_what_is_frozen_is_handed_to_the_sandbox(robot: Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    from friday_cli.workspace.process.client import SupervisorClient

    plans: list[Any] = []
    request = SupervisorClient.request

    def seen(self: Any, argv: Any, cwd: Any, environ: Any, **more: Any) -> bytes:
        plans.append(more.get("plan"))
        return request(self, argv, cwd, environ, **more)

    if isinstance(found := chosen("landlock"), str):
        pytest.skip(f"NOT TESTED HERE: {found}")
    monkeypatch.setattr(SupervisorClient, "request", seen)
    robot.setenv("FRIDAY_SANDBOX", "landlock")
    login = with_login(robot, monkeypatch)
    robot.ask()
    [plan] = [plan for plan in plans if plan is not None and str(login) in plan.write]
    assert {str(login / "config.toml"), str(login / "hooks")} <= set(plan.freeze)
    assert not any(path.startswith(str(login / "settings")) for path in plan.freeze)


def test_of_a_mixed_file_only_the_servers_count(tmp_path: Path) -> None:
    def write(**fields: Any) -> None:
        (tmp_path / ".claude.json").write_text(json.dumps(fields))

    write(starts=1)
    folder = LoginFolder(tmp_path)
    write(starts=2, projects={"/p": {"mcpServers": {}}})
    assert folder.warnings("x") == []
    write(projects={"/p": {"mcpServers": {"a": {"command": "bad"}}}})
    assert folder.warnings("x")[0].startswith(".claude.json changed in ")
