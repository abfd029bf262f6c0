"""Commands of a child in a worktree that name paths outside of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from friday_cli.command_safety import analyze
from friday_cli.core.protocol.errors import ToolError, UsageError
from friday_cli.tools.shell import bash_tool
from friday_cli.workspace.local import LocalWorkspace
from tests.command_safety.workspace_fixture import virtual_context
from tests.workspace.commands import run

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
def test_commands_that_leave_the_worktree(command: str, found: str) -> None:
    assert analyze(command, virtual_context(OWN, away=(MAIN,), home="/home/u")).leaves == found


def test_a_worktree_inside_the_main_folder_is_not_outside() -> None:
    own = MAIN / ".friday-home" / "worktrees" / "s" / "1"
    context = virtual_context(own, away=(MAIN,), home="")
    assert analyze(f"cat {own}/x", context).leaves == ""
    assert analyze(f"cat {own}/x {MAIN}/x", context).leaves == str(MAIN)


def test_the_root_folder_is_not_searched_for_in_commands() -> None:
    assert analyze("cat /etc/hosts", virtual_context(OWN, away=(Path("/"),))).leaves == ""


async def test_two_workspaces_with_one_launcher(tmp_path: Path) -> None:
    for name in ("main", "own"):
        (tmp_path / name).mkdir()
    main = LocalWorkspace(tmp_path / "main")
    own = main.at(tmp_path / "own", away=(main.root,))
    bash = bash_tool()
    for background in (False, True):
        with pytest.raises(ToolError, match="names a path outside your worktree"):
            bash.script(bash.parse({"command": f"ls {main.root}", "background": background}), own)
    assert (await run(own, "pwd; echo $PWD")).output == f"{own.root}\n{own.root}\n"
    assert (await run(main, f"ls -d {main.root}")).output == f"{main.root}\n"
    with pytest.raises(ToolError, match="outside the workspace"):
        own.resolve(str(main.root / "x"), write=True)
    assert (await own.start("sleep 20", agent="a.1")).running
    await main.start("sleep 20", agent="a")  # keeps the shared launcher running
    await own.close()
    with pytest.raises(ToolError, match="closed"):
        await run(own, "true")
    assert (await run(main, "echo still there")).output == "still there\n"
    with pytest.raises(UsageError):
        main.at(tmp_path / "nowhere")
    last = main.at(tmp_path / "own")
    await main.close()
    with pytest.raises(ToolError, match="closed"):
        await run(last, "true")
