"""What is checked out in a repository, read from its files without running git."""

from __future__ import annotations

from pathlib import Path

from friday_cli.core.text.lazy_regex import pattern
from friday_cli.core.text.sanitize import sanitize_line

from .project_search import repository_top

_HEAD = pattern(r"ref: refs/[^\x00-\x20\x7f-\xa0~^:?*\[\\]{1,200}|[0-9a-f]{40}|[0-9a-f]{64}")
"""A branch with a name that git allows (https://git-scm.com/docs/git-check-ref-format), or a commit."""


def branch(root: Path) -> str:
    """The git branch of the repository at `root`; "" if there is none."""
    if not (head := git_head(root)):
        return ""
    return head.removeprefix("ref: refs/heads/") if head.startswith("ref: ") else f"detached at {head[:12]}"


def git_head(root: Path) -> str:
    """What HEAD of the repository at `root` holds, as one safe line; "" if there is none. Reads files and does not run git. `.git` and
    HEAD may lead to any file, so what is not a branch or a commit is not returned."""
    try:
        head = first_line(git_folder(root) / "HEAD")
    except (OSError, ValueError):
        return ""
    return head if _HEAD().fullmatch(head) and sanitize_line(head, len(head)) == head else ""


def git_folder(root: Path) -> Path:
    """The folder of git's files for the working tree at `root`. Raises OSError, ValueError."""
    git = root / ".git"
    return root / first_line(git).removeprefix("gitdir:").strip() if git.is_file() else git


def first_line(path: Path) -> str:
    """The first line of a file. Raises ValueError for anything but a regular file: reading a pipe would block."""
    if not path.is_file():
        raise ValueError("not a file")
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.readline(4096).strip()


def short_branch(folder: Path) -> str:
    """The branch of the repository of `folder` (links resolved) for a list, the first 8 digits of a commit where none is checked
    out; "" without a repository."""
    top = repository_top(folder)
    head = git_head(top) if top else ""
    return head.removeprefix("ref: refs/heads/") if head.startswith("ref:") else head[:8]
