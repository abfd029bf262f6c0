"""Where skills are, and which files they have.

A place is a folder of skills: each of its subfolders with a file SKILL.md is one. Contents are read again only when the times,
size or number of a file or folder have changed (`SkillCache`), because a place may have thousands of skills.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from friday_cli.system import cache_file
from friday_cli.system.named_files import why_left_out
from friday_cli.system.paths import config_dir, text_of

from .skill import FILE as FILE
from .skill import IGNORED, MAX_DEPTH, ParsedSkill
from .skill import Stamp as Stamp

MAX_SKILLS = 2_000
"""Skills of one place."""
MAX_FILES, MAX_BYTES = 512, 16 * 2**20
"""Files of a project's skill, and their bytes together."""
MAX_TOTAL = 64 * 2**20
"""Bytes of all files of a project's skills."""
SETTLED_NS = 2_000_000_000
"""A file that changed within this time (nanoseconds) may change again without another time stamp, so it is not kept."""
IN_PROJECT = (".friday/skills", ".agents/skills", ".claude/skills")
IN_HOME = (".agents/skills", ".claude/skills")
UNTRUSTED = ""
"""Instead of a sha256: the skill cannot be trusted."""
SCRIPTS = (".py", ".sh", ".bash", ".js", ".mjs", ".ts", ".rb", ".pl", ".ps1", ".bat", ".cmd", ".exe", ".so", ".jar")
"""How the names of files end that look like programs."""

_REGULAR = 0o100000
"""The bit of `st_mode` that is set for files and not for folders."""

T = TypeVar("T")


class ScannedSkill(msgspec.Struct, frozen=True, array_like=True):
    """The files of one skill: their sha256 by relative path, and the stamps of them and of its folders."""

    stamps: dict[str, Stamp]
    hashes: dict[str, str]


class _SkillCacheFile(msgspec.Struct, frozen=True, array_like=True):
    made_by: str
    scanned: bytes
    parsed: bytes


class _CachePart(Generic[T]):
    """One table of the cache, decoded at its first use."""

    def __init__(self, raw: bytes, kind: type[T]) -> None:
        self._raw = raw
        self._kind = kind
        self._known: dict[str, T] | None = None
        self._used: dict[str, T] = {}
        self.changed = False

    def get(self, key: str) -> T | None:
        if self._known is None:
            self._known = {}
            with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                self._known = msgspec.msgpack.decode(self._raw, type=dict[str, self._kind])  # type: ignore[name-defined]
        if (found := self._known.get(key)) is not None:
            self._used[key] = found
        return found

    def put(self, key: str, value: T) -> None:
        self._used[key], self.changed = value, True

    def forget(self, key: str) -> None:
        self._used.pop(key, None)

    def encoded(self) -> bytes:
        """The entries that were read or added, as MessagePack; all of them if the table was never looked at."""
        return self._raw if self._known is None else msgspec.msgpack.encode(self._used)


class SkillCache:
    """What was read of the skills below `folder`, kept in the cache folder of `env`. `save` writes what was used or added; a
    cache that cannot be written is not an error."""

    def __init__(self, folder: Path, env: Mapping[str, str] | None) -> None:
        self._path = cache_file.of_folder("skills", folder, env)
        file = self._read()
        self._scanned = _CachePart(file.scanned, ScannedSkill)
        self._parsed = _CachePart(file.parsed, ParsedSkill)
        self.parsed = self._parsed.get
        self.scanned = self._scanned.get

    def put_scanned(self, key: str, found: ScannedSkill) -> None:
        """Keep the files of a skill, unless they changed just now."""
        if all(map(_settled, found.stamps.values())):
            self._scanned.put(key, found)
        else:
            self._scanned.forget(key)

    def put_parsed(self, key: str, found: ParsedSkill) -> None:
        """Keep what a SKILL.md holds, unless it changed just now."""
        if _settled(found.stamp):
            self._parsed.put(key, found)
        else:
            self._parsed.forget(key)

    def save(self) -> None:
        """Write it, if it has changed."""
        if self._path is not None and (self._scanned.changed or self._parsed.changed):
            file = _SkillCacheFile(_made_by(), self._scanned.encoded(), self._parsed.encoded())
            cache_file.write_of_folder(self._path, msgspec.msgpack.encode(file))

    def _read(self) -> _SkillCacheFile:
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            content = cache_file.read(self._path) if self._path else None
            if content is not None:
                found = msgspec.msgpack.decode(content, type=_SkillCacheFile)
                if found.made_by == _made_by():
                    return found
        empty = msgspec.msgpack.encode({})
        return _SkillCacheFile("", empty, empty)


def _settled(stamp: Stamp) -> bool:
    return max(stamp[:2]) < time.time_ns() - SETTLED_NS


def _made_by() -> str:
    here = Path(__file__).parent
    return cache_file.code_stamp(here, here.parent / "frontmatter.py", here.parents[1] / "core/tool_catalog.py")


def home_folder(env: Mapping[str, str] | None = None) -> Path | None:
    """The person's home; None if it is not known."""
    home = (os.environ if env is None else env).get("HOME", "")
    return Path(home) if home.startswith("/") else None


def first_place(env: Mapping[str, str] | None = None) -> Path:
    """The folder of skills that wins over all others: that of the configuration."""
    return config_dir(env) / "skills"


