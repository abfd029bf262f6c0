"""A real git repository to make worktrees of."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.worktrees import Worktree, Worktrees

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
    """What a person's git prints in `folder`."""
    ran = subprocess.run(["git", *words], cwd=folder, env=ENV, capture_output=True)
    assert ran.returncode == 0 or not ok, ran.stderr.decode()
    return ran.stdout.decode("utf-8", "surrogateescape")


def repository(folder: Path, **files: str) -> Path:
    """A repository with one commit."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "README.md").write_text("read me\n")
    for name, text in files.items():
        (folder / name).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "one")
    return folder


def listing(folder: Path) -> dict[str, str]:
    """Every file below a folder but git's own: what it holds and whether it is a program or a link."""
    found = {}
    for where, folders, files in os.walk(os.fsencode(folder)):
        folders[:] = [name for name in folders if name != b".git"]
        for name in files:
            path = os.path.join(where, name)
            if name == b".git":
                continue
            short = os.fsdecode(os.path.relpath(path, os.fsencode(folder)))
            if os.path.islink(path):
                found[short] = "-> " + os.fsdecode(os.readlink(path))
            else:
                sign = "* " if os.access(path, os.X_OK) else ""
                found[short] = sign + Path(os.fsdecode(path)).read_bytes().decode("latin-1")
    return found


def own_state(folder: Path) -> dict[str, str]:
    """What of a repository is a person's: index, HEAD, stash, branches, configuration, byte for byte."""
    top = folder / ".git"
    kept = {}
    for path in sorted(top.rglob("*")):
        short = path.relative_to(top).as_posix()
        if path.is_file() and not short.startswith("objects/"):
            kept[short] = hashlib.sha256(path.read_bytes()).hexdigest()
    return kept


@asynccontextmanager
async def workspace(root: Path) -> AsyncIterator[LocalWorkspace]:
    made = LocalWorkspace(root, environ=ENV)
    try:
        yield made
    finally:
        await made.close()


class Ground:
    """A repository, its workspace and the worktrees of one session."""

    def __init__(self, home: Path, root: Path, base: LocalWorkspace, *, include: tuple[str, ...] = ()) -> None:
        self.home, self.root, self.base = home, root, base
        self.worktrees = Worktrees(home / "worktrees" / SESSION, session=SESSION, include=include, environ=ENV)
        self.count = 0

    async def child(self, base: LocalWorkspace | None = None, path: str = "") -> Worktree:
        """A worktree that belongs to a new agent."""
        made = await self.worktrees.create(base or self.base)
        self.count += 1
        assert self.worktrees.claim(made.workspace, path or f"a.{self.count}") is made
        return made

    def metadata_files(self) -> list[str]:
        return sorted(file.name for file in self.worktrees.folder.glob("*.json"))

    def branches(self) -> list[str]:
        return git(self.root, "for-each-ref", "--format=%(refname:short)", "refs/heads/friday").split()


@asynccontextmanager
async def ground(tmp_path: Path, root: Path, *, include: tuple[str, ...] = ()) -> AsyncIterator[Ground]:
    async with workspace(root) as base:
        yield Ground(tmp_path / "home", root, base, include=include)
