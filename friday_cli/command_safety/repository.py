"""What a repository's own settings would make git run when it only looks. What cannot be read for sure is said to be so."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from friday_cli.core.permissions.dangerous import masked

_RUNS = re.compile(
    r"core\.(fsmonitor|attributesfile|alternaterefscommand)|diff\.external|include\.path|includeif\..*"
    r"|(diff|merge|filter)\..*\.?(command|textconv|clean|smudge|process|driver)|gpg\.(.*\.)?program"
    r"|trailer\..*\.(command|cmd)"
)
_FETCHES = re.compile(r"remote\..*\.(uploadpack|vcs)|core\.(sshcommand|gitproxy|askpass)|protocol\..*|credential\..*")
"""What runs when a repository that holds only a part of its history gets a missing object."""
_LFS = re.compile(r"git-lfs (?:clean|smudge|filter-process)(?: --skip)?(?: -- %f)?")
_HEADER = re.compile(r'\[\s*([\w.-]+)\s*(?:"((?:\\.|[^"\\])*)")?\s*\](.*)')
_ODD = re.compile(r"\\\n|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)")
_LINK_MODE = b"\x00\x00\xe0\x00"
_CONFIG = 2**20
_LARGEST = 64 * 2**20
_DEEPEST = 3
"""Repositories inside repositories that are looked into."""


def danger(here: str, roots: tuple[str, ...]) -> str:
    """Why git would do more than it was asked at `here`, "" when it would not. `roots` are the workspace's folders."""
    try:
        found = _repository(Path(here))
        return _check(*found, roots, 0) if found else ""
    except (OSError, ValueError, IndexError) as error:
        return f"the repository's own settings cannot be read for sure ({error})"


def token(here: str) -> str:
    """The settings file that holds a password in the repository git would use at `here`, "" when there is none."""
    try:
        found = _repository(Path(here))
        common = _common(found[0]) if found else Path()
        files = (found[0] / "config", found[0] / "config.worktree", common / "config") if found else ()
    except (OSError, ValueError):
        return ""  # git would not read it either
    return next((str(file) for file in files if holds_token(str(file))), "")


def holds_token(path: str) -> bool:
    """Whether `path` is a file of settings that seems to hold a password of git's."""
    if not path.endswith(("config", "config.worktree")):
        return False
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            text = file.read(_CONFIG).decode(errors="replace")
            return masked(".git/config", text) != text
    except OSError:
        return False


def _check(git: Path, tree: Path | None, roots: tuple[str, ...], depth: int) -> str:
    if depth > _DEEPEST:
        return "repositories lie in repositories too deeply"
    common = _common(git)
    pairs: list[tuple[str, str]] = []
    for file in dict.fromkeys((git / "config", git / "config.worktree", common / "config")):
        pairs += _pairs(file.read_bytes() if file.is_file() else b"")
    for file in sorted((common / "modules").glob("*/config"))[:50]:
        pairs += [pair for pair in _pairs(file.read_bytes()) if _runs([pair])]
    if name := _runs(pairs):
        return f"the repository's own settings name {name}, which can run programs"
    hooks = [common / "hooks", *((tree or git) / value for name, value in pairs if name == "core.hookspath")]
    if any((place / "post-index-change").exists() for place in hooks):
        return "a hook of the repository would run"
    trees = [value for name, value in pairs if name == "core.worktree"]
    if any(not _inside(os.path.realpath(git / value), tree, roots) for value in trees):
        return "the repository's own settings lead it to another folder"
    if tree is None:
        return ""
    for path in _links(git):
        inner = _git_of(tree / path)
        if inner is not None and (reason := _check(inner, tree / path, roots, depth + 1)):
            return f"{reason} (in {path})"
    return ""


def _inside(folder: str, tree: Path | None, roots: tuple[str, ...]) -> bool:
    return (tree is not None and folder == os.path.realpath(tree)) or any(
        folder == root or folder.startswith(root + os.sep) for root in roots
    )


def _repository(folder: Path) -> tuple[Path, Path | None] | None:
    """The repository that git would use in `folder`, with the folder it is about: none for a bare one."""
    for place in (folder, *folder.parents):
        if (inner := _git_of(place)) is not None:
            return inner, place
        if (place / "HEAD").is_file() and (place / "objects").is_dir() and (place / "refs").is_dir():
            return place, None
    return None


def _git_of(place: Path) -> Path | None:
    """`place/.git`, or what a file of that name points to."""
    inner = place / ".git"
    if inner.is_dir():
        return inner
    if inner.is_file():
        return place / inner.read_text(encoding="utf-8", errors="replace").partition("gitdir:")[2].strip()
    return None


def _common(git: Path) -> Path:
    """The folder that a worktree shares with the others."""
    shared = git / "commondir"
    return git / shared.read_text(encoding="utf-8", errors="replace").strip() if shared.is_file() else git


def _pairs(data: bytes) -> Iterator[tuple[str, str]]:
    """The settings in a git config file, names in lower case. Raises ValueError where git may read it otherwise."""
    text = data.decode("utf-8-sig", errors="replace")
    if _ODD.search(text):
        raise ValueError("a line of it goes on in the next, or it holds control characters")
    section = ""
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip(" \t\r")
        if line.startswith("["):
            match = _HEADER.fullmatch(line)
            if match is None:
                raise ValueError(f"line {number} is not understood")
            section = ".".join(part for part in (match[1], match[2] or "") if part).lower()
            line = match[3].strip(" \t")
        name, _, value = line.partition("=")
        if name.strip() and not name.strip().startswith(("#", ";")):
            yield f"{section}.{name.strip().lower()}", value.strip().strip('"')


def _runs(pairs: list[tuple[str, str]]) -> str:
    """The first setting that makes git run a program when it only looks, "" without one."""
    for name, value in pairs:
        if _RUNS.fullmatch(name) and value.lower() not in ("", "true", "false") and not _LFS.fullmatch(value):
            return name
    names = dict(pairs)
    if any(re.fullmatch(r"extensions\.partialclone|remote\..*\.promisor", name) for name in names):
        for name, value in pairs:
            odd = re.fullmatch(r"remote\..*\.url|url\..*", name) and not re.match(
                r"(?:https?|ssh)://|[\w.-]+@[\w.-]+:", value
            )
            if odd or _FETCHES.fullmatch(name):
                return name
    return ""


def _links(git: Path) -> Iterator[str]:
    """The folders that the index says are repositories of their own: git looks into them, too. Raises ValueError."""
    for file in (git / "index", *sorted(git.glob("sharedindex.*"))):
        if not file.is_file():
            continue
        if file.stat().st_size > _LARGEST:
            raise ValueError("its index is too large")
        data = file.read_bytes()
        if _LINK_MODE not in data:
            continue
        if data[:4] != b"DIRC" or (version := int.from_bytes(data[4:8])) not in (2, 3):
            raise ValueError("its index has a form that is not known")
        at = 12
        for _ in range(int.from_bytes(data[8:12])):
            more = 2 if version == 3 and data[at + 60] & 0x40 else 0
            end = data.index(b"\0", at + 62 + more)
            if data[at + 24 : at + 28] == _LINK_MODE:
                yield os.fsdecode(data[at + 62 + more : end])
            at += (end - at + 8) // 8 * 8
