"""How a worktree comes to be: named and written down first, then made of a working tree as it is."""

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
from . import include as taking
from .git import Git, Repository
from .git_trees import REPOSITORY, GitTrees, shown
from .metadata import Worktree, WorktreeMetadata


class Maker(msgspec.Struct, frozen=True):
    """Makes the worktrees of a session in `folder`; `include` are patterns of ignored files that are copied."""

    git: Git
    folder: Path
    session: str
    include: tuple[str, ...]

    async def begin(
        self, base: LocalWorkspace, top: Path, repository: Repository, *, home: str = "", again: str = ""
    ) -> Worktree:
        """Choose the name and write it down, before anything else is made. `home` is the folder of the session, that of
        `base` by default; `again` a name to use once more."""
        await self._refuse_submodules(repository, top)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name, branch = await self._name(repository, again)
        within = base.root.relative_to(top).as_posix()
        folder, common = str(self.folder / name), str(repository.common)
        card = WorktreeMetadata(
            session=self.session,
            name=name,
            branch=branch,
            folder=folder,
            within=within,
            top=str(top),
            home=home or str(base.root),
            common=common,
        )
        worktree = Worktree(card, self.folder)
        worktree.note()
        return worktree

    async def _refuse_submodules(self, repository: Repository, top: Path) -> None:
        if not await asyncio.to_thread((top / ".gitmodules").exists):
            return
        listed = await self.git("ls-files", "-z", "-s", cwd=top, env={"GIT_DIR": str(repository.git_dir)})
        for entry in listed.split(b"\0")[:-1]:
            about, _, name = entry.partition(b"\t")
            if int(about.split(b" ")[0], 8) == REPOSITORY and _filled(top / os.fsdecode(name)):
                raise ToolError(
                    f"{top} has submodules ({shown(name)}), which would be empty in a worktree.",
                    hint="Go on without isolation.",
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
        """Make branch and folder, holding `top` as it is. `index` is Friday's own of `top`, None for a new one."""
        git, card, git_dir = self.git, worktree.card, repository.git_dir
        seen = index or self.folder / "main.index"
        source = GitTrees(git, repository, top, seen, hidden=(self.folder.parent,))
        start = await source.snapshot(git_dir / "index")
        begin = await self._base(source, git_dir)
        env = {"GIT_DIR": str(git_dir)}
        words = ("worktree", "add", "-q", "--no-checkout", "-b", card.branch, card.folder, begin)
        await git(*words, cwd=top, env=env)
        admin = await asyncio.to_thread(_admin, worktree.folder)
        worktree.note(admin=str(admin), base=begin)
        await source.lay_out(worktree.folder, worktree.index)
        own = {"GIT_DIR": str(admin), "GIT_WORK_TREE": card.folder}
        await git("read-tree", begin, cwd=worktree.folder, env=own)
        await git("update-ref", "refs/worktree/friday-start", start, cwd=worktree.folder, env=own)
        worktree.notes += await taking.copy(source, worktree.folder, self.include)
        await asyncio.to_thread(_inside, worktree.root)
        worktree.note(start=start)  # the last thing: what has no start was never whole, and nobody worked in it

    async def _base(self, source: GitTrees, git_dir: Path) -> str:
        """The commit of the working tree as it is: HEAD itself where nothing was changed since."""
        env = {"GIT_DIR": str(git_dir)}
        with tempfile.TemporaryDirectory(prefix="git-", dir=self.folder) as name:
            index = Path(name) / "index"
            tree = await GitTrees(self.git, source.repository, source.top, index, hidden=source.hidden).committed(
                git_dir / "index"
            )
        code, head, _ = await self.git.ask("rev-parse", "-q", "--verify", "HEAD^{commit}", cwd=source.top, env=env)
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
    """A new commit of `tree`; no branch moves."""
    above = [word for parent in parents for word in ("-p", parent)]
    call = ("commit-tree", "--no-gpg-sign", tree, *above, "-m", words)
    return (await git(*call, cwd=git_dir, env={"GIT_DIR": str(git_dir)})).decode().strip()


def _filled(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def _admin(folder: Path) -> Path:
    """The git folder of a worktree that was just made."""
    text = (folder / ".git").read_text(encoding="utf-8", errors="surrogateescape")
    found = re.fullmatch(r"gitdir: (.+)\n?", text, re.S)
    if found is None:
        raise ToolError(f"git made no worktree in {folder}.")
    return Path(found[1].removesuffix("\n"))


def _inside(root: Path) -> None:
    """Make sure the agent's own folder is there: git knows no empty ones."""
    root.mkdir(parents=True, exist_ok=True)
    if not Path(os.path.realpath(root)) == root:
        raise ToolError(f"{root} leads elsewhere in the worktree.")
