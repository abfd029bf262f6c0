"""Compares files that could run code or grant rights later, before and after a command. A change is reported where a
sandbox cannot prevent it (Landlock never can; bubblewrap cannot if the command creates the repository), and of files of the
project that other programs run always. It is not undone at once, because the user may have made it at the same time; the
earlier content is returned so that a rewind can. Only where git finds the repository of a worktree is restored: people do
not edit that, and without it git fails."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from friday_cli.system.beneath import opened_folder

from .code_places import CodePlaces
from .protected_paths import writable_folder

FILES, BYTES, KEPT = 500, 16 * 1024 * 1024, 64 * 1024
"""Files that are scanned in each folder, bytes of each that are read, and bytes of a file whose content is kept."""
ALL_FILES = 20_000
"""Files that are scanned in all."""
_PROGRAMS = (".venv/bin", "venv/bin", "node_modules/.bin")
"""Folders of programs that are on an activated PATH."""
_LINKS = ("commondir", "gitdir")
_STORAGE = ("objects", "refs", "logs", "index")
"""Parts of a git folder that name no program."""


class ScannedFile(NamedTuple):
    """`stamp` begins with the mode. `content` is None if it is larger than `KEPT`, the target for a link."""

    stamp: tuple[int, ...]
    digest: str
    content: bytes | None = None


ScannedFiles = dict[str, ScannedFile]
"""The protected files by path."""


def scan(roots: Sequence[str], before: ScannedFiles | None = None) -> ScannedFiles:
    """The protected files of `roots`. Files that did not change since the scan `before` are not read again."""
    found: ScannedFiles = {}
    for root in roots:
        for path in (
            *writable_folder(root).freeze,
            os.path.join(root, ".git", "commondir"),
            *_places(root).find(),
            *_on_path(root),
        ):
            if len(found) < ALL_FILES:
                _walk(path, found, before or {}, len(found) + FILES)
    for path in before or ():  # also where a change keeps it from being found
        if path not in found:
            _walk(path, found, before or {}, len(found) + 1)
    return found


def below(paths: Iterable[str]) -> ScannedFiles:
    """The files at or below `paths`."""
    found: ScannedFiles = {}
    for path in paths:
        _walk(path, found, {}, ALL_FILES)
    return found


@lru_cache(64)
def _places(root: str) -> CodePlaces:
    return CodePlaces(root)


def _on_path(root: str) -> Iterator[str]:
    """The folders of PATH inside a project."""
    yield from (
        os.path.normpath(path) for path in os.environ.get("PATH", "").split(os.pathsep) if path.startswith(f"{root}/")
    )


def changed(before: ScannedFiles, after: ScannedFiles) -> tuple[str, ...]:
    """The protected files that differ, sorted. Git's sample hooks are ignored: git does not run them."""
    old, new = ({name: (file.stamp[0], file.digest) for name, file in files.items()} for files in (before, after))
    names = sorted(name for name in old.keys() | new.keys() if not name.endswith(".sample"))
    return tuple(name for name in names if old.get(name) != new.get(name))


def restore(before: ScannedFiles, names: Sequence[str]) -> None:
    """Restore those of the changed files `names` that say where git finds the repository of a worktree."""
    for name in names:
        content = before[name].content if name in before and _finds_repository(name) else None
        if content:
            folder, _, file_name = name.rpartition("/")
            temporary = f"{file_name}.{os.getpid()}"
            # an error: the whole folder is gone, so git ignores the worktree; or a link is on the way
            with (
                contextlib.suppress(OSError),
                opened_folder("/", folder.strip("/").split("/")) as opened,
            ):
                made = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=opened)
                with open(made, "wb") as file:
                    file.write(content)
                os.replace(temporary, file_name, src_dir_fd=opened, dst_dir_fd=opened)


def _finds_repository(path: str) -> bool:
    """Whether git finds the repository of a worktree by this file."""
    folder = os.path.dirname(os.path.dirname(path))
    return os.path.basename(path) in _LINKS and os.path.basename(folder) == "worktrees"


def _walk(path: str, found: ScannedFiles, before: ScannedFiles, most: int) -> None:
    if len(found) >= most:
        return
    try:
        status = os.lstat(path)
        if stat.S_ISDIR(status.st_mode):
            names = set(os.listdir(path))
            if "HEAD" in names and "/.git/modules/" in path:  # the git folder of a submodule
                names.difference_update(_STORAGE)
            for name in sorted(names):
                _walk(os.path.join(path, name), found, before, most)
            return
        stamp = (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        known = before.get(path)
        found[path] = known if known and known.stamp == stamp else _read(path, status, stamp)
    except OSError:
        return


def _read(path: str, status: os.stat_result, stamp: tuple[int, ...]) -> ScannedFile:
    if stat.S_ISLNK(status.st_mode):
        content = os.fsencode(os.readlink(path))
    elif not stat.S_ISREG(status.st_mode):
        return ScannedFile(stamp, "")
    elif status.st_size > KEPT and os.path.dirname(path).endswith(_PROGRAMS):
        # to read them takes longer than most commands
        return ScannedFile(stamp, " ".join(map(str, stamp[1:])))
    else:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            content = file.read(BYTES)
    return ScannedFile(stamp, hashlib.sha256(content).hexdigest(), content if len(content) <= KEPT else None)
