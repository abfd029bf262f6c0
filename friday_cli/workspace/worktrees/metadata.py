"""A worktree and its metadata file, by which a later process finds it if the one that created it has died."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from friday_cli.core.protocol.events import WorktreeChanged
from friday_cli.core.protocol.receipt import FileChange
from friday_cli.system.atomic_file import replace_bytes

from ..local import LocalWorkspace
from .git import Git, Repository
from .git_trees import GitTrees, TreeChange

WorktreeState = Literal["opened", "changed", "unchanged", "applied", "discarded", "kept"]


class WorktreeMetadata(msgspec.Struct, frozen=True):
    """A worktree on disk: `folder` of `agent` in `session`, on `branch`, created from the working tree `top`. `within` is the
    agent's folder in it, `home` the folder of the session. `common` is the git folder of the repository, `admin` that of
    the worktree. `base` is the commit it started from, `start` the git tree of its exact files then ("" until complete)."""

    session: str
    name: str
    branch: str
    folder: str
    within: str
    top: str
    home: str
    common: str
    agent: str = ""
    admin: str = ""
    base: str = ""
    start: str = ""


class Worktree(msgspec.Struct, eq=False):
    """A worktree, existing or removed; its metadata file is in the folder `parent`. `files`, `changes` (one for each path),
    `text` (the diff, limited) and `end` (the git tree of its files) are those of the last refresh; `problem` says why it
    failed. `workspace` is where its agent works; None until it is needed. `notes` are remarks on files not copied."""

    metadata: WorktreeMetadata
    parent: Path
    state: WorktreeState = "opened"
    workspace: LocalWorkspace | None = None
    files: tuple[FileChange, ...] = ()
    changes: tuple[TreeChange, ...] = ()
    end: str = ""
    text: str = ""
    problem: str = ""
    notes: list[str] = []

    @property
    def path(self) -> str:
        """The path of the agent that it belongs to, "" for none yet."""
        return self.metadata.agent

    @property
    def open(self) -> bool:
        """Whether it exists."""
        return self.state in ("opened", "changed")

    @property
    def folder(self) -> Path:
        return Path(self.metadata.folder)

    @property
    def root(self) -> Path:
        """The agent's folder in it."""
        return self.folder / self.metadata.within

    @property
    def index(self) -> Path:
        """Friday's private git index for it."""
        return self.parent / f"{self.metadata.name}.index"

    @property
    def event(self) -> WorktreeChanged:
        """Its state as an event of its agent."""
        files = () if self.state == "opened" else self.files
        return WorktreeChanged(self.state, self.metadata.branch, self.metadata.folder, self.metadata.base, files)

    def save(self, **fields: Any) -> None:
        """Change fields of the metadata and write its file. Raises OSError."""
        self.metadata = msgspec.structs.replace(self.metadata, **fields)
        replace_bytes(self.parent / f"{self.metadata.name}.json", msgspec.json.encode(self.metadata), mode=0o600)

    async def trees(self, git: Git) -> GitTrees:
        """Its files as git sees them. Changes of the agent to its `.git` have no effect. Raises ToolError."""
        repository = await Repository.read(git, Path(self.metadata.common))
        return GitTrees(git, repository, self.folder, self.index)


def load_worktrees(parent: Path) -> Iterator[Worktree]:
    """The worktrees whose metadata files are in the folder `parent`; other files are skipped."""
    for file in sorted(parent.glob("*.json")):
        try:
            metadata = msgspec.json.decode(file.read_bytes(), type=WorktreeMetadata)
        except (OSError, msgspec.DecodeError):
            continue
        if metadata.name == file.stem and Path(metadata.folder) == parent / metadata.name:
            yield Worktree(metadata, parent)


def remove_folder(folder: Path) -> None:
    """Remove a folder with its content, even if parts of it are not writable. Raises OSError."""

    def make_writable(operation: Callable[..., Any], path: str, error: Any) -> None:
        if not os.path.lexists(path):
            return
        for part in (os.path.dirname(path), path):
            if not os.path.islink(part):
                os.chmod(part, stat.S_IRWXU)
        if operation in (os.rmdir, os.unlink):
            operation(path)
        else:
            shutil.rmtree(path)

    if os.path.lexists(folder):
        shutil.rmtree(folder, onerror=make_writable)
