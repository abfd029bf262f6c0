"""What is known of a worktree beside it, so that a later process finds it whatever became of the one that made it."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from friday_cli.atomic_file import replace
from friday_cli.core.protocol.events import WorktreeChanged
from friday_cli.core.protocol.receipt import FileChange

from ..local import LocalWorkspace
from .git import Git, Repository
from .git_trees import GitTrees, TreeChange

State = Literal["opened", "changed", "unchanged", "applied", "discarded", "kept"]
OPEN: frozenset[State] = frozenset(("opened", "changed"))
"""The states in which the worktree is there."""


class WorktreeMetadata(msgspec.Struct, frozen=True):
    """A worktree on disk: `folder` of `agent` in `session`, on `branch`, made of the working tree `top`.

    `within` is the agent's folder in it, `home` the folder of the session. `common` is the repository's git folder,
    `admin` the worktree's own. `base` is the commit it started from, `start` the git tree of its files at that moment,
    byte for byte.
    """

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
    """A worktree in use or of the past. `files` is what changed in it when it was last looked at, `changes` the same
    path by path, `text` the difference (its beginning), `end` the git tree of its files then. `problem` says why it could
    not be looked at. `workspace` is where its agent works; None until it is needed.
    `notes` are remarks on what was not taken along."""

    card: WorktreeMetadata
    place: Path
    state: State = "opened"
    workspace: LocalWorkspace | None = None
    files: tuple[FileChange, ...] = ()
    changes: tuple[TreeChange, ...] = ()
    end: str = ""
    text: str = ""
    problem: str = ""
    notes: list[str] = []

    @property
    def path(self) -> str:
        """The agent it belongs to, "" for none yet."""
        return self.card.agent

    @property
    def open(self) -> bool:
        return self.state in OPEN

    @property
    def folder(self) -> Path:
        return Path(self.card.folder)

    @property
    def root(self) -> Path:
        """The agent's folder in it."""
        return self.folder / self.card.within

    @property
    def index(self) -> Path:
        """Friday's own index of it."""
        return self.place / f"{self.card.name}.index"

    @property
    def event(self) -> WorktreeChanged:
        """How it stands, as an event of its agent."""
        card = self.card
        files = () if self.state == "opened" else self.files
        return WorktreeChanged(self.state, card.branch, card.folder, card.base, files)

    def note(self, **fields: Any) -> None:
        """Change the card, on disk as well."""
        self.card = msgspec.structs.replace(self.card, **fields)
        replace(self.place / f"{self.card.name}.json", msgspec.json.encode(self.card).decode("utf-8"), mode=0o600)

    async def trees(self, git: Git) -> GitTrees:
        """Its files as git sees them; what its agent made of its `.git` does not matter."""
        repository = await Repository.read(git, Path(self.card.common))
        return GitTrees(git, repository, self.folder, self.index)


def cards(place: Path) -> Iterator[Worktree]:
    """The worktrees whose cards lie in the folder `place`; what is no card is passed over."""
    for file in sorted(place.glob("*.json")):
        try:
            card = msgspec.json.decode(file.read_bytes(), type=WorktreeMetadata)
        except (OSError, msgspec.DecodeError):
            continue
        if card.name == file.stem and Path(card.folder) == place / card.name:
            yield Worktree(card, place)


def sweep(folder: Path) -> None:
    """Remove a folder with all in it, also where rights were taken from parts of it. Raises OSError."""

    def again(act: Callable[..., Any], path: str, error: Any) -> None:
        if not os.path.lexists(path):
            return
        for part in (os.path.dirname(path), path):
            if not os.path.islink(part):
                os.chmod(part, stat.S_IRWXU)
        if act in (os.rmdir, os.unlink):
            act(path)
        else:
            shutil.rmtree(path)

    if os.path.lexists(folder):
        shutil.rmtree(folder, onerror=again)
