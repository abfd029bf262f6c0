"""Finds the program of a language server for a file: in the project, then on PATH. Nothing is started."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from friday_cli.system import safe_files

from .entry import LanguageServerEntry

_ENVIRONMENTS = (".venv", "venv")
"""Folders of virtual environments in a project."""
LARGEST = 1_000_000
"""Bytes of a pyproject.toml or package.json that are read."""


class FoundServer(NamedTuple):
    """A server that can be started for the files below `root`. `venv`: the project's virtual environment, "" for none."""

    entry: LanguageServerEntry
    program: str
    root: Path
    venv: str
    in_project: bool
    """Whether the program is one of the project's files."""
    modules: Mapping[Path, Path]
    """The folders `node_modules` of the session's folder that a worktree has not, by their place in it; of a server for TypeScript."""

    @property
    def settings(self) -> dict[str, Any]:
        """What it reads as its settings: those of its entry, and where the project's Python is."""
        settings = dict(self.entry.settings)
        if self.venv and "python" in self.entry.languages.values():
            settings["python"] = {"pythonPath": f"{self.venv}/bin/python", **settings.get("python", {})}
        return settings


class Folders(NamedTuple):
    """Where files are, and where the programs of their project may be: `main` is the folder of the session for a worktree."""

    workspace: Path
    main: Path

    @property
    def all(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys((self.workspace, self.main)))


def candidates(name: str, entries: Sequence[LanguageServerEntry]) -> list[LanguageServerEntry]:
    """The entries for a file of this name, in order."""
    end = os.path.splitext(name)[1]
    return [entry for entry in entries if entry.enabled and end in entry.languages]


def servers_for(
    path: Path, folders: Folders, entries: Sequence[LanguageServerEntry], env: Mapping[str, str]
) -> list[FoundServer]:
    """The servers that can be started for a file, in order; of those that do not lint one is enough. Blocks."""
    found = []
    for entry in candidates(path.name, entries):
        root = project_root(path, folders.workspace, entry.root_markers)
        if entry.lints and not _wanted(entry, root):
            continue
        places = tuple(dict.fromkeys((root, *folders.all)))
        program = _program(entry, places, env)
        if program:
            inside = any(_is_in(program, folder) for folder in folders.all)
            modules = _modules(root, folders) if "typescript" in entry.languages.values() else {}
            found.append(FoundServer(entry, program, root, _environment(places), inside, modules))
    return found


def project_root(path: Path, workspace: Path, markers: Sequence[str]) -> Path:
    """The nearest folder above a file, in the workspace, that has one of `markers`; else the folder of the workspace."""
    for folder in path.parents:
        if not folder.is_relative_to(workspace):
            break
        if any((folder / marker).exists() for marker in markers):
            return folder
    return workspace


def _wanted(entry: LanguageServerEntry, root: Path) -> bool:
    if not entry.section or any((root / name).is_file() for name in entry.only_with):
        return True
    try:
        return entry.section.encode() in safe_files.read_linked(root / "pyproject.toml", LARGEST)
    except OSError:
        return False


def _program(entry: LanguageServerEntry, places: Sequence[Path], env: Mapping[str, str]) -> str:
    """The absolute path of the program, "" if there is none."""
    named = os.path.expanduser(entry.command)
    if "/" in named:
        options = [os.path.join(folder, named) for folder in places]
    else:
        options = [str(folder) for folder in _program_files(named, places)]
        options += filter(None, [shutil.which(named, path=env.get("PATH"))])
    for option in options:
        if os.path.isfile(option) and os.access(option, os.X_OK) and _is_new(entry, option):
            return option
    return ""


def _program_files(name: str, places: Sequence[Path]) -> Iterator[Path]:
    for folder in places:
        yield from (folder / environment / "bin" / name for environment in _ENVIRONMENTS)
        yield folder / "node_modules" / ".bin" / name


def _is_new(entry: LanguageServerEntry, program: str) -> bool:
    """Whether the package of npm that has the program is new enough."""
    if not entry.least_major:
        return True
    package = Path(os.path.realpath(program)).parent.parent / "package.json"
    try:
        version = str(json.loads(safe_files.read_linked(package, LARGEST)).get("version", ""))
        return int(version.partition(".")[0]) >= entry.least_major
    except (OSError, ValueError, AttributeError):
        return False


def _environment(places: Sequence[Path]) -> str:
    paths = (folder / name for folder in places for name in _ENVIRONMENTS)
    return next((str(path) for path in paths if (path / "pyvenv.cfg").is_file()), "")


def _modules(root: Path, folders: Folders) -> dict[Path, Path]:
    found, main = dict[Path, Path](), folders.main / root.relative_to(folders.workspace)
    for folder, other in zip((root, *root.parents), (main, *main.parents), strict=False):
        place, source = folder / "node_modules", other / "node_modules"
        if folder == other:
            break
        if source.is_dir() and (not os.path.lexists(place) or (place.is_dir() and not any(place.iterdir()))):
            found[place] = source
        if (folder / ".git").exists():  # the top of the worktree
            break
    return found


def _is_in(program: str, folder: Path) -> bool:
    return any(Path(path).is_relative_to(folder) for path in (program, os.path.realpath(program)))
