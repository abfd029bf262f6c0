"""Commands of a child apart that name what is not theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from friday_cli.command_safety import analyze
from friday_cli.core.protocol.errors import ToolError, UsageError
from friday_cli.tools.shell import bash_tool
from tests.command_safety import workspace_fixture
from tests.workspace.worktrees.repo_fixture import workspace

MAIN, OWN = Path("/home/u/proj"), Path("/home/u/.local/share/friday/worktrees/s/7f3a1b2c-1")


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("cat /home/u/proj/x", "/home/u/proj"),
        ("cd '/home/u/proj'", "/home/u/proj"),
        ("ls ~/proj", "~/proj"),
        ('ls "$HOME/proj"', "$HOME/proj"),
        ("ls ${HOME}/proj/a", "${HOME}/proj"),
        ("x=/home/u/proj; ls $x", "/home/u/proj"),
        ("x=/home/u; ls $x/proj", "/home/u/proj"),
        ("ls '/home/u/proj", "/home/u/proj"),
        ("git --git-dir=../x log", "--git-dir"),
        ("git --git-dir ../x log", "--git-dir"),
        ("git --work-tree=/ status", "--work-tree"),
        ("GIT_DIR=/x git log", "GIT_DIR"),
        ("export GIT_WORK_TREE=/x", "GIT_WORK_TREE"),
        ("cat /home/u/project/x /home/u/proj-2 /home/u/proj.old", ""),
        ("cat /mnt/home/u/proj/x", ""),
        (f"cat {OWN}/x", ""),
        ("git status && cat proj/x", ""),
        ("grep -- --git-directory x", ""),
        ("echo $GIT_DIR", ""),
    ],
)
def test_stray(command: str, found: str) -> None:
    assert analyze(command, workspace_fixture.virtual_context(OWN, away=(MAIN,), home="/home/u")).leaves == found


def test_a_folder_inside_the_main_one_is_still_its_own() -> None:
    own = MAIN / ".friday-home" / "worktrees" / "s" / "1"
    ground = workspace_fixture.virtual_context(own, away=(MAIN,), home="")
    assert analyze(f"cat {own}/x", ground).leaves == ""
    assert analyze(f"cat {own}/x {MAIN}/x", ground).leaves == str(MAIN)


def test_the_root_of_everything_is_in_every_path() -> None:
    assert analyze("cat /etc/hosts", workspace_fixture.virtual_context(OWN, away=(Path("/"),))).leaves == ""


async def test_a_workspace_beside_another(tmp_path: Path) -> None:
    for name in ("main", "own"):
        (tmp_path / name).mkdir()
    async with workspace(tmp_path / "main") as main:
        own = main.at(tmp_path / "own", away=(main.root,))
        bash = bash_tool()
        for background in (False, True):
            with pytest.raises(ToolError, match="names a path outside your worktree"):
                bash.script(bash.parse({"command": f"ls {main.root}", "background": background}), own)
        ran = await own.run("pwd; echo $PWD", agent="a.1", timeout_s=60, on_output=lambda text: None)
        assert ran.output == f"{own.root}\n{own.root}\n"
        ran = await main.run(f"ls -d {main.root}", agent="a", timeout_s=60, on_output=lambda text: None)
        assert ran.exit_code == 0
        with pytest.raises(ToolError, match="outside the workspace"):
            own.resolve(str(main.root / "x"), write=True)
        job = await own.start("sleep 20", agent="a.1")
        await main.start("sleep 20", agent="a")  # keeps the shared launcher alive
        await own.close()
        with pytest.raises(ToolError, match="closed"):
            await own.run("true", agent="a.1", timeout_s=60, on_output=lambda text: None)
        assert job.running
        ran = await main.run("echo still there", agent="a", timeout_s=60, on_output=lambda text: None)
        assert ran.output == "still there\n"
        with pytest.raises(UsageError):
            main.at(tmp_path / "nowhere")
        last = main.at(tmp_path / "own")
    with pytest.raises(ToolError, match="closed"):
        await last.run("true", agent="a.1", timeout_s=60, on_output=lambda text: None)
