"""Friday runs its own programs from nowhere that a repository or another user can write."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from friday_cli.core.protocol.errors import ToolError
from friday_cli.system import own_programs
from friday_cli.system.own_programs import find_program, why_not_used
from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.process.command_host import CommandHost
from friday_cli.workspace.sandbox.detect import detect_sandbox
from tests.workspace.commands import run
from tests.workspace.sandbox.conftest import outside_tmp

__all__ = ["outside_tmp"]


def program(folder: Path, name: str, mark: Path, mode: int = 0o755) -> Path:
    """A program that leaves a mark and succeeds."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\necho $0 >> {mark}\n")
    (folder / name).chmod(mode)
    return folder


@pytest.fixture(autouse=True)
def _elsewhere(outside_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder, which counts as workspace, contains none of the folders of these tests."""
    monkeypatch.chdir("/")
    own_programs._found.clear()


def test_only_trusted_places_are_searched(outside_tmp: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_programs, "TEMPORARY", (str(tmp_path),))  # --basetemp may name any folder
    project, mark = outside_tmp / "project", outside_tmp / "mark"
    (project / ".git").mkdir(parents=True)
    good = program(outside_tmp / "good", "tool", mark)
    inside = program(project / ".venv/bin", "tool", mark)
    open_to_all = program(outside_tmp / "open", "tool", mark)
    open_to_all.chmod(0o777)
    linked = outside_tmp / "linked"
    linked.mkdir()
    (linked / "tool").symlink_to(inside / "tool")
    loose = program(outside_tmp / "loose", "tool", mark, 0o777)
    temporary = program(tmp_path / "bin", "tool", mark)
    for folder, why in (
        (inside, "below the folder"),
        (open_to_all, "other users can write"),
        (linked, "below the folder"),
        (loose, "other users can write"),
        (temporary, "in a temporary folder"),
    ):
        path = f"{folder}:{good}"
        assert find_program("tool", path, (project / "sub",)) == str(good / "tool")
        assert f"{folder}/tool is " in why_not_used("tool", path, (project / "sub",))
        assert why in why_not_used("tool", path, (project / "sub",))
    assert find_program("tool", f"{inside}:", (project,)) is None
    assert find_program("tool", "relative", (project,)) is None
    assert why_not_used("tool", str(good), (project,)) == ""


async def test_friday_runs_no_program_of_the_repository(outside_tmp: Path) -> None:
    project, mark = outside_tmp / "project", outside_tmp / "mark"
    for name in ("bwrap", "rg", "git", "bash", "uname", "true"):
        program(project / "node_modules/.bin", name, mark)
    environ = {**os.environ, "PATH": f"{project}/node_modules/.bin:{os.environ['PATH']}", "HOME": str(outside_tmp)}
    found = await asyncio.to_thread(detect_sandbox, "auto", environ, workspace=(project,))
    assert found.program != f"{project}/node_modules/.bin/bwrap"
    workspace = LocalWorkspace(project, CommandHost(environ=environ))
    assert (await run(workspace, "echo done")).output == "done\n"
    printed = await workspace.execute(["git", "--version"], agent="a", timeout_s=20, limit=1000)
    assert printed.out.startswith(b"git version")
    with pytest.raises(ToolError, match="nothing-like-this was not found"):
        await workspace.execute(["nothing-like-this"], agent="a", timeout_s=20, limit=1000)
    await workspace.close()
    assert not mark.exists()


@pytest.mark.parametrize("words", [("doctor",), ("ask", "-m", "demo", "Give me an overview of this folder.")])
def test_friday_in_a_repository_with_programs_on_path(outside_tmp: Path, words: tuple[str, ...]) -> None:
    project, mark = outside_tmp / "project", outside_tmp / "mark"
    for name in ("bwrap", "rg", "git", "bash", "uname", "true", "sh"):
        program(project / ".venv/bin", name, mark)
    environ = {**os.environ, "PATH": f"{project}/.venv/bin:{os.environ['PATH']}", "FRIDAY_SANDBOX": "auto"}
    environ["PYTHONPATH"] = str(Path(__file__).parents[2])
    ran = subprocess.run(
        [sys.executable, "-m", "friday_cli", *words],
        cwd=project,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert not mark.exists(), mark.read_text()
    if words == ("doctor",):
        assert f"not used {project}/.venv/bin/bash is below the folder" in " ".join(ran.stdout.split())
