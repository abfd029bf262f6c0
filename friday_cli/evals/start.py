"""The files that trials of a task begin with: a repository of its own, which has this commit and its ancestors only."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from friday_cli.core.protocol.errors import FileError, FridayError, ToolError
from friday_cli.core.text.sanitize import sanitize
from friday_cli.system import safe_files
from friday_cli.workspace.worktrees.git import Git

from .commands import ConfinedCommands
from .suite import MOST_BYTES, Suite, Task

SETUP_S = 1_800.0
"""Seconds for the setup of a task."""
_ALONE = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_ALLOW_PROTOCOL": "file",
}
"""No settings of a person, so that no filter or driver runs and each machine makes the same files."""
_LEFT_OUT = (".git", "__pycache__")
"""Folders that are not copied."""
_IGNORED = "__pycache__/\n.pytest_cache/\n*.pyc\n"


class TaskStart:
    """The files of a task, in `folder`, made by `make`. `base` is their git tree after the setup. Methods raise ToolError."""

    def __init__(self, task: Task, suite: Suite, folder: Path, git: Git) -> None:
        self.task, self.folder, self.base = task, folder, ""
        self.repository = suite.repository(task)
        self._suite, self._git = suite, git
        self._own = folder.with_name(f"{folder.name}.git")
        """The git folder with the start, which no command of the suite can change."""
        self._hidden: dict[str, tuple[bytes, int]] = {}
        """Content and mode of the hidden files."""

    @classmethod
    async def make(cls, task: Task, suite: Suite, folder: Path, commands: ConfinedCommands, git: Git) -> TaskStart:
        """Make the files in the new `folder` and run the setup. Raises FridayError."""
        start = cls(task, suite, folder, git)
        await asyncio.to_thread(folder.mkdir, parents=True)
        await start._run("init", "-q", "-b", "main", "--template=", cwd=folder)
        await start._run("config", "core.logAllRefUpdates", "false", cwd=folder)
        (folder / ".git" / "info").mkdir(exist_ok=True)
        (folder / ".git" / "info" / "exclude").write_text(_IGNORED)
        if task.commit:
            commit = await start.commit(task.commit)
            await start._run("fetch", "-q", "--no-tags", "--no-write-fetch-head", start.repository, commit, cwd=folder)
            await start._run("update-ref", "refs/heads/main", commit, cwd=folder)
            await start._run("reset", "-q", "--hard", cwd=folder)
        else:
            await asyncio.to_thread(start._write_start)
            await start._run("add", "-A", cwd=folder)
            await start._run("commit", "-q", "--allow-empty", "-m", "Start", cwd=folder)
        await asyncio.to_thread(shutil.copytree, folder / ".git", start._own, symlinks=True)
        if task.setup:
            ran = await commands.run(task.setup, folder, SETUP_S)
            if ran.exit_code:
                raise FridayError(f"{task.name}: the setup {ran.how}: {sanitize(ran.output).strip()[-500:]}")
        start.base = await start.tree(folder)
        if task.hidden:
            await start._read_hidden(folder.with_name(f"{folder.name}-solved"))
        return start

    async def commit(self, named: str) -> str:
        """The id of a commit of the repository."""
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{named}^{{commit}}")
        try:
            return (await self._git(*words, cwd=self.repository)).decode().strip()
        except ToolError:
            raise ToolError(f"{self.task.name}: {named} is not a commit of {self.repository}.") from None

    async def copy(self, folder: Path) -> None:
        """Copy the files to a new folder."""
        await asyncio.to_thread(shutil.copytree, self.folder, folder, symlinks=True)

    async def tree(self, folder: Path) -> str:
        """The git tree of the files in a folder, without those that it ignores. Git's own files there are not read."""
        index = folder.with_name(f"{folder.name}.index")
        env = {"GIT_DIR": str(self._own), "GIT_WORK_TREE": str(folder), "GIT_INDEX_FILE": str(index)}
        try:
            await self._run("-c", "advice.addEmbeddedRepo=false", "add", "-A", cwd=folder, env=env)
            return (await self._run("write-tree", cwd=folder, env=env)).decode().strip()
        finally:
            index.unlink(missing_ok=True)

    async def changes(self, folder: Path) -> tuple[bytes, tuple[str, ...]]:
        """What differs in a folder from the start: a patch for git, and the names of the files."""
        tree = await self.tree(folder)
        words = ("diff-tree", "-r", "--no-renames", "--no-ext-diff", "--no-textconv")
        names = await self._run(*words, "-z", "--name-only", self.base, tree, cwd=self._own)
        patch = await self._run(*words, "-p", "--binary", "--full-index", self.base, tree, cwd=self._own)
        return patch, tuple(os.fsdecode(name) for name in names.split(b"\0") if name)

    async def apply(self, patch: bytes, folder: Path) -> None:
        """Apply a patch in a copy."""
        if patch.strip():
            own = {"GIT_DIR": str(self._own), "GIT_WORK_TREE": str(folder)}
            await self._run("apply", "--whitespace=nowarn", "-", cwd=folder, env=own, data=patch)

    async def solve(self, folder: Path) -> None:
        """Apply the reference in a copy."""
        task, reference = self.task, self._suite.folder / self.task.reference
        for name, text in task.solution.items():
            _put(folder, name, text.encode(), 0o644)
        if not task.reference:
            return
        if task.commit and not reference.exists():
            first, last = await self.commit(task.commit), await self.commit(task.reference)
            words = ("diff-tree", "-r", "-p", "--binary", "--full-index", "--no-ext-diff", "--no-textconv")
            await self.apply(await self._run(*words, first, last, cwd=self.repository), folder)
        elif reference.is_dir():
            await asyncio.to_thread(_lay_over, reference, folder)
        elif reference.is_file():
            await self.apply(await asyncio.to_thread(reference.read_bytes), folder)
        else:
            raise ToolError(f"{task.name}: the reference {task.reference} is neither a file nor a folder of the suite.")

    def put_hidden(self, folder: Path) -> None:
        """Put the hidden files into a copy, in place of what is there. Blocks."""
        for name, (content, mode) in self._hidden.items():
            _put(folder, name, content, mode)

    async def _read_hidden(self, folder: Path) -> None:
        try:
            await self.copy(folder)
            await self.solve(folder)
            for name in self.task.hidden:
                try:
                    content = safe_files.read(folder, folder / name, MOST_BYTES)
                except (FridayError, OSError):
                    why = f"the reference does not have the file {name}"
                    raise FileError(self.task.name, why, field="hidden") from None
                self._hidden[name] = content, (folder / name).stat().st_mode & 0o777
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    def _write_start(self) -> None:
        task = self.task
        if task.folder:
            source = self._suite.folder / task.folder
            if not source.is_dir():
                raise FileError(task.name, f"{source} is not a folder", field="folder")
            _lay_over(source, self.folder)
        for name, text in task.start.items():
            _put(self.folder, name, text.encode(), 0o644)

    async def _run(
        self, *words: str | Path, cwd: Path, env: Mapping[str, str] | None = None, data: bytes = b""
    ) -> bytes:
        return await self._git(*words, cwd=cwd, env={**_ALONE, **(env or {})}, data=data)


