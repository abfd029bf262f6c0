"""A real git repository with worktrees."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.process.command_host import CommandHost
from friday_cli.workspace.worktrees.apply import Applied
from friday_cli.workspace.worktrees.metadata import Worktree
from friday_cli.workspace.worktrees.worktrees import Worktrees

SESSION = "7f3a1b2c-0000-4000-8000-000000000000"
ENV = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "LC_ALL": "C.UTF-8",
    "GIT_AUTHOR_NAME": "P",
    "GIT_AUTHOR_EMAIL": "p@example.org",
    "GIT_COMMITTER_NAME": "P",
    "GIT_COMMITTER_EMAIL": "p@example.org",
}


def git(folder: Path, *words: str, ok: bool = True) -> str:
    """The output of the user's git in `folder`."""
    ran = subprocess.run(["git", *words], cwd=folder, env=ENV, capture_output=True)
    assert ran.returncode == 0 or not ok, ran.stderr.decode()
    return ran.stdout.decode("utf-8", "surrogateescape")


def repository(folder: Path, **files: str) -> Path:
    """A repository with one commit: README.md and `files`."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    return commit(folder, **{"README.md": "read me\n", **files})


def write_files(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def commit(folder: Path, **files: str) -> Path:
    """Write `files`, and commit all files of the repository."""
    write_files(folder, **files)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "files")
    return folder


def listing(folder: Path) -> dict[str, str]:
    """Every file below a folder except git's: its content, after "* " for a program, or the target of a link."""
    found = {}
    for path in folder.rglob("*"):
        short = path.relative_to(folder)
        if path.is_symlink():
            found[str(short)] = f"-> {os.readlink(path)}"
        elif path.is_file() and ".git" not in short.parts:
            found[str(short)] = ("* " if os.access(path, os.X_OK) else "") + path.read_bytes().decode("latin-1")
    return found


def own_state(folder: Path) -> dict[str, str]:
    """The sha256 of the files in a repository that belong to the user: index, HEAD, stash, branches, configuration."""
    top = folder / ".git"
    files = [path for path in top.rglob("*") if path.is_file() and path.relative_to(top).parts[0] != "objects"]
    return {path.relative_to(top).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


class OpenRepository:
    """A repository with a workspace in `root`, and the worktrees of one session, which are below `home`."""

    def __init__(self, home: Path, root: Path, *, include: tuple[str, ...] = ()) -> None:
        self.home, self.root, self.base = home, root, LocalWorkspace(root, CommandHost(environ=ENV))
        self.worktrees = Worktrees(home / "worktrees" / SESSION, session=SESSION, include=include, environ=ENV)
        self.count = 0

    async def create(self, base: LocalWorkspace | None = None, path: str = "") -> Worktree:
        """A worktree that belongs to a new agent."""
        worktree = await self.worktrees.create(base or self.base)
        self.count += 1
        assert self.worktrees.claim(worktree.workspace, path or f"a.{self.count}") is worktree
        return worktree

    async def refresh(self, worktree: Worktree) -> Worktree:
        await self.worktrees.refresh(worktree)
        return worktree

    async def apply(self, worktree: Worktree) -> Applied:
        return await self.worktrees.apply(worktree, self.base)

    def metadata_files(self) -> list[str]:
        return sorted(file.name for file in self.worktrees.folder.glob("*.json"))

    def branches(self) -> list[str]:
        return friday_branches(self.root)


def friday_branches(root: Path) -> list[str]:
    return git(root, "for-each-ref", "--format=%(refname:short)", "refs/heads/friday").split()
