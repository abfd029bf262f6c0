"""Suites: the tasks of an eval, read from a folder, a JSONL file or the sample of the package."""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from friday_cli.core.protocol.errors import FileError, UsageError
from friday_cli.map.job import digest
from friday_cli.system import safe_files
from friday_cli.system.gitignore import is_ignored
from friday_cli.system.named_files import why_left_out
from friday_cli.system.project_search import nearest_repository

SAMPLE = "sample"
"""The name of the suite that is part of Friday."""
MOST_TASKS, MOST_BYTES = 2_000, 50_000_000
"""Tasks of a suite, and bytes of one of its files."""
TESTS = "{tests}"
"""Stands for the hidden files in a check command."""
SECONDS = 600.0
"""Active seconds of a trial, unless its task says otherwise."""


class Task(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A task, as its file has it. It begins with the `commit` of `repo`, the folder `folder`, or the texts `start`."""

    name: str = ""
    task: str = ""
    """Its text."""
    file: str = ""
    """A file with its text."""
    repo: str = ""
    commit: str = ""
    folder: str = ""
    start: dict[str, str] = {}
    """Texts by path."""
    setup: str = ""
    """Runs once, before the trials."""
    check: list[str] = []
    """Commands that must each end with 0."""
    hidden: list[str] = []
    """Files of the solution that are put in before the check."""
    reference: str = ""
    """What solves it: a commit of `repo`, a patch, or a folder that is laid over the start."""
    solution: dict[str, str] = {}
    """The texts that solve it, by path."""
    group: str = ""
    """The same for tasks of the same origin."""
    max_cost: float | None = None
    """US dollars of a trial."""
    timeout: float = SECONDS
    """Active seconds of a trial."""

    @property
    def checks(self) -> list[str]:
        """The check commands with the names of the hidden files."""
        return [command.replace(TESTS, shlex.join(self.hidden)) for command in self.check]


class Suite(msgspec.Struct, frozen=True):
    """A suite. `folder` is where its paths begin; `shipped`: it is part of Friday, so its commands are known."""

    name: str
    folder: Path
    tasks: tuple[Task, ...]
    shipped: bool = False

    @property
    def repositories(self) -> tuple[Path, ...]:
        """The repositories of its tasks, which contain the solutions."""
        return tuple(dict.fromkeys(self.repository(task) for task in self.tasks if task.commit))

    def repository(self, task: Task) -> Path:
        """The repository of a task's commit."""
        named = (self.folder / task.repo).resolve()
        return nearest_repository(named) or named

    @property
    def others(self) -> tuple[Path, ...]:
        """Those of its repositories that it is not in."""
        return tuple(found for found in self.repositories if found != nearest_repository(self.folder))

    @property
    def commands(self) -> tuple[str, ...]:
        """All commands that it runs, without those that are repeated."""
        found = (command for task in self.tasks for command in (task.setup, *task.check) if command)
        return tuple(dict.fromkeys(found))


def load_suite(named: str) -> Suite:
    """The suite of a name: a folder with a folder for each task, a file of JSON lines, or `sample`. Raises UsageError, FileError."""
    path = Path(named)
    if named == SAMPLE and not path.exists():
        with_files = Path(str(files("friday_cli.evals") / SAMPLE))
        return Suite(SAMPLE, with_files, _of_folder(with_files), shipped=True)
    if path.is_dir():
        return Suite(path.resolve().name, path.resolve(), _of_folder(path))
    if path.is_file():
        return Suite(path.stem, path.resolve().parent, _of_lines(path))
    raise UsageError(
        f"There is no suite {named}.",
        hint=f"Name a folder with NAME/task.toml files, a JSONL file, or {SAMPLE!r}; `friday eval from-git` makes one of commits.",
    )


def _of_folder(folder: Path) -> tuple[Task, ...]:
    defaults = read_toml(folder / "suite.toml") if (folder / "suite.toml").is_file() else {}
    found = sorted(folder.glob("*/task.toml"))
    if not found:
        raise UsageError(f"{folder} has no task: no file */task.toml.")
    tasks = []
    for path in found[: MOST_TASKS + 1]:
        own = read_toml(path)
        if "folder" in own:
            own["folder"] = f"{path.parent.name}/{own['folder']}"
        for key in ("file", "reference"):
            if (path.parent / str(own.get(key, ""))).exists() and own.get(key):
                own[key] = f"{path.parent.name}/{own[key]}"
        tasks.append(_task({"name": path.parent.name, **defaults, **own}, folder, str(path)))
    return _checked(tasks, str(folder))


def _of_lines(path: Path) -> tuple[Task, ...]:
    tasks = []
    for number, line in enumerate(safe_files.read_linked_text(path, MOST_BYTES).splitlines(), 1):
        if line.strip():
            try:
                given = msgspec.json.decode(line, type=dict[str, Any])
            except msgspec.MsgspecError as error:
                raise FileError(str(path), str(error), line=number) from None
            tasks.append(_task({"name": f"task-{number}", **given}, path.parent, str(path), line=number))
    return _checked(tasks, str(path))


def _checked(tasks: list[Task], where: str) -> tuple[Task, ...]:
    if not tasks:
        raise UsageError(f"{where} has no task.")
    if len(tasks) > MOST_TASKS:
        raise UsageError(f"{where} has more than {MOST_TASKS:,} tasks.")
    names = [task.name for task in tasks]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise UsageError(f"{where}: two tasks have the name {twice!r}.")
    return tuple(tasks)


def _task(given: dict[str, Any], folder: Path, where: str, *, line: int = 0) -> Task:
    if isinstance(given.get("check"), str):
        given["check"] = [given["check"]]
    try:
        task = msgspec.convert(given, Task)
    except msgspec.ValidationError as error:
        raise FileError(where, str(error), line=line) from None

    def refuse(problem: str) -> FileError:
        return FileError(where, problem, line=line)

    for named in (task.file, task.folder, task.reference if (folder / task.reference).exists() else ""):
        if why := _why_left_out(folder, named):
            raise refuse(f"{named[:80]!r} is not used: {why}")
    if task.file:
        task = msgspec.structs.replace(task, task=safe_files.read_linked_text(folder / task.file, MOST_BYTES), file="")
    if not re.fullmatch(r"[\w.-]{1,80}", task.name):
        raise refuse(f"the name {task.name[:80]!r} may only contain letters, digits, '.', '-' and '_'")
    if not task.task.strip():
        raise refuse("`task` is missing: the text that the agent receives")
    if not task.check:
        raise refuse("`check` is missing: the commands that decide whether it is solved")
    if sum(map(bool, (task.commit, task.folder, task.start))) != 1:
        raise refuse("it needs one of `commit`, `folder` or `start`: the files that it begins with")
    if not (task.reference or task.solution):
        raise refuse("`reference` is missing: what solves it (a commit, a patch or a folder), or `solution`")
    if task.timeout <= 0 or (task.max_cost is not None and task.max_cost <= 0):
        raise refuse("`timeout` and `max_cost` must be above 0")
    for path in (*task.hidden, *task.start, *task.solution):
        if path.startswith("/") or ".." in Path(path).parts or ".git" in Path(path).parts:
            raise refuse(f"{path!r} is not a path below the folder of the task")
    return task


def _why_left_out(folder: Path, named: str) -> str:
    """Why a file or folder that a suite names does not go into prompts and trials, "" if it does: it is a text of a project, unless git
    ignores the suite itself."""
    root, path = folder.resolve(), (folder / named).resolve()
    return why_left_out(path, root, asked=Path(named), by_person=is_ignored(root))


def start_digest(task: Task, suite: Suite) -> str:
    """A hash of the files that a task begins with."""
    content = files_digest(suite.folder / task.folder) if task.folder else ""
    return digest((str(suite.repository(task)) if task.commit else "", task.commit, task.start, content, task.setup))


def texts_digest(task: Task, suite: Suite) -> str:
    """A hash of what solves a task, from which its hidden files are taken."""
    path = suite.folder / task.reference
    if not task.reference or not path.exists():
        return digest((task.solution, task.reference))
    return files_digest(path) if path.is_dir() else digest(path.read_bytes())


def files_digest(folder: Path) -> str:
    """A hash of the names and contents of all files below a folder, of links where they lead."""
    found = sorted(path for path in folder.rglob("*") if ".git" not in path.parts)
    linked = [(str(path.relative_to(folder)), os.readlink(path)) for path in found if path.is_symlink()]
    files = [path for path in found if path.is_file() and not path.is_symlink()]
    return digest([*linked, *((str(path.relative_to(folder)), digest(path.read_bytes())) for path in files)])


def read_toml(path: Path) -> dict[str, Any]:
    """What a file of a suite has. Raises FileError."""
    try:
        return tomllib.loads(safe_files.read_linked_text(path, MOST_BYTES))
    except tomllib.TOMLDecodeError as error:
        raise FileError(str(path), str(error)) from None
