"""Which paths git ignores below a folder: nested .gitignore files and .git/info/exclude. Standard library only."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from friday_cli.system.project_search import nearest_repository

from . import git_settings, globs
from .beneath import FOLDER, opened_folder

_SIZE = 1024 * 1024


class IgnoreFile:
    """The lines of one ignore file. As in git, a sign in them stands for one byte of a name."""

    def __init__(self, text: str, *, any_case: bool = False) -> None:
        self._rules: list[tuple[re.Pattern[str], bool, bool]] = []
        for line in _as_bytes(text.removeprefix("\ufeff")).split("\n"):
            if rule := _rule(line.removesuffix("\r"), any_case):
                self._rules.insert(0, rule)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def is_ignored(self, path: str, folder: bool) -> bool | None:
        """Whether `path`, relative to the file's folder, is ignored (True), explicitly kept (False) or not matched."""
        path = _as_bytes(path)
        for pattern, keeps, folders_only in self._rules:
            if (folder or not folders_only) and pattern.fullmatch(path):
                return not keeps
        return None


def _as_bytes(text: str) -> str:
    """The bytes of a text, each as the character with its number."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("latin-1")


def _rule(line: str, any_case: bool) -> tuple[re.Pattern[str], bool, bool] | None:
    if line.startswith("#"):
        return None
    stripped = line.rstrip(" ")
    if stripped.endswith("\\") and len(stripped) < len(line):  # an escaped blank is part of the name
        stripped += line[len(stripped)]
    keeps = stripped.startswith("!")
    text = stripped[1:] if keeps else stripped
    folders_only = text.endswith("/") and not text.endswith("\\/")
    if folders_only:
        text = text[:-1]
    anchored = "/" in text
    text = text.removeprefix("/")
    if not text or (len(text) - len(text.rstrip("\\"))) % 2:
        return None
    try:
        inner = globs.to_regex(text, braces=False)
    except (ValueError, re.error):
        return None
    flags = re.S | re.A | (re.I if any_case else 0)
    return re.compile(inner if anchored else f"(?:.*/)?{inner}", flags), keeps, folders_only


class Level:
    """The rules that apply in one folder: its own, and those of its parent folders up to the top of the repository."""

    def __init__(self, folder: str, above: Level | None) -> None:
        self._prefix = len(folder.rstrip("/")) + 1
        self._file, self._exclude_file = folder + "/.gitignore", ""
        git = folder + "/.git"
        self.repository = os.path.lexists(git)
        self._above = None if self.repository else above
        self.any_case: bool = self._above.any_case if self._above else self.repository and _any_case(git)
        self._own = IgnoreFile(_text(self._file), any_case=self.any_case)
        if self.repository:
            self._exclude_file = _common(git) + "/info/exclude"
        self._exclude = IgnoreFile(_text(self._exclude_file) if self.repository else "", any_case=self.any_case)

    def files(self) -> list[str]:
        """The files that these rules come from, if they exist."""
        own = [self._file, *([self._exclude_file] if self.repository else [])]
        return own if self._above is None else [*own, *self._above.files()]

    def below(self, folder: str) -> Level:
        """The level of a subfolder; this level itself if the subfolder adds no rules."""
        if os.path.lexists(folder + "/.gitignore") or os.path.lexists(folder + "/.git"):
            return Level(folder, self)
        return self

    def hides(self, path: str, folder: bool) -> bool:
        """Whether `path` (absolute, below this level's folder) is ignored, given that its parents are not."""
        return self.verdict(path, folder) or False

    def verdict(self, path: str, folder: bool) -> bool | None:
        """As `hides`; None if no rule of the repository matches."""
        level: Level | None = self
        while level is not None:
            ignored = level._own.is_ignored(path[level._prefix :], folder) if level._own else None
            if ignored is not None:
                return ignored
            if level._exclude:
                return level._exclude.is_ignored(path[level._prefix :], folder)
            level = level._above
        return None


def level_of(folder: Path) -> tuple[Level, bool]:
    """The rules that apply in `folder`, and whether `folder` itself is ignored."""
    top = nearest_repository(folder) or folder
    level = Level(str(top), None)
    path = str(top)
    for name in folder.relative_to(top).parts:
        path = f"{path.rstrip('/')}/{name}"
        if level.hides(path, True):
            return level, True
        level = level.below(path)
    return level, False


def is_ignored(path: Path) -> bool:
    """Whether git ignores the file or folder at `path` (links followed): by the rules of its repository and of those around
    it, or by the person's own list. False outside of a repository. A file that git tracks all the same counts as ignored."""
    tops = [folder for folder in path.parents if os.path.lexists(folder / ".git")]
    if not tops:
        return False
    level, at, personal = Level(str(tops[-1]), None), str(tops[-1]), list[tuple[str, IgnoreFile]]()
    parts = path.relative_to(tops[-1]).parts
    for number, name in enumerate(parts):
        if level.repository and os.path.lexists(f"{at}/.git"):
            personal += [(f"{at.rstrip('/')}/", rules) for rules in _personal_rules(at, level.any_case)]
        at = f"{at.rstrip('/')}/{name}"
        folder = number < len(parts) - 1 or os.path.isdir(at)
        kept = level.verdict(at, folder)
        if kept is None:
            kept = any(rules.is_ignored(at.removeprefix(top), folder) for top, rules in personal)
        if kept:
            return True
        level = level.below(at)
    return False


def _personal_rules(top: str, any_case: bool) -> list[IgnoreFile]:
    """The rules that a repository has beside its own: of `core.excludesFile` in all of git's settings (a condition is taken to
    hold), or of the default place of that file."""
    files = (*git_settings.personal_files(), *_settings(f"{top}/.git"))
    named = [name for file in files for name in git_settings.values(file, "core.excludesfile", conditional=True)]
    default = f"{os.environ.get('XDG_CONFIG_HOME') or os.path.expanduser('~/.config')}/git/ignore"
    places = (os.path.join(top, os.path.expanduser(name)) for name in named or [default])
    return [IgnoreFile(_text(place), any_case=any_case) for place in places]


def _any_case(git: str) -> bool:
    """Whether the names of a repository differ by more than case (`core.ignoreCase`), which git sets where the disk does not tell
    them apart."""
    values = [value for file in _settings(git) for value in git_settings.values(file, "core.ignorecase")]
    return bool(values) and values[-1].lower() in ("true", "yes", "on", "1")


def _settings(git: str) -> tuple[str, str]:
    """The files with the settings of a repository."""
    return f"{_common(git)}/config", f"{_common(git)}/config.worktree"


class WalkedFile(NamedTuple):
    """A file of a walk. `folder` is an open descriptor of its folder until the next file is asked for."""

    path: str
    name: str
    folder: int


def walk_files(root: str, folder: str, level: Level | None, *, hidden: bool) -> Iterator[WalkedFile]:
    """The files below `folder`, which is in `root`, without those that its rules `level` hide (None: no rules). No link is
    followed, also none that is put in place of a folder meanwhile. `.git` is left out; so are names that begin with a dot, unless
    `hidden` is set."""
    parts = [part for part in os.path.relpath(folder, root).split(os.sep) if part != os.curdir]
    try:
        with opened_folder(root, parts) as opened:
            yield from _below(os.open(os.curdir, FOLDER, dir_fd=opened), folder, level, hidden)
    except OSError:
        return  # removed meanwhile, or not readable


def _below(opened: int, folder: str, level: Level | None, hidden: bool) -> Iterator[WalkedFile]:
    """The files below an open folder, whose descriptor is closed at the end."""
    stack = [(opened, folder, level, list[str]())]
    unread = True
    try:
        while stack:
            opened, folder, level, waiting = stack[-1]
            if unread:
                unread = False
                for entry in _listed(opened):
                    if entry.name == ".git" or (not hidden and entry.name.startswith(".")) or entry.is_symlink():
                        continue
                    is_folder = entry.is_dir(follow_symlinks=False)
                    path = f"{folder}/{entry.name}"
                    if level is not None and level.hides(path, is_folder):
                        continue
                    if is_folder:
                        waiting.append(entry.name)
                    elif entry.is_file(follow_symlinks=False):
                        yield WalkedFile(path, entry.name, opened)
            if not waiting:
                os.close(stack.pop()[0])
                continue
            name = waiting.pop()
            try:
                below = os.open(name, FOLDER, dir_fd=opened)
            except OSError:
                continue  # removed, replaced by a link, or not readable
            path = f"{folder}/{name}"
            stack.append((below, path, level and level.below(path), []))
            unread = True
    finally:
        for opened, *_ in stack:
            os.close(opened)


def _listed(opened: int) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(opened) as entries:
            return list(entries)
    except OSError:
        return []


def rules_in(path: Path) -> IgnoreFile:
    """The rules of one file; no rules if it does not exist."""
    return IgnoreFile(_text(str(path)))


def indexed_files(folder: Path) -> int:
    """How many files git's index has in the repository that contains `folder`; 0 if that is not known."""
    if (top := nearest_repository(folder)) is None:
        return 0
    git = str(top / ".git")
    if os.path.isfile(git):
        git = os.path.join(top, _text(git).removeprefix("gitdir:").strip())
    try:
        with open(os.open(f"{git}/index", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0) as file:
            head = file.read(12) or b""
    except OSError:
        return 0
    return int.from_bytes(head[8:], "big") if head.startswith(b"DIRC") else 0


def _common(git: str) -> str:
    """The git folder that has `info/exclude`; for a linked worktree (.git is a file) that of its repository."""
    if not os.path.isfile(git):
        return git
    pointed = os.path.join(os.path.dirname(git), _text(git).removeprefix("gitdir:").strip())
    common = _text(pointed + "/commondir").strip()
    return os.path.join(pointed, common) if common else pointed


def _text(path: str) -> str:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return ""
            return file.read(_SIZE).decode("utf-8", "surrogateescape")
    except OSError:
        return ""
