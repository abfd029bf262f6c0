"""Keeps what was read from many profile files, so that a start with hundreds of them parses none.

An entry is found by the content of its file (sha256), its path and how it was read. The cache is one file for each folder,
and is not used where others could write it, or where the commands of agents can: below the project.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from friday_cli.core.protocol.errors import FileError
from friday_cli.system import cache_file

from .profile import Profile

MIN_FILES = 4
"""Files in a folder from which on the cache is worth its file."""


class ParsedFile(msgspec.Struct, frozen=True, array_like=True):
    """What a file holds: a profile, an error (problem, line, field, hint), or neither if it is not a profile."""

    profile: Profile | None = None
    error: tuple[str, int, str, str] | None = None

    def result(self, path: str) -> Profile | FileError | None:
        """The profile or error of the file at `path`."""
        if self.error is None:
            return self.profile
        problem, line, field, hint = self.error
        return FileError(path, problem, line=line, field=field, hint=hint)

    @classmethod
    def of(cls, result: Profile | FileError | None) -> ParsedFile:
        """The entry for a result."""
        if isinstance(result, FileError):
            return cls(error=(result.problem, result.line, result.field, result.hint))
        return cls(result)


class _CacheFile(msgspec.Struct, frozen=True):
    made_by: str
    files: dict[str, ParsedFile]


class ParseCache:
    """The parsed files of `folder`. `files`: how many there are. `save` writes what was added."""

    def __init__(self, folder: Path, files: int, env: Mapping[str, str] | None) -> None:
        self._used: dict[str, ParsedFile] = {}
        self._known: dict[str, ParsedFile] = {}
        self._path: Path | None = None
        if files >= MIN_FILES and (path := cache_file.of_folder("profiles", folder, env)) is not None:
            self._path, self._known = path, _read(path)

    def get(self, key: str) -> ParsedFile | None:
        """The entry of a file that was read before."""
        if (found := self._known.get(key)) is not None:
            self._used[key] = found
        return found

    def put(self, key: str, parsed: ParsedFile) -> None:
        """Add an entry."""
        self._used[key] = parsed

    def save(self) -> None:
        """Write the entries that were used, if they have changed. A cache that cannot be written is not an error."""
        if self._path is not None and self._used.keys() != self._known.keys():
            cache_file.write_of_folder(self._path, msgspec.msgpack.encode(_CacheFile(_made_by(), self._used)))


def _read(path: Path) -> dict[str, ParsedFile]:
    content = cache_file.read(path)
    with suppress(msgspec.MsgspecError, UnicodeDecodeError):
        found = None if content is None else msgspec.msgpack.decode(content, type=_CacheFile)
        return found.files if found is not None and found.made_by == _made_by() else {}
    return {}


def _made_by() -> str:
    here = Path(__file__).parent
    return cache_file.code_stamp(here, here.parent / "frontmatter.py", here.parents[1] / "core/tool_catalog.py")
