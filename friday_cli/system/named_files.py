"""Which files a text of a project may put into a prompt by naming them: instructions that import files or are links, skills,
commands, profiles. Files that a person names are judged here as well, more leniently."""

from __future__ import annotations

import os
from pathlib import Path

from friday_cli.core.permissions.dangerous import is_secret
from friday_cli.core.protocol.errors import ToolError

from . import safe_files

PRIVATE = "its name is that of a file with secrets"
LOCAL_NOTES = ".local.md"
"""The end of the names of files that git usually ignores and that are meant for agents all the same."""


def why_left_out(path: Path, root: Path, *, asked: Path | None = None, by_person: bool = False) -> str:
    """Why the content of `path` may not be in a prompt, "" if it may. `path` and `root` have their links followed; `asked` is
    the path as it was written. `by_person`: the person chose the file, so what git ignores is let in."""
    if not path.is_relative_to(root):
        return f"it is outside {root}"
    inside = path.relative_to(root)
    if is_secret(inside.as_posix()) or (asked is not None and is_secret(asked.as_posix())):
        return PRIVATE
    if by_person:
        return ""
    if any(_is_of_git(root.joinpath(*inside.parts[:count])) for count in range(1, len(inside.parts) + 1)):
        return "it belongs to git"
    from .gitignore import is_ignored  # most prompts name no file

    return "git ignores it" if not path.name.endswith(LOCAL_NOTES) and is_ignored(path) else ""


def _is_of_git(path: Path) -> bool:
    """Whether git keeps its own files there: `.git`, or a folder with another name to which a file `.git` leads, or a bare repository."""
    return path.name.lower() == ".git" or (os.path.isfile(path / "HEAD") and os.path.isdir(path / "objects"))


def read_walked(root: str, label: str, limit: int) -> bytes:
    """`read_named` of a file that the person chose and a walk found below `root` without following links: its path leads through none,
    and if one was put there since, OSError is raised. `root` has its links followed."""
    if is_secret(label):
        raise ToolError(PRIVATE)
    return safe_files.read_below(root, label, limit)


def read_named(path: Path, root: Path, limit: int, *, asked: Path | None = None, by_person: bool = False) -> bytes:
    """At most `limit` bytes of a regular file that `why_left_out` lets in, opened from `root` without following links. Raises
    ToolError with the reason, and OSError."""
    if why := why_left_out(path, root, asked=asked, by_person=by_person):
        raise ToolError(why)
    return safe_files.read(root, path, limit)
