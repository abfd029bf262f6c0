"""The ground a command would run on: which paths it may look at, and what git would be told there."""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import msgspec

from friday_cli.core.permissions.dangerous import is_secret
from friday_cli.core.protocol.errors import FridayError
from friday_cli.core.protocol.workspace import Workspace

from . import project_overrides, repository
from .directory_scan import DirectoryScan, look

MOST = 2_000
"""Names that a pattern may match and still be looked at one by one."""
HARMLESS = frozenset(("/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr"))


class AnalysisContext:
    """A workspace, as a shell command sees it. `environ` is that of the commands (the process's own by default)."""

    def __init__(self, workspace: Workspace, environ: Mapping[str, str] | None = None) -> None:
        environ = os.environ if environ is None else environ
        self._workspace = workspace
        self.root = str(workspace.root)
        self.away = workspace.away
        self.home = environ.get("HOME", "")
        self._path = environ.get("PATH", os.defpath)

    def reach(self, path: str, here: str, *, glob: bool = False) -> str:
        """Why `path` is not one to look at unasked, "" when it is. A pattern is held against the names there are."""
        if path in HARMLESS or path in ("-", ""):
            return ""
        if glob and re.search(r"[*?\[]", here or self.root):
            return f"{path} is a pattern in a folder whose name looks like one"
        found = list(_matches(self._join(path, here), MOST)) if glob else []
        if len(found) > MOST:
            return f"{path} matches too many files"
        for name in found:
            last = os.path.basename(name)
            if last.startswith("-"):
                return f"{path} matches {last!r}, which reads as an option"
            if reason := self._one(name, here):
                return reason
        return self._one(path, here)

    def splits(self, pattern: str, here: str) -> bool:
        """Whether a name that `pattern` matches has blanks in it, so that without quotes it reads as several."""
        names = _matches(self._join(pattern, here), MOST)
        return any(re.search(r"\s", name[len(here or self.root) :]) for name in names)

    def labels(self, path: str, here: str) -> tuple[str, ...]:
        """The names by which rules speak of `path`; none when it lies outside."""
        try:
            return self._workspace.labels(self._join(path, here))
        except FridayError:
            return ()

    def target(self, path: str, here: str) -> tuple[str, ...]:
        """The names of a file that will be written; none when it lies outside."""
        try:
            self._workspace.resolve(self._join(path, here), write=True)
        except FridayError:
            return ()
        return self.labels(path, here)

    def folder(self, path: str, here: str) -> str:
        """Where `cd path` would lead, "" when that is outside."""
        try:
            return str(self._workspace.resolve(self._join(path, here)))
        except FridayError:
            return ""

    def program(self, name: str) -> str:
        """Why the program `name` may be another one than it says, "" when it is the one of the system."""
        if "/" in name:
            folder, _, _ = name.rpartition("/")
            return "" if folder in ("/bin", "/usr/bin", "/usr/local/bin") else f"{name} is a program of its own"
        for folder in _local(self._path, tuple(map(str, self._workspace.roots))):
            if shutil.which(name, path=folder or self.root):
                return f"{name} would be run from {folder or 'the workspace'}"
        return ""

    def has(self, name: str) -> bool:
        """Whether there is a program of that name."""
        return shutil.which(name, path=self._path) is not None

    def git(self, here: str) -> str:
        """Why git would do more than it was asked at `here` (its settings there run programs), "" when it would not."""
        return repository.danger(here, tuple(map(str, self._workspace.roots)))

    def token(self, here: str) -> str:
        """Why an address that git prints at `here` may hold a password, "" when none does."""
        return "the repository's own settings hold a password" if repository.token(here) else ""

    def steered(self, name: str, here: str) -> str:
        """Why the project may have its own program in the place of `name`, "" when nothing says so."""
        return project_overrides.steered(name, here, self.root)

    def tree(self, here: str, under: Sequence[str] = (), *, deep: bool = True, shy: bool = False) -> DirectoryScan:
        """What a command on many files would meet in the workspace without naming it; `shy`: one that passes over what is
        hidden or ignored."""
        roots = tuple(map(str, self._workspace.roots))
        shy = shy and not any(label != "." and project_overrides.unsearched(self.root, f"{label}/x") for label in under)
        found = look(
            self.root,
            here,
            lambda path: any(path == r or path.startswith(r + os.sep) for r in roots),
            under,
            deep=deep,
            shy=shy,
        )
        seen = tuple(label for label in found.secrets if not (shy and project_overrides.unsearched(self.root, label)))
        return msgspec.structs.replace(found, secrets=seen)

    def _one(self, path: str, here: str) -> str:
        try:
            labels = self._workspace.labels(self._join(path, here))
        except FridayError:
            return f"{path} lies outside the workspace"
        if bad := next((label for label in labels if is_secret(label)), ""):
            return f"{bad} may hold secrets"
        if repository.holds_token(self._join(path, here)):
            return f"{path} holds a password"
        return ""

    def _join(self, path: str, here: str) -> str:
        return os.path.join(here or self.root, path)


class NoFiles(AnalysisContext):
    """A ground without files, where nothing speaks against a command: for commands of the past, whose files may have
    changed since. No right may depend on what is judged here."""

    def __init__(self) -> None:
        self.root, self.home, self.away = "/", "", ()

    def reach(self, path: str, here: str, *, glob: bool = False) -> str:
        return ""

    def splits(self, pattern: str, here: str) -> bool:
        return False

    def labels(self, path: str, here: str) -> tuple[str, ...]:
        return ()

    target = labels

    def folder(self, path: str, here: str) -> str:
        return self._join(path, here)

    def program(self, name: str) -> str:
        return ""

    def has(self, name: str) -> bool:
        return False

    def git(self, here: str) -> str:
        return ""

    token = git

    def steered(self, name: str, here: str) -> str:
        return ""

    def tree(self, here: str, under: Sequence[str] = (), *, deep: bool = True, shy: bool = False) -> DirectoryScan:
        return DirectoryScan()


@lru_cache(maxsize=8)
def _local(path: str, roots: tuple[str, ...]) -> tuple[str, ...]:
    """The folders of PATH in which the workspace's own files are looked up."""
    inside = []
    for folder in path.split(os.pathsep):
        real = os.path.realpath(folder) if folder else ""
        if not os.path.isabs(folder) or any(real == root or real.startswith(root + os.sep) for root in roots):
            inside.append(folder)
    return tuple(inside)


def _matches(pattern: str, most: int) -> Iterator[str]:
    """What the shell would replace a pattern by; more than `most` names are not counted out."""
    at = re.search(r"[*?\[]", pattern)
    if at is None:
        if os.path.lexists(pattern):
            yield pattern
        return
    start = pattern.rfind("/", 0, at.start()) + 1
    end = pattern.find("/", at.end())
    part, rest = (pattern[start:end], pattern[end + 1 :]) if end >= 0 else (pattern[start:], "")
    left = most + 1
    try:
        with os.scandir(pattern[:start] or ".") as entries:
            for entry in entries:
                if entry.name.startswith(".") and not part.startswith("."):
                    continue
                if not fnmatch.fnmatchcase(entry.name, part):
                    continue
                name = pattern[:start] + entry.name
                for found in _matches(f"{name}/{rest}", left) if end >= 0 else (name,):
                    yield found
                    left -= 1
                    if left <= 0:
                        return
    except OSError:
        return
