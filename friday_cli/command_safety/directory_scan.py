"""Finds files that a recursive command would reach unnamed: links out of the workspace, secrets, ambiguous names."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from friday_cli.core.permissions.dangerous import is_secret
from friday_cli.core.text.lazy_regex import pattern

from .name_patterns import matches_any
from .project_overrides import is_ignored_by_rg
from .repository import holds_password

MAX_NAMES = 50_000
"""Directory entries that are scanned; in a larger tree the command needs approval."""
MAX_UNIGNORED_NAMES = 10_000
"""The same limit for searches that skip hidden and ignored files."""
MAX_SECRETS = 100
"""Files that may hold secrets, of which each is checked; with more the command needs approval."""
_VENDORED = frozenset((".git", ".venv", "venv", "node_modules", "site-packages", "vendor"))
"""Folders of third-party code: a file there that looks like a key is an example."""
_AMBIGUOUS = pattern(r"\s(?:\Z|[-'\"\\]|\.\.\Z)")
_AMBIGUOUS_FIRST = pattern(r"[-'\"\\]")


class DirectoryScan(msgspec.Struct, frozen=True):
    """Paths relative to the workspace. `links`: links to files outside of it; `folder_links`: those to
    folders; `secrets`: files that may hold keys;
    `ambiguous`: names that xargs would split into several. `complete` is False if the tree was too large."""

    links: tuple[str, ...] = ()
    folder_links: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    ambiguous: tuple[str, ...] = ()
    complete: bool = True

    def approval_reason(
        self,
        globs: Sequence[str],
        *,
        links: bool,
        split_on_blanks: bool = False,
        secrets: bool = True,
        follows: bool = False,
    ) -> str:
        """Why a program that reads all files matching `globs` (all files if empty) needs approval, or "". `links`: the
        program follows links; `split_on_blanks`: it splits names at blanks; `secrets`: it prints contents; `follows`: it
        reads below links to folders."""
        if not self.complete:
            return "there are too many files to check"
        if follows and self.folder_links:
            return f"{self.folder_links[0]} links out of the workspace"
        for wanted, paths, why in (
            (links, self.links, "links out of the workspace"),
            (secrets, self.secrets, "may hold secrets"),
        ):
            for path in paths if wanted else ():
                if matches_any(path, globs):
                    return f"{path} {why}"
        return f"{self.ambiguous[0]!r} would be split into several names" if split_on_blanks and self.ambiguous else ""


def _splits_into_files(label: str, directory: str) -> bool:
    """Whether a path with blanks consists of words that name other files."""
    words = label.split()
    return len(words) > 1 and (
        any(map(is_secret, words)) or any(os.path.lexists(os.path.join(directory, word)) for word in words[1:])
    )


class FolderSearch(NamedTuple):
    """The files below a folder that a recursive command reads."""

    under: tuple[str, ...] = ()
    """Names in it; () for all of them."""
    vendored: bool = True
    """Those in third-party folders, too."""
    skip_ignored: bool = False
    """None in hidden folders."""
    lenient: bool = False
    """A tree that is too large counts as complete, as it does with `skip_ignored`: not every search there needs approval."""


def scan_directory(root: str, directory: str, inside: Callable[[str], bool], search: FolderSearch) -> DirectoryScan:
    """Scan `root` for a command that runs in `directory`. `inside`: whether a real path belongs to the workspace."""
    vendored, skip_ignored = search.vendored, search.skip_ignored
    bounded = skip_ignored or search.lenient
    links: list[str] = []
    folder_links: list[str] = []
    secrets: list[str] = []
    odd: list[str] = []
    seen = checked = 0
    pending = [os.path.join(root, top) if top != "." else root for top in search.under] or [root]
    while pending:
        folder = pending.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        seen += len(entries)
        if len(secrets) > MAX_SECRETS:
            return DirectoryScan(complete=False)
        if seen > (MAX_UNIGNORED_NAMES if bounded else MAX_NAMES):
            return DirectoryScan(tuple(links), tuple(folder_links), tuple(secrets), tuple(odd), complete=bounded)
        for entry in entries:
            label = entry.path[len(root.rstrip("/")) + 1 :]
            first = folder in (root, directory) and _AMBIGUOUS_FIRST().match(entry.name)
            if first or _AMBIGUOUS().search(entry.name) or _splits_into_files(label, directory or root):
                odd.append(label)
            if entry.is_symlink():
                if _links_outside(entry.path, inside):
                    links.append(label)
                elif os.path.isdir(entry.path) and not inside(os.path.realpath(entry.path)):
                    folder_links.append(label)
            elif not skip_ignored and entry.name == ".git" and holds_password(f"{entry.path}/config"):
                secrets.append(f"{label}/config")
                continue
            elif entry.is_dir():
                hidden = skip_ignored and entry.name.startswith(".")
                checked += hidden
                skipped = hidden and checked <= MAX_SECRETS and is_ignored_by_rg(root, f"{label}/x")
                if not skipped and (vendored or entry.name not in _VENDORED):
                    pending.append(entry.path)
                continue
            if is_secret(label) and _VENDORED.isdisjoint(label.split(os.sep)):
                secrets.append(label)
    return DirectoryScan(tuple(links), tuple(folder_links), tuple(secrets), tuple(odd))


def _links_outside(path: str, inside: Callable[[str], bool]) -> bool:
    """Whether a link points to a file outside of the workspace that is not executable."""
    try:
        status = os.stat(path)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and not status.st_mode & 0o111 and not inside(os.path.realpath(path))
