"""The workspace and environment a command would run in: which paths it may read, which programs and git settings it meets."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import msgspec

from friday_cli.core.permissions.dangerous import is_secret
from friday_cli.core.protocol.errors import FridayError
from friday_cli.core.protocol.workspace import Workspace

from . import project_overrides, repository
from .directory_scan import DirectoryScan, FolderSearch, scan_directory
from .name_patterns import MAX_MATCHES, NameMatcher
from .options import ProgramWord
from .syntax import TooLong

MAX_PATHS = 5_000
"""Paths that are looked up for one command."""
MAX_SCANS = 4
"""Different scans of folders for one command."""
HARMLESS = frozenset(("/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr"))

_OWN_FOLDER = re.compile(r"/+proc/+(?:[\w-]+/+){1,3}(cwd|root)(?=/|\Z)")
"""Links in `/proc` to the folders of a process."""


class AnalysisContext:
    """A workspace as shell commands see it. `environ`: the environment of the commands (default: that of this process)."""

    def __init__(self, workspace: Workspace, environ: Mapping[str, str] | None = None) -> None:
        environ = os.environ if environ is None else environ
        self._workspace = workspace
        self.root = str(workspace.root)
        self.away = workspace.away
        self.home = environ.get("HOME", "")
        self._path = environ.get("PATH", os.defpath)
        self.start()

    def start(self) -> None:
        """Start the analysis of one command: forget what was read for the last one."""
        self._git_reasons: dict[str, str] = {}
        self._scans: dict[tuple[object, ...], DirectoryScan] = {}
        self._matcher = NameMatcher()
        self._labels: dict[str, tuple[str, ...]] = {}

    def path_reason(self, path: str, directory: str, *, glob: bool = False) -> str:
        """Why reading `path` needs approval, or "". With `glob` every existing name that matches is checked."""
        if path in HARMLESS or path in ("-", ""):
            return ""
        if glob and re.search(r"[*?\[]", directory or self.root):
            return f"{path} is a pattern in a folder whose name contains pattern characters"
        matches = self._matcher.matching(self._join(path, directory)) if glob else []
        if self._matcher.exhausted or len(matches) > MAX_MATCHES:
            return f"{path} matches too many files"
        for name in matches:
            last = os.path.basename(name)
            if last.startswith("-"):
                return f"{path} matches {last!r}, which the program would read as an option"
            if reason := self._single_path_reason(name, directory):
                return reason
        return self._single_path_reason(path, directory)

    def match_has_blanks(self, pattern: str, directory: str) -> bool:
        """Whether a matching name contains blanks: unquoted, it would become several words."""
        names = self._matcher.matching(self._join(pattern, directory))
        return any(re.search(r"\s", name[len(directory or self.root) :]) for name in names)

    def labels(self, path: str, directory: str) -> tuple[str, ...]:
        """The labels of `path` in permission rules; empty if it is outside the workspace. Raises TooLong after
        `MAX_PATHS` paths."""
        path = self._join(path, directory)
        if path not in self._labels:
            if len(self._labels) >= MAX_PATHS:
                raise TooLong(f"more than {MAX_PATHS:,} paths")
            try:
                self._labels[path] = self._workspace.labels(path)
            except FridayError:
                own = _through_own_folder(path) if _is_inside(path, (self.root,)) else ""
                self._labels[path] = self.labels(own, self.root) if own else ()
        return self._labels[path]

    def matching_labels(self, pattern: str, directory: str) -> tuple[str, ...]:
        """The labels of the files that the shell puts in place of a pattern."""
        names = self._matcher.matching(self._join(pattern, directory))
        return tuple(label for name in names for label in self.labels(name, directory))

    def named_labels(self, path: str, directory: str) -> tuple[str, ...]:
        """The labels of `path`, also outside of the workspace, where they are absolute. That of a folder ends with `/`."""
        full = os.path.normpath(self._join(path, directory))
        labels = self.labels(path, directory) or (full,)
        return tuple(f"{label}/" if os.path.isdir(os.path.join(self.root, label)) else label for label in labels)

    def searched_labels(self, paths: Sequence[ProgramWord], directory: str) -> Sequence[str]:
        """The labels of the paths that a program searches: `directory` without any."""
        return [label for path in paths for label in self.labels(path.text, directory)] or self.labels(".", directory)

    def write_labels(self, path: str, directory: str) -> tuple[str, ...]:
        """The labels of a file to write; empty if it is outside the workspace."""
        try:
            self._workspace.resolve(self._join(path, directory), write=True)
        except FridayError:
            return ()
        return self.labels(path, directory)

    def cd_target(self, path: str, directory: str) -> str:
        """The folder that `cd path` enters, or "" if it is outside the workspace or reached through a link: then `..`
        means another folder for `cd` than for a program."""
        real = self.real_folder(path, directory)
        return real if real == os.path.normpath(self._join(path, directory)) else ""

    def real_folder(self, path: str, directory: str) -> str:
        """The folder behind `path`, or "" if it is outside the workspace."""
        try:
            return str(self._workspace.resolve(self._join(path, directory)))
        except FridayError:
            return ""

    def program_reason(self, name: str) -> str:
        """Why `name` may not be the program of the system, or ""."""
        if "/" in name:
            return (
                ""
                if name.rpartition("/")[0] in ("/bin", "/usr/bin", "/usr/local/bin")
                else f"{name} is not a program of the system"
            )
        for folder in _workspace_path_entries(self._path, tuple(map(str, self._workspace.roots))):
            if shutil.which(name, path=folder or self.root):
                return f"{name} would be run from {folder or 'the workspace'}"
        return ""

    def has_program(self, name: str) -> bool:
        """Whether a program of that name is in PATH."""
        return shutil.which(name, path=self._path) is not None

    def git_reason(self, directory: str) -> str:
        """Why a read-only git command in `directory` would run other programs (because of its config), or ""."""
        if directory not in self._git_reasons:
            self._git_reasons[directory] = repository.git_reason(directory, tuple(map(str, self._workspace.roots)))
        return self._git_reasons[directory]

    def are_files_outside_git(self, paths: Sequence[str], directory: str) -> bool:
        """Whether all `paths` exist and git finds no repository for `directory`."""
        return all(os.path.lexists(self._join(path, directory)) for path in paths) and not repository.exists(directory)

    def password_reason(self, directory: str, *, rewritten: bool) -> str:
        """Why a URL that git prints in `directory` may contain a password, or "". `rewritten`: the user's settings apply."""
        return (
            "a git config contains a password"
            if repository.password_file(directory, self.home if rewritten else "")
            else ""
        )

    def index_reason(self, directory: str) -> str:
        """Why `xargs` may read other names than `git ls-files` prints in `directory`, or ""."""
        return repository.index_reason(directory)

    def override_reason(self, name: str, directory: str) -> str:
        """Why the project may replace the program `name` by its own, or ""."""
        return project_overrides.override_reason(name, directory, self.root)

    def scan(self, directory: str, search: FolderSearch) -> DirectoryScan:
        """Scan the files a recursive command would reach."""
        key = (directory, search)
        if key not in self._scans:
            if len(self._scans) >= MAX_SCANS:
                return DirectoryScan(complete=False)
            self._scans[key] = self._scan(directory, search)
        return self._scans[key]

    def _scan(self, directory: str, search: FolderSearch) -> DirectoryScan:
        roots = tuple(map(str, self._workspace.roots))
        inside = partial(_is_inside, roots=roots)
        ignored = partial(project_overrides.is_ignored_by_rg, self.root)
        if search.skip_ignored and any(label != "." and ignored(f"{label}/x") for label in search.under):
            search = search._replace(skip_ignored=False)
        found = scan_directory(self.root, directory, inside, search)
        secrets = tuple(label for label in found.secrets if not (search.skip_ignored and ignored(label)))
        return msgspec.structs.replace(found, secrets=secrets)

    def _single_path_reason(self, path: str, directory: str) -> str:
        if not (labels := self.labels(path, directory)):
            return f"{path} is outside the workspace"
        if bad := next((label for label in labels if is_secret(label)), ""):
            return f"{bad} may hold secrets"
        if repository.holds_password(self._join(path, directory)):
            return f"{path} contains a password"
        return ""

    def _join(self, path: str, directory: str) -> str:
        """`path` as an absolute one. The links of a process to its folders are those of the command, not of this process."""
        full = os.path.join(directory or self.root, path)
        if full.startswith(("/proc", "/dev", "//")):
            plain = os.path.normpath(re.sub(r"^/+(?:dev/+fd|dev/+\.\./+proc/+self/+fd)(?=/)", "/proc/self/fd", full))
            if found := _OWN_FOLDER.match(plain := "/" + plain.lstrip("/")):
                full = (directory or self.root if found[1] == "cwd" else "/") + plain[found.end() :]
        return full