def _lay_over(source: Path, folder: Path) -> None:
    """Copy what is below `source`, except git's files, into a folder whose content is not trusted: no link there is followed. Links are
    copied as links. Raises ToolError for what is not a file, FileError for one that is too large."""
    for at, folders, names in os.walk(source):
        folders[:] = [name for name in folders if name not in _LEFT_OUT]
        for path in (Path(at, name) for name in (*folders, *names)):
            label = str(path.relative_to(source))
            if path.is_symlink():
                _make_way(folder, label).symlink_to(os.readlink(path))
            elif path.is_dir():
                if not (folder / label).is_dir() or (folder / label).is_symlink():
                    _make_way(folder, label).mkdir()
            else:
                content = safe_files.read(source, path, MOST_BYTES + 1)
                if len(content) > MOST_BYTES:
                    raise FileError(str(path), f"is larger than {MOST_BYTES:,} bytes")
                _put(folder, label, content, path.stat().st_mode & 0o777)


def _put(folder: Path, name: str, content: bytes, mode: int) -> None:
    """Write a file below a folder whose content is not trusted: no link on the way is followed."""
    path = _make_way(folder, name)
    path.write_bytes(content)
    path.chmod(mode)


def _make_way(folder: Path, name: str) -> Path:
    """The path of `name` below a folder whose content is not trusted, with nothing there: neither a link on the way nor at its end."""
    path, at = folder / name, folder
    for part in Path(name).parts[:-1]:
        at = at / part
        if at.is_symlink() or at.is_file():
            at.unlink()
        at.mkdir(exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    return path
