"""Finds git config of a repository that makes read-only git commands run programs.

Config that cannot be parsed with certainty counts as unsafe.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path

from friday_cli.core.permissions.dangerous import is_secret, masked
from friday_cli.core.text.lazy_regex import pattern
from friday_cli.system.project_search import folders_up

_PROGRAM_SETTINGS = pattern(
    r"core\.(fsmonitor|attributesfile|alternaterefscommand)|diff\.external|include\.path|includeif\..*"
    r"|(diff|merge|filter)\..*\.?(command|textconv|clean|smudge|process|driver)|gpg\.(.*\.)?program"
    r"|trailer\..*\.(command|cmd)"
)
_FETCH_SETTINGS = pattern(
    r"remote\..*\.(uploadpack|vcs)|core\.(sshcommand|gitproxy|askpass)|protocol\..*|credential\..*"
)
"""Settings that run when a partial clone fetches a missing object."""
_LFS = pattern(r"git-lfs (?:clean|smudge|filter-process)(?: --skip)?(?: -- %f)?")
_HEADER = pattern(r'\[\s*([\w.-]+)\s*(?:"((?:\\.|[^"\\])*)")?\s*\](.*)')
_SETTING = pattern(r'([A-Za-z][A-Za-z0-9-]*+)\s*+(?:=((?:"(?:\\.|[^"\\])*+"|\\.|[^"\\#;])*+))?\s*+(?:[#;].*)?')
_AMBIGUOUS = pattern(r"\\\n|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)")
_SUBMODULE_MODE = b"\x00\x00\xe0\x00"
_FORBIDDEN_PARTS = frozenset((b".", b"..", b".git"))
_MAX_CONFIG_BYTES = 2**20
_MAX_LINE = 2_000
"""Characters of a line of a git config file."""
_MAX_INDEX_BYTES = 64 * 2**20
_SHOWN_FOLDERS = (
    "",
    "info",
    "objects/info",
    "branches",
    "remotes",
    "rebase-merge",
    "rebase-apply",
    "sequencer",
    "worktrees",
)
"""Folders of a git folder with files whose text git may show."""
_MAX_FILES = 1_000
"""Files of one of these folders that are checked."""
_MAX_NESTING = 3
"""Levels of nested repositories that are checked."""


def git_reason(directory: str, roots: tuple[str, ...]) -> str:
    """Why a read-only git command in `directory` may run other programs, or "". `roots`: the folders of the workspace."""
    try:
        found = (_check(*repository, roots, 0) for repository in _repositories(Path(directory)))
        return next(filter(None, found), "")
    except (OSError, ValueError, IndexError) as error:
        return f"the git config of this repository cannot be checked ({error})"


def password_file(directory: str, home: str = "") -> str:
    """The git config file that contains a password, for the repository of `directory` or of the user, or ""."""
    users = [Path(home) / name for name in (".gitconfig", ".config/git/config") if home]
    try:
        files = users + [
            folder / name
            for git, _ in _repositories(Path(directory))
            for folder, name in ((git, "config"), (git, "config.worktree"), (_common_dir(git), "config"))
        ]
    except (OSError, ValueError):
        return ""  # git would not read it either
    return next((str(file) for file in files if holds_password(str(file))), "")


def index_reason(directory: str) -> str:
    """Why a name in the index is not one file name for `xargs`, or "": no file has it, so a scan does not find it."""
    try:
        for git, tree in _repositories(Path(directory)):
            file = git / "index"
            if file.is_file() and file.stat().st_size > _MAX_INDEX_BYTES:
                raise ValueError("it is too large")
            for _, name in _index_entries(file.read_bytes(), 20) if file.is_file() else ():
                odd = name.startswith(b"-") or re.search(rb"[\s'\"\\]", name)
                if odd and not (tree and os.path.lexists(tree / os.fsdecode(name))):
                    return f"{os.fsdecode(name)!r} would be split into several names"
    except (OSError, ValueError, IndexError) as error:
        return f"the index of this repository cannot be checked ({error})"
    return ""


def holds_password(path: str) -> bool:
    """Whether `path` is a git config file that seems to contain a password."""
    if not path.endswith(("config", "config.worktree")):
        return False
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            text = file.read(_MAX_CONFIG_BYTES).decode(errors="replace")
            return masked(".git/config", text) != text
    except OSError:
        return False


def _check(git: Path, tree: Path | None, roots: tuple[str, ...], depth: int) -> str:
    if depth > _MAX_NESTING:
        return "repositories are nested too deeply"
    common = _common_dir(git)
    if name := _link_elsewhere(git, common, roots):
        return f"the git folder of this repository has a link to another place ({name})"
    pairs: list[tuple[str, str]] = []
    for file in dict.fromkeys((git / "config", git / "config.worktree", common / "config")):
        pairs += _pairs(_bounded(file) if file.is_file() else b"")
    for file in sorted((common / "modules").glob("*/config"))[:50]:
        pairs += [pair for pair in _pairs(_bounded(file)) if _program_setting([pair])]
    if name := _program_setting(pairs):
        return f"the git config of this repository sets {name}, which can run programs"
    hooks = [common / "hooks", *((tree or git) / value for name, value in pairs if name == "core.hookspath")]
    if any((folder / "post-index-change").exists() for folder in hooks):
        return "a git hook of this repository would run"
    trees = [value for name, value in pairs if name == "core.worktree"]
    if any(not _inside(os.path.realpath(git / value), tree, roots) for value in trees):
        return "the git config of this repository names another working tree"
    named = [value for name, value in pairs if name == "blame.ignorerevsfile" and value]
    listed = ["/" if value[0] in "~%:" else os.path.realpath((tree or git) / value) for value in named]
    if any(not _inside_tree(file, tree, roots) or is_secret(file) for file in listed):
        return "the git config of this repository names a file that git would show in an error"
    if tree is None:
        return ""
    sha256 = ("extensions.objectformat", "sha256") in pairs
    for path in _submodules(git, 32 if sha256 else 20):
        inner = _git_of(tree / path)
        if inner is not None and (reason := _check(inner, tree / path, roots, depth + 1)):
            return f"{reason} (in {path})"
    return ""


def _link_elsewhere(git: Path, common: Path, roots: tuple[str, ...]) -> str:
    """The first link in a git folder to a secret or to a file outside: git shows lines of most of its files, in errors at
    least. "" without one."""
    tops = tuple(os.path.realpath(folder) for folder in (git, common))
    for folder in dict.fromkeys((git, common)):
        worktrees = list(islice(folder.glob("worktrees/*"), _MAX_FILES))
        for part in (*(folder / name for name in _SHOWN_FOLDERS), *worktrees):
            entries = list(islice(part.iterdir(), _MAX_FILES)) if part.is_dir() else []
            if len(entries) == _MAX_FILES or len(worktrees) == _MAX_FILES:
                raise ValueError("its git folder has too many files")
            for entry in entries:
                real = os.path.realpath(entry) if entry.is_symlink() else ""
                if real and (is_secret(real) or not _inside_tree(real, None, (*roots, *tops))):
                    return entry.name
    return ""


def _inside_tree(file: str, tree: Path | None, roots: tuple[str, ...]) -> bool:
    """Whether a file is in the workspace or in the working tree."""
    return any(file.startswith(f"{root}/") for root in (*roots, *((os.path.realpath(tree),) if tree else ())))


def _inside(folder: str, tree: Path | None, roots: tuple[str, ...]) -> bool:
    within = any(folder == root or folder.startswith(root + os.sep) for root in roots)
    return within or (tree is not None and folder == os.path.realpath(tree))


def exists(directory: str) -> bool:
    """Whether git finds a repository in `directory`."""
    try:
        searched = set(folders_up(Path(directory)))
        return any(_is_certain(git) and (tree or git) in searched for git, tree in _repositories(Path(directory)))
    except (OSError, ValueError):
        return False


def _repositories(folder: Path) -> Iterator[tuple[Path, Path | None]]:
    """The git directories that git may use in `folder`, each with its working tree (None for a bare repository). The
    last one is the first that git certainly accepts: it skips what is not a repository."""
    for parent in (folder, *folder.parents):
        if (inner := _git_of(parent)) is not None:
            yield inner, parent
            if _is_certain(inner):
                return
        if os.path.lexists(parent / "HEAD") and any(
            os.path.lexists(parent / name) for name in ("objects", "commondir")
        ):
            yield parent, None
            if _is_certain(parent):
                return


def _is_certain(git: Path) -> bool:
    """Whether git accepts a folder as a git directory."""
    head, common = git / "HEAD", _common_dir(git)
    if head.is_symlink() or not head.is_file() or not re.match(rb"ref: refs/|[0-9a-f]{40}", _bounded(head)):
        return False
    return (common / "objects").is_dir() and (common / "refs").is_dir()


def _git_of(folder: Path) -> Path | None:
    """`folder/.git`, or the folder that a file of that name points to; None without either."""
    inner = folder / ".git"
    if inner.is_dir():
        return inner
    return folder / _one_path(inner, b"gitdir: ") if inner.is_file() else None


def _common_dir(git: Path) -> Path:
    """The git directory shared by all worktrees of the repository."""
    shared = git / "commondir"
    return git / _one_path(shared) if shared.is_file() else git


def _one_path(file: Path, start: bytes = b"") -> str:
    """The path in a file of git. Raises ValueError if git may read another one."""
    found = re.fullmatch(re.escape(start) + rb"([^\s\0](?:[^\r\n\0]*[^\s\0])?)[\r\n]*", _bounded(file))
    if found is None:
        raise ValueError(f"{file.name} does not name a folder")
    return os.fsdecode(found[1])


def _bounded(file: Path) -> bytes:
    """The contents of a file of git. Raises ValueError if it is too large to be checked."""
    with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
        data = opened.read(_MAX_CONFIG_BYTES + 1)
    if len(data) > _MAX_CONFIG_BYTES:
        raise ValueError(f"{file.name} is too large")
    return data


def _pairs(data: bytes) -> Iterator[tuple[str, str]]:
    """The settings in a git config file, names in lower case. Raises ValueError if git may read it differently."""
    text = data.decode("utf-8-sig", errors="replace")
    if _AMBIGUOUS().search(text):
        raise ValueError("it has a continued line or control characters")
    section = ""
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip(" \t\r")
        if len(line) > _MAX_LINE:
            raise ValueError(f"line {number} is too long")
        while line.startswith("["):  # git reads several headers in a line
            match = _HEADER().fullmatch(line)
            if match is None:
                raise ValueError(f"line {number} cannot be parsed")
            section = ".".join(part for part in (match[1], match[2] or "") if part).lower()
            line = match[3].strip(" \t")
        if not line or line.startswith(("#", ";")):
            continue
        found = _SETTING().fullmatch(line)
        if found is None:
            raise ValueError(f"line {number} cannot be parsed")
        yield f"{section}.{found[1].lower()}", _value(found[2] or "")


def _value(text: str) -> str:
    """The value of a setting: without its comment, quotes and escapes."""
    found = re.sub(r'("(?:\\.|[^"\\])*")|[#;].*', lambda part: part[1] or "", text).strip(" \t")
    if re.sub(r"\\.", "", found).count('"') % 2:
        raise ValueError("a quotation mark is not closed")
    return re.sub(r'"|\\(.)', lambda part: part[1] or "", found)


def _program_setting(pairs: list[tuple[str, str]]) -> str:
    """The first setting that makes a read-only git command run a program, or ""."""
    for name, value in pairs:
        runs = value.lower() not in ("", "true", "false") and not _LFS().fullmatch(value)
        if (runs and _PROGRAM_SETTINGS().fullmatch(name)) or (name == "diff.submodule" and value == "diff"):
            return name
    names = dict(pairs)
    if any(re.fullmatch(r"extensions\.partialclone|remote\..*\.promisor", name) for name in names):
        for name, value in pairs:
            usual = re.match(r"(?:https?|ssh)://|[\w.-]+@[\w.-]+:", value)
            unusual = not usual and re.fullmatch(r"remote\..*\.url|url\..*", name)
            if unusual or _FETCH_SETTINGS().fullmatch(name):
                return name
    return ""


def _submodules(git: Path, hash_bytes: int) -> Iterator[str]:
    """The submodule folders in the index: git reads their config too. Raises ValueError for an unknown format, and for
    names with which git would read files outside its working tree."""
    for file in (git / "index", *sorted(git.glob("sharedindex.*"))):
        if file.is_file():
            status = file.stat()
            if status.st_size > _MAX_INDEX_BYTES:
                raise ValueError("its index is too large")
            yield from _index_submodules(str(file), status.st_mtime_ns, status.st_size, hash_bytes)


@lru_cache(maxsize=4)
def _index_submodules(file: str, changed: int, size: int, hash_bytes: int) -> tuple[str, ...]:
    found = []
    for mode, name in _index_entries(Path(file).read_bytes(), hash_bytes):
        if name.startswith(b"/") or (b"." in name and not _FORBIDDEN_PARTS.isdisjoint(name.lower().split(b"/"))):
            raise ValueError("its index names a file outside the working tree")
        if mode == _SUBMODULE_MODE:
            found.append(os.fsdecode(name))
    return tuple(found)


def _index_entries(data: bytes, hash_bytes: int) -> Iterator[tuple[bytes, bytes]]:
    """The mode and name of each entry of an index. Raises ValueError for an unknown format."""
    version = int.from_bytes(data[4:8])
    if data[:4] != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("its index has an unknown format")
    at, name, split = 12, b"", b"link" in data
    for _ in range(int.from_bytes(data[8:12])):
        flags = at + 40 + hash_bytes
        start = flags + (4 if version >= 3 and data[flags] & 0x40 else 2)
        if version == 4:  # the name begins with a part of the last one
            removed = data[start] & 0x7F
            while data[start] & 0x80:
                start += 1
                removed = ((removed + 1) << 7) + (data[start] & 0x7F)
            start += 1
            end = data.index(b"\0", start)
            name = name[: max(0, len(name) - removed)] + data[start:end]
        else:
            end = data.index(b"\0", start)
            name = data[start:end]
        if not name and not split:
            raise ValueError("its index has an entry without a name")
        yield data[at + 24 : at + 28], name
        at = end + 1 if version == 4 else at + (end - at + 8) // 8 * 8
