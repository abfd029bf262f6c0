"""The ground a command would run on: which paths it may look at, and what git would be told there."""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from ..core.danger import is_secret
from ..core.errors import FridayError
from ..core.workspace import Workspace

MOST = 2_000
"""Names that a pattern may match and still be looked at one by one."""
HARMLESS = frozenset(("/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/zero"))
_RUNS = re.compile(
    r"core\.(fsmonitor|attributesfile|alternaterefscommand)|diff\.external|include\.path|includeif\..*"
    r"|(diff|merge|filter)\..*\.?(command|textconv|clean|smudge|process|driver)|gpg\.(.*\.)?program"
    r"|trailer\..*\.(command|cmd)"
)


class Ground:
    """A workspace, as a shell command sees it. `environ` is that of the commands (the process's own by default)."""

    def __init__(self, workspace: Workspace, environ: Mapping[str, str] | None = None) -> None:
        environ = os.environ if environ is None else environ
        self._workspace = workspace
        self.root = str(workspace.root)
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

    def git(self, here: str) -> str:
        """Why git would do more than it was asked at `here` (its settings there run programs), "" when it would not."""
        folder = _repository(Path(here))
        if folder is None:
            return ""
        for file in _settings(folder):
            try:
                text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
            except OSError:
                return f"{file} cannot be read"
            if found := _runs(text):
                return f"the repository's own settings name {found}, which can run programs"
        hooks = _value(folder, "core.hookspath")
        if hooks and (Path(here) / hooks / "post-index-change").exists():
            return "a hook of the repository would run"
        return ""

    def _one(self, path: str, here: str) -> str:
        try:
            labels = self._workspace.labels(self._join(path, here))
        except FridayError:
            return f"{path} lies outside the workspace"
        if bad := next((label for label in labels if is_secret(label)), ""):
            return f"{bad} may hold secrets"
        return ""

    def _join(self, path: str, here: str) -> str:
        return os.path.join(here or self.root, path)


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


def _repository(folder: Path) -> Path | None:
    """The repository that git would use in `folder`: a `.git`, what a `.git` file points to, or a bare one."""
    for place in (folder, *folder.parents):
        inner = place / ".git"
        if inner.is_dir():
            return inner
        if inner.is_file():
            try:
                pointed = inner.read_text(encoding="utf-8", errors="replace").partition("gitdir:")[2].strip()
            except OSError:
                return None
            return place / pointed
        if (place / "HEAD").is_file() and (place / "objects").is_dir() and (place / "refs").is_dir():
            return place
    return None


def _settings(folder: Path) -> Iterator[Path]:
    """The settings files of a repository, its shared folder's and its submodules' too."""
    yield folder / "config"
    yield folder / "config.worktree"
    shared = folder / "commondir"
    common = folder
    if shared.is_file():
        common = folder / shared.read_text(encoding="utf-8", errors="replace").strip()
        yield common / "config"
    modules = common / "modules"
    if modules.is_dir():
        yield from sorted(modules.glob("*/config"))[:50]


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """The settings in a git config file, names in lower case."""
    section = ""
    for line in text.splitlines():
        line = line.strip()
        if match := re.match(r"\[([^\]\"]*)(?:\"(.*)\")?\s*\](.*)", line):
            section = ".".join(part.strip() for part in (match[1], match[2] or "") if part.strip()).lower()
            line = match[3].strip()
        name, _, value = line.partition("=")
        if name.strip() and not name.strip().startswith(("#", ";")):
            yield f"{section}.{name.strip().lower()}", value.strip().strip('"')


def _runs(text: str) -> str:
    """The first setting that makes git run a program when it only looks, "" without one."""
    for name, value in _pairs(text):
        if not _RUNS.fullmatch(name) or value.lower() in ("", "true", "false") or value.startswith("git-lfs "):
            continue
        return name
    return ""


def _value(folder: Path, name: str) -> str:
    try:
        return dict(_pairs((folder / "config").read_text(encoding="utf-8", errors="replace"))).get(name, "")
    except OSError:
        return ""
