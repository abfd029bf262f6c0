"""Creates worktrees: the name is chosen and saved first, then the files of a working tree are copied as they are."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from friday_cli.core.protocol.errors import ToolError

from ..local import LocalWorkspace
from . import include
from .git import Git, Repository
from .git_trees import REPOSITORY, GitTrees, shown
from .metadata import Worktree, WorktreeMetadata


class WorktreeCreator(msgspec.Struct, frozen=True):
    """Creates the worktrees of a session in `folder`; `include` are patterns of ignored files to copy."""

    git: Git
    folder: Path
    session: str
    include: tuple[str, ...]

    async def begin(
        self, base: LocalWorkspace, top: Path, repository: Repository, *, home: str = "", again: str = ""
    ) -> Worktree:
        """Choose the name and save it before anything else is created. `home` is the folder of the session (default: that
        of `base`); `again` is the name of a removed worktree to reuse. Raises ToolError."""
        await self._refuse_submodules(repository, top)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name, branch = await self._name(repository, again)
        within = base.root.relative_to(top).as_posix()
        folder, common = str(self.folder / name), str(repository.common)
        metadata = WorktreeMetadata(
            session=self.session,
            name=name,
            branch=branch,
            folder=folder,
            within=within,
            top=str(top),
            home=home or str(base.root),
            common=common,
        )
        worktree = Worktree(metadata, self.folder)
        worktree.save()
        return worktree

    async def _refuse_submodules(self, repository: Repository, top: Path) -> None:
        if not await asyncio.to_thread((top / ".gitmodules").exists):
            return
        listed = await self.git("ls-files", "-z", "-s", cwd=top, env={"GIT_DIR": str(repository.git_dir)})
        for entry in listed.split(b"\0")[:-1]:
            about, _, name = entry.partition(b"\t")
            if int(about.split(b" ")[0], 8) == REPOSITORY and _has_files(top / os.fsdecode(name)):
                raise ToolError(
                    f"{top} has submodules ({shown(name)}), which would be empty in a worktree.",
                    hint="Continue without isolation.",
                )

    async def _name(self, repository: Repository, again: str) -> tuple[str, str]:
        env = {"GIT_DIR": str(repository.git_dir)}
        words = ("for-each-ref", "--format=%(refname:strip=2)", "refs/heads/friday/")
        listed = await self.git(*words, cwd=repository.git_dir, env=env)
        taken = set(listed.decode("utf-8", "replace").split("\n"))
        start = self.session[:8]
        if again and not self._taken(again):
            number = 1
            while (branch := f"friday/{again}" + (f"-{number}" if number > 1 else "")) in taken:
                number += 1
            return again, branch
        number = 1
        while self._taken(name := f"{start}-{number}") or f"friday/{name}" in taken:
            number += 1
        return name, f"friday/{name}"

    def _taken(self, name: str) -> bool:
        return os.path.lexists(self.folder / name) or (self.folder / f"{name}.json").exists()

    async def fill(self, worktree: Worktree, top: Path, repository: Repository, *, index: Path | None) -> None:
        """Create branch and folder with the files of `top` as they are. `index` is Friday's private index of `top`, None
        for a new one. Raises ToolError and OSError."""
        git, metadata, git_dir = self.git, worktree.metadata, repository.git_dir
        source = GitTrees(git, repository, top, index or self.folder / "main.index", hidden=(self.folder.parent,))
        start = await source.snapshot(git_dir / "index")
        base = await self._base(source, git_dir)
        env = {"GIT_DIR": str(git_dir)}
        words = ("worktree", "add", "-q", "--no-checkout", "-b", metadata.branch, metadata.folder, base)
        await git(*words, cwd=top, env=env)
        admin = await asyncio.to_thread(_admin, worktree.folder)
        worktree.save(admin=str(admin), base=base)
        await source.check_out(worktree.folder, worktree.index)
        own = {"GIT_DIR": str(admin), "GIT_WORK_TREE": metadata.folder}
        await git("read-tree", base, cwd=worktree.folder, env=own)
        await git("update-ref", "refs/worktree/friday-start", start, cwd=worktree.folder, env=own)
        worktree.notes += await include.copy(source, worktree.folder, self.include)
        await asyncio.to_thread(_make_root, worktree.root)
        worktree.save(start=start)  # last: a worktree without a start is incomplete, and no agent has worked in it

    async def _base(self, source: GitTrees, git_dir: Path) -> str:
        """A commit of the working tree as it is: HEAD itself if nothing was changed since."""
        env = {"GIT_DIR": str(git_dir)}
        with tempfile.TemporaryDirectory(prefix="git-", dir=self.folder) as name:
            index = Path(name) / "index"
            tree = await GitTrees(self.git, source.repository, source.top, index, hidden=source.hidden).committed(
                git_dir / "index"
            )
        code, head, _ = await self.git.run("rev-parse", "-q", "--verify", "HEAD^{commit}", cwd=source.top, env=env)
        if code != 0:
            words = f"Files as a sub-agent of Friday found them ({self.session[:8]})"
            return await commit(self.git, git_dir, tree, (), words)
        parent = head.decode().strip()
        if await tree_of(self.git, git_dir, parent) == tree:
            return parent
        words = f"Uncommitted changes as a sub-agent of Friday found them ({self.session[:8]})"
        return await commit(self.git, git_dir, tree, (parent,), words)


async def tree_of(git: Git, git_dir: Path, name: str) -> str:
    """The id of the tree of a commit."""
    out = await git("rev-parse", f"{name}^{{tree}}", cwd=git_dir, env={"GIT_DIR": str(git_dir)})
    return out.decode().strip()


async def commit(git: Git, git_dir: Path, tree: str, parents: Sequence[str], words: str) -> str:
    """Create a commit of `tree` and return its id. No branch is moved."""
    options = [word for parent in parents for word in ("-p", parent)]
    call = ("commit-tree", "--no-gpg-sign", tree, *options, "-m", words)
    return (await git(*call, cwd=git_dir, env={"GIT_DIR": str(git_dir)})).decode().strip()


def _has_files(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def _admin(folder: Path) -> Path:
    """The git folder of a new worktree."""
    text = (folder / ".git").read_text(encoding="utf-8", errors="surrogateescape")
    found = re.fullmatch(r"gitdir: (.+)\n?", text, re.S)
    if found is None:
        raise ToolError(f"git did not create a worktree in {folder}.")
    return Path(found[1].removesuffix("\n"))


def _make_root(root: Path) -> None:
    """Create the agent's folder if it is missing: git does not track empty folders."""
    root.mkdir(parents=True, exist_ok=True)
    if Path(os.path.realpath(root)) != root:
        raise ToolError(f"{root} is below a link in the worktree.")
