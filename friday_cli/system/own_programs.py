"""Finds the programs that Friday runs for itself (bwrap, bash, git, rg, clipboard programs) on PATH. Never in the workspace, a
temporary folder or a place that other users can write: `.venv/bin` or `node_modules/.bin` on PATH may hold anything."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from .project_search import nearest_repository

TEMPORARY = (
    *("/tmp", "/var/tmp", "/dev/shm"),
    *(path for name in ("TMPDIR", "TEMP", "TMP") if os.access(path := os.environ.get(name, ""), os.W_OK)),
)
"""Folders of temporary files."""
_NOBODY = 65534
"""The owner that files of root appear to have in a user namespace."""
_found: dict[tuple[str, str, tuple[str, ...]], str] = {}
"""The programs of this process by name, PATH and workspaces."""


def find_program(name: str, path: str | None, workspace: Iterable[str | os.PathLike[str]] = ()) -> str | None:
    """The program `name` in the folders of `path` (None: PATH of this process), None if there is none that can be trusted.
    The current folder counts as a `workspace`, and so do the repositories around them. A program that was found does not
    change while this process runs."""
    key = name, _folders(path), _projects(workspace)
    if key not in _found and (found := _find(*key)):
        _found[key] = found
    return _found.get(key)


def why_not_used(name: str, path: str | None, workspace: Iterable[str | os.PathLike[str]] = ()) -> str:
    """The program `name` that comes before the one that is used, and why it is not; "" if none does."""
    import shutil  # takes 2 ms, and tells more than a start needs

    first = shutil.which(name, path=_folders(path))
    if first is None or first == find_program(name, path, workspace):
        return ""
    return f"{first} is {_distrust_reason(first, _projects(workspace)) or 'not found in an absolute folder'}"


def _folders(path: str | None) -> str:
    return os.environ.get("PATH", os.defpath) if path is None else path


def _projects(workspace: Iterable[str | os.PathLike[str]]) -> tuple[str, ...]:
    present = [os.getcwd()] if os.path.isdir(".") else []  # it may be deleted
    return tuple(dict.fromkeys(_project(os.path.realpath(folder)) for folder in (*present, *workspace)))


def _project(folder: str) -> str:
    """The top of the repository around `folder`, or `folder` itself."""
    top = nearest_repository(Path(folder))  # also one that others control: what is in it is not trusted
    return folder if top is None or top == Path("/") else str(top)


def _find(name: str, path: str, projects: tuple[str, ...]) -> str | None:
    for folder in path.split(os.pathsep):
        found = os.path.join(folder, name)
        usable = os.path.isabs(folder) and os.path.isfile(found) and os.access(found, os.X_OK)
        if usable and not _distrust_reason(found, projects):
            return found
    return None


def _distrust_reason(program: str, projects: tuple[str, ...]) -> str:
    """Why a program must not be run, "" if it may."""
    for path in (os.path.realpath(os.path.dirname(program)), os.path.realpath(program)):
        if any(_inside(path, top) for top in projects if top != "/"):
            return "below the folder"
        if any(_inside(path, os.path.realpath(top)) for top in TEMPORARY):
            return "in a temporary folder"
        if (writable := _writable_by_others(path)) is not None:
            return f"in a place that other users can write ({writable})"
    return ""


def _writable_by_others(path: str) -> str | None:
    """The path itself or a folder above it that other users can change; None if there is none."""
    first = True
    while True:
        status = os.stat(path)
        open_to_all = status.st_mode & stat.S_IWOTH and (first or not status.st_mode & stat.S_ISVTX)
        if open_to_all or status.st_uid not in (0, os.getuid(), _NOBODY):
            return path
        if path == "/":
            return None
        path, first = os.path.dirname(path), False


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