def _nothing(*args: Any, **options: Any) -> Any:
    return ""


def _no_labels(*args: Any, **options: Any) -> Any:
    return ()


class NoFiles(AnalysisContext):
    """A context that reads no files and objects to nothing: for past commands, whose files may have changed since.
    Never grant a permission because of its results."""

    def __init__(self) -> None:
        self.root, self.home, self.away = "/", "", ()

    def cd_target(self, path: str, directory: str) -> str:
        return self._join(path, directory)

    def scan(self, *args: Any, **options: Any) -> DirectoryScan:
        return DirectoryScan()

    path_reason = program_reason = git_reason = password_reason = override_reason = index_reason = _nothing
    match_has_blanks = has_program = are_files_outside_git = _nothing
    labels = write_labels = matching_labels = _no_labels


def _through_own_folder(path: str) -> str:
    """Where a path leads that has a link to a folder in `/proc`, such as `/proc/self/cwd`; "" if it has none."""
    at = ""
    for part in path.split("/")[1:]:
        at = f"{at}/{part}"
        if os.path.islink(at) and (target := os.readlink(at)).startswith("/proc/"):
            return target + path[len(at) :]
    return ""


def _is_inside(path: str, roots: Sequence[str]) -> bool:
    return any(path == root or path.startswith(root + os.sep) for root in roots)


@lru_cache(maxsize=8)
def _workspace_path_entries(path: str, roots: tuple[str, ...]) -> tuple[str, ...]:
    """The entries of PATH that are relative or inside the workspace `roots`."""
    entries = []
    for folder in path.split(os.pathsep):
        real = os.path.realpath(folder) if folder else ""
        if not os.path.isabs(folder) or _is_inside(real, roots):
            entries.append(folder)
    return tuple(entries)