def home_places(env: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """The person's folders of skills that all programs share."""
    home = home_folder(env)
    return () if home is None else tuple(home / name for name in IN_HOME)


def project_places(folder: Path, root: Path, env: Mapping[str, str] | None = None) -> Iterator[Path]:
    """The folders of skills from `folder` up to the project's `root` (both resolved), the nearest first."""
    mine = {first_place(env), *home_places(env)}
    chain = [one for one in (folder, *folder.parents) if one.is_relative_to(root)] or [folder]
    for one in chain:
        yield from (place for name in IN_PROJECT if (place := one / name) not in mine)


def folders_in(place: Path) -> list[str]:
    """The names of the subfolders of a place, sorted; one more than `MAX_SKILLS` at most."""
    try:
        with os.scandir(place) as listed:
            names = sorted(one.name for one in listed if one.name[0] != "." and (one.is_symlink() or one.is_dir()))
    except OSError:
        return []
    return names[: MAX_SKILLS + 1]


def stamp_of(path: str) -> Stamp:
    """The times, size and inode of a file or folder; they change when it does. Raises OSError."""
    facts = os.stat(path)
    size = facts.st_size if facts.st_mode & _REGULAR else -1
    return facts.st_mtime_ns, facts.st_ctime_ns, size, facts.st_ino


def project_files(folder: Path, root: Path, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """The files of the skills of a project for `folder`, by path relative to `root` (both resolved), with their sha256. A skill
    that is too large or leads out of the project has only its SKILL.md, with `UNTRUSTED`."""
    found: dict[str, str] = {}
    cache: SkillCache | None = None
    left = MAX_TOTAL
    for place in project_places(folder, root, env):
        if not (names := folders_in(place)[:MAX_SKILLS]):
            continue
        above, prefix = str(place), text_of(os.path.relpath(place, root))
        cache = cache or SkillCache(root, env)
        with _opened(place) as opened:
            for name in names:
                top = f"{above}/{name}"
                known = cache.scanned(top)
                if known is None or not _unchanged(name, known, opened):
                    known = _scan(top, root, left)
                    if known is None:
                        continue
                    cache.put_scanned(top, known)
                below = f"{prefix}/{text_of(name)}/"
                for file, sha in known.hashes.items():
                    found[below + file] = sha
                    left -= known.stamps[file][2]
    if cache is not None:
        cache.save()
    return found


@contextmanager
def _opened(place: Path) -> Iterator[int]:
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _unchanged(skill: str, known: ScannedSkill, place: int) -> bool:
    """Whether the files of a skill are as they were; `place`: the descriptor of its place, so that no path is resolved whole."""
    stat = os.stat
    try:
        for name, (modified, changed, size, inode) in known.stamps.items():  # as `stamp_of`, for thousands of files
            facts = stat(f"{skill}/{name}" if name else skill, dir_fd=place)
            if facts.st_mtime_ns != modified or facts.st_ctime_ns != changed or facts.st_ino != inode:
                return False
            if size != (facts.st_size if facts.st_mode & _REGULAR else -1):
                return False
    except OSError:
        return False
    return True


def _scan(top: str, root: Path, left: int) -> ScannedSkill | None:
    """The files of a project's skill; None if it is none. `left`: bytes that it may have."""
    stamps: dict[str, Stamp] = {}
    hashes: dict[str, str] = {}
    try:
        stamps[FILE] = stamp_of(f"{top}/{FILE}")
        if (real := os.path.realpath(f"{top}/{FILE}")) != f"{top}/{FILE}" and why_left_out(Path(real), root):
            raise ValueError(real)
        size = 0
        for name in _walk(top, "", root, stamps):
            size += max(0, stamps[name][2])
            if len(hashes) >= MAX_FILES or size > min(left, MAX_BYTES):
                return ScannedSkill(stamps, {FILE: UNTRUSTED})
            hashes[name] = _hash(f"{top}/{name}")
    except ValueError:
        return ScannedSkill(stamps, {FILE: UNTRUSTED})
    except OSError:
        return ScannedSkill(stamps, {FILE: UNTRUSTED}) if stamps else None
    return ScannedSkill(stamps, hashes)


def _walk(top: str, below: str, root: Path, stamps: dict[str, Stamp], depth: int = 0) -> Iterator[str]:
    """The files below `top`, relative to it; adds the stamps of files and folders. Raises ValueError for what cannot be
    trusted: a link out of the project, a pipe, deep nesting."""
    path = f"{top}/{below}"
    if depth > MAX_DEPTH:
        raise ValueError(path)
    stamps[below] = stamp_of(path)
    with os.scandir(path) as listed:
        entries = sorted(listed, key=lambda entry: entry.name)
    if (depth == 0 or os.path.islink(path.rstrip("/"))) and not Path(os.path.realpath(path)).is_relative_to(root):
        raise ValueError(path)
    for entry in entries:
        name = f"{below}{entry.name}"
        if entry.name in IGNORED:
            continue
        if entry.is_symlink() and not Path(os.path.realpath(entry.path)).is_relative_to(root):
            raise ValueError(entry.path)
        if entry.is_dir():
            yield from _walk(top, f"{name}/", root, stamps, depth + 1)
        elif entry.is_file():
            stamps[name] = stamp_of(entry.path)
            yield name
        else:
            raise ValueError(entry.path)


def _hash(path: str) -> str:
    import hashlib

    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def folders_above(names: Iterable[str]) -> dict[str, str]:
    """Each folder above these files, with the first file below it."""
    found: dict[str, str] = {}
    for name in names:
        above = name
        while above := above.rpartition("/")[0]:
            found.setdefault(above, name)
    return found


def is_script(name: str) -> bool:
    """Whether a file of a skill looks like a program."""
    return name.endswith(SCRIPTS) or "scripts/" in name
