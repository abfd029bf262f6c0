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
from friday_cli.system import safe_files
from friday_cli.system.paths import text_of

from ..local import LocalWorkspace
from .git import Git, Repository
from .git_trees import REPOSITORY, GitTrees
from .metadata import Worktree, WorktreeMetadata

MOST_FILES, MOST_BYTES = 1_000, 100_000_000
"""Limits of the ignored files that are copied: their number, and their total bytes."""


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
        within, home = base.root.relative_to(top).as_posix(), home or str(base.root)
        folder, common = str(self.folder / name), str(repository.common)
        metadata = WorktreeMetadata(self.session, name, branch, folder, within, str(top), home=home, common=common)
        worktree = Worktree(metadata, self.folder)
        worktree.save()
        return worktree

    async def _refuse_submodules(self, repository: Repository, top: Path) -> None:
        if not await asyncio.to_thread((top / ".gitmodules").exists):
            return
        listed = await self.git("ls-files", "-z", "-s", cwd=top, git_dir=repository.git_dir)
        for entry in listed.split(b"\0")[:-1]:
            about, _, name = entry.partition(b"\t")
            folder = top / os.fsdecode(name)
            if int(about.split(b" ")[0], 8) == REPOSITORY and folder.is_dir() and any(folder.iterdir()):
                raise ToolError(
                    f"{top} has submodules ({text_of(name)}), which would be empty in a worktree.",
                    hint="Continue without isolation.",
                )

    async def _name(self, repository: Repository, again: str) -> tuple[str, str]:
        words = ("for-each-ref", "--format=%(refname:strip=2)", "refs/heads/friday/")
        listed = await self.git(*words, git_dir=repository.git_dir)
        taken = set(listed.decode("utf-8", "replace").split("\n"))
        if again and not self._taken(again):
            number = 1
            while (branch := f"friday/{again}" + (f"-{number}" if number > 1 else "")) in taken:
                number += 1
            return again, branch
        number = 1
        while self._taken(name := f"{self.session[:8]}-{number}") or f"friday/{name}" in taken:
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
        words = ("worktree", "add", "-q", "--no-checkout", "-b", metadata.branch, metadata.folder, base)
        await git(*words, cwd=top, git_dir=git_dir)
        admin = await asyncio.to_thread(_git_folder, worktree.folder)
        worktree.save(admin=str(admin), base=base)
        await source.check_out(worktree.folder, worktree.index)
        env = {"GIT_WORK_TREE": metadata.folder}
        await git("read-tree", base, cwd=worktree.folder, git_dir=admin, env=env)
        await git("update-ref", "refs/worktree/friday-start", start, cwd=worktree.folder, git_dir=admin, env=env)
        worktree.notes += await _copy_ignored(source, worktree.folder, self.include)
        await asyncio.to_thread(_make_root, worktree.root)
        worktree.save(start=start)  # last: a worktree without a start is incomplete, and no agent has worked in it

    async def _base(self, source: GitTrees, git_dir: Path) -> str:
        """A commit of the working tree as it is: HEAD itself if nothing was changed since."""
        with tempfile.TemporaryDirectory(prefix="git-", dir=self.folder) as name:
            trees = GitTrees(self.git, source.repository, source.top, Path(name) / "index", hidden=source.hidden)
            tree = await trees.committed(git_dir / "index")
        code, out, _ = await self.git.run("rev-parse", "HEAD^{commit}", "HEAD^{tree}", git_dir=git_dir)
        head, committed = out.decode().split() if code == 0 else ("", "")
        if head and committed == tree:
            return head
        what = "Uncommitted changes" if head else "Files"
        message = f"{what} as a sub-agent of Friday found them ({self.session[:8]})"
        return await commit(self.git, git_dir, tree, message, parent=head)


async def tree_of(git: Git, git_dir: Path, name: str) -> str:
    """The id of the tree of a commit."""
    return (await git("rev-parse", f"{name}^{{tree}}", git_dir=git_dir)).decode().strip()


async def commit(git: Git, git_dir: Path, tree: str, message: str, *, parent: str) -> str:
    """Create a commit of `tree` on `parent` ("" for none) and return its id. No branch is moved."""
    words = ("commit-tree", "--no-gpg-sign", tree, *(("-p", parent) if parent else ()), "-m", message)
    return (await git(*words, git_dir=git_dir)).decode().strip()


def _git_folder(folder: Path) -> Path:
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


async def _copy_ignored(source: GitTrees, folder: Path, patterns: Sequence[str]) -> list[str]:
    """Copy the ignored files of a working tree that match one of `patterns` into `folder`. A pattern is a glob as in
    .gitignore: without a `/` it matches in every folder. Returns remarks on files that were not copied."""
    if not patterns:
        return []
    specs = [f":(top,glob){spec}" for pattern in patterns for spec in _specs(pattern)]
    words = ("ls-files", "-z", "-o", "-i", "--exclude-standard", "--", *specs)
    with source.repository.control(source.top, source.index, raw=True, hidden=source.hidden) as env:
        listed = await source.git(*words, cwd=source.top, env=env)
    names = [name for name in listed.split(b"\0")[:-1] if not name.endswith(b"/")]
    return await asyncio.to_thread(_copy, source.top, folder, names)


def _specs(pattern: str) -> list[str]:
    bare = pattern.removeprefix("./").strip("/")
    near = [bare] if "/" in pattern.rstrip("/") else [bare, f"**/{bare}"]
    return [*near, *(f"{spec}/**" for spec in near)]


def _copy(top: Path, folder: Path, names: Sequence[bytes]) -> list[str]:
    remarks, room = [], MOST_BYTES
    for count, name in enumerate(os.fsdecode(name) for name in names):
        try:
            found = safe_files.entry(top, top / name)
            room -= found.size if found is not None else 0
            if count >= MOST_FILES or room < 0:
                remarks.append(
                    f"{len(names) - count} ignored files exceed the limit and were not copied, from {text_of(name)} on"
                )
                break
            safe_files.copy(top, folder, name)
        except OSError as error:
            remarks.append(f"{text_of(name)} was not copied: {error.strerror}")
    return remarks
