"""The search for a project ends below a folder that other users control, and the person is told."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from friday_cli.core.protocol.errors import ToolError
from friday_cli.extensions.trust import project_root
from friday_cli.system.project_search import CEILINGS, left_out
from friday_cli.workspace.worktrees.git import Git, discover
from tests.cli.console import Console

STRANGER = 4711


@pytest.fixture
def shared(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a subfolder `mine/deep` and a file for each thing that steers; no setting of git but the test's own."""
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in ("SUDO_UID", "GIT_CONFIG_GLOBAL"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path.resolve() / "shared"
    (folder / "mine/deep").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / "AGENTS.md").write_text("TEXT-OF-OTHERS\n")
    (folder / ".mcp.json").write_text('{"mcpServers": {"theirs": {"command": "false"}}}')
    return folder


def give(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `folder` belong to another user: it gets another owner where the tests may do that, else they play another user."""
    if os.geteuid() == 0:
        os.chown(folder, STRANGER, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: STRANGER)


def is_project(top: Path, folder: Path) -> bool:
    """Whether `top`, not `folder`, is the project; if not, the line for the person names both."""
    line = left_out(folder)
    found = project_root(folder)
    assert found in (top, folder)
    assert (line == "") is (found == top)
    assert line == "" or (line.startswith(f"{top} is not the project of {folder}: ") and "\n" not in line)
    return found == top


def test_ones_own_repository_is_the_project_of_its_folders(shared: Path) -> None:
    assert is_project(shared, shared)
    assert is_project(shared, shared / "mine/deep")


def test_a_repository_of_another_user_is_none_but_for_the_folder_one_starts_in(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(shared, monkeypatch)
    assert not is_project(shared, shared / "mine")
    assert " owns " in left_out(shared / "mine")
    assert left_out(shared / "mine").endswith(f"To use it: git config --global --add safe.directory {shared}")
    assert is_project(shared, shared)


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o702])
@pytest.mark.parametrize("where", ["", "mine"])
def test_a_folder_that_every_user_can_write_stops_the_search(shared: Path, mode: int, where: str) -> None:
    (shared / where).chmod(mode)
    assert not is_project(shared, shared / "mine/deep")
    assert f"every user can write to {shared / where}" in left_out(shared / "mine/deep")
    assert project_root(shared) == shared


def test_a_folder_that_a_group_can_write_stops_the_search_unless_it_is_ones_own_group(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared.chmod(0o775)
    assert is_project(shared, shared / "mine"), "the person's own group, as with umask 002"
    if os.geteuid() == 0:
        os.chown(shared, -1, STRANGER)
        assert not is_project(shared, shared / "mine")
        assert f"the group {STRANGER} can write to" in left_out(shared / "mine")


def test_a_safe_directory_of_the_persons_git_is_the_project_but_never_a_folder_for_temporary_files(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def safe(*values: str) -> bool:
        Path.home().joinpath(".gitconfig").write_text('[alias]\n\tx = "!f() { a; \\\n\t}; f"\n')
        for value in values:
            subprocess.run(["git", "config", "--global", "--add", "safe.directory", value], check=True, cwd="/")
        return is_project(shared, shared / "mine/deep")

    shared.chmod(0o777)
    (shared / "mine").chmod(0o777)
    assert [safe(str(shared)), safe("*"), safe(f"{shared.parent}/*"), safe("/other", str(shared))] == [True] * 4
    assert [safe(), safe("/other"), safe(str(shared), ""), safe(str(shared / "mine"))] == [False] * 4
    (shared / "mine").chmod(0o1777)
    assert not safe("*")
    assert "safe.directory" not in left_out(shared / "mine/deep")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes owners")
def test_with_sudo_the_folders_of_the_person_count(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chown(shared, STRANGER, -1)
    assert not is_project(shared, shared / "mine")
    monkeypatch.setenv("SUDO_UID", str(STRANGER))
    assert is_project(shared, shared / "mine")
    monkeypatch.setattr(os, "geteuid", lambda: 1)
    assert not is_project(shared, shared / "mine"), "the variable says nothing about another user than root"


def test_a_ceiling_of_git_ends_the_search_without_a_word(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CEILINGS, f"/nowhere:{shared}")
    assert (project_root(shared / "mine"), left_out(shared / "mine")) == (shared / "mine", "")
    assert project_root(shared) == shared


def test_fridays_git_finds_no_repository_that_is_left_out(shared: Path) -> None:
    assert asyncio.run(discover(Git(os.environ), shared / "mine"))[0] == shared
    shared.chmod(0o777)
    with pytest.raises(ToolError, match="is not in a git repository"):
        asyncio.run(discover(Git(os.environ), shared / "mine"))


def test_nothing_of_it_steers_and_every_command_says_so(
    shared: Path, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    console = Console(shared / "mine", home, capsys)
    give(shared, monkeypatch)
    monkeypatch.chdir(shared / "mine")
    line = f"{shared} is not the project of {shared / 'mine'}: "
    asked = console("ask", "-m", "demo", "hello")
    assert line in asked.err.replace("\n", " ")
    assert "AGENTS.md" not in asked.err
    assert "theirs" not in console("mcp", "list").out
    assert line in console("trust").err.replace("\n", " ")
    assert line.replace(" ", "") in "".join(console("doctor").out.split())
