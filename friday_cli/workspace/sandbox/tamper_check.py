"""Compares files that could run code or grant rights later, before and after a command. A change is reported where a
sandbox cannot prevent it (Landlock never can; bubblewrap cannot if the command creates the repository), and of files of the
project that other programs run (`CODE`) always. It is not undone, because the user may have made it at the same time; only
where git finds the repository of a worktree is restored: people do not edit that, and without it git fails."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Sequence
from typing import NamedTuple

from .protected_paths import writable_folder

FILES, BYTES, KEPT = 500, 16 * 1024 * 1024, 4096
"""Files that are scanned, bytes of each that are read, and bytes of a file that is restored."""
CODE = (
    ".vscode", ".idea", ".zed", ".devcontainer", ".devcontainer.json", ".github/workflows", ".github/actions", ".gitlab-ci.yml",
    ".circleci", ".gitea/workflows", ".forgejo/workflows", ".woodpecker", ".woodpecker.yml", ".husky", ".githooks", ".envrc",
    ".mcp.json", ".claude", ".cursor", ".codex", ".gemini", ".pre-commit-config.yaml", "lefthook.yml", ".gitmodules",
)  # fmt: skip
"""Files and folders at the top of a project from which editors, hooks, CI and agents run programs."""
_LINKS = ("commondir", "gitdir")


class ScannedFile(NamedTuple):
    """`stamp` begins with the mode. `content` is that of a file that is restored."""

    stamp: tuple[int, ...]
    digest: str
    content: bytes = b""


ScannedFiles = dict[str, ScannedFile]
"""The protected files by path."""


def scan(roots: Sequence[str], before: ScannedFiles | None = None) -> ScannedFiles:
    """The protected files of `roots`. Files that did not change since the scan `before` are not read again."""
    found: ScannedFiles = {}
    for root in roots:
        code = (os.path.join(root, name) for name in CODE)
        for path in (*writable_folder(root).freeze, os.path.join(root, ".git", "commondir"), *code):
            _walk(path, found, before or {})
    return found


def changed(before: ScannedFiles, after: ScannedFiles) -> tuple[str, ...]:
    """The protected files that differ, sorted. Git's sample hooks are ignored: git does not run them."""
    old, new = ({name: (file.stamp[0], file.digest) for name, file in files.items()} for files in (before, after))
    names = sorted(name for name in old.keys() | new.keys() if not name.endswith(".sample"))
    return tuple(name for name in names if old.get(name) != new.get(name))


def restore(before: ScannedFiles, names: Sequence[str]) -> None:
    """Restore those of the changed files `names` that say where git finds the repository of a worktree."""
    for name in names:
        content = before[name].content if name in before else b""
        if content:
            with contextlib.suppress(OSError):  # the whole folder is gone: git ignores the worktree then
                temporary = f"{name}.{os.getpid()}"
                with open(
                    os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644), "wb"
                ) as file:
                    file.write(content)
                os.replace(temporary, name)


def _walk(path: str, found: ScannedFiles, before: ScannedFiles) -> None:
    if len(found) >= FILES:
        return
    try:
        status = os.lstat(path)
        if stat.S_ISDIR(status.st_mode):
            for name in sorted(os.listdir(path)):
                if name not in ("objects", "refs", "logs", "index"):  # modules/ contains whole repositories
                    _walk(os.path.join(path, name), found, before)
            return
        stamp = (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        known = before.get(path)
        found[path] = known if known and known.stamp == stamp else _read(path, status, stamp)
    except OSError:
        return


def _read(path: str, status: os.stat_result, stamp: tuple[int, ...]) -> ScannedFile:
    if stat.S_ISLNK(status.st_mode):
        return ScannedFile(stamp, os.readlink(path))
    if not stat.S_ISREG(status.st_mode):
        return ScannedFile(stamp, "")
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        content = file.read(BYTES)
    link = os.path.basename(path) in _LINKS and os.path.basename(os.path.dirname(os.path.dirname(path))) == "worktrees"
    kept = content if link and len(content) <= KEPT else b""
    return ScannedFile(stamp, hashlib.sha256(content).hexdigest(), kept)
