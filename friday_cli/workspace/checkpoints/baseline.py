"""The file behind a snapshot: contents of files and what is known of them, in one append-only file. After a kill the next
process reads from it what the files held before the commands that ran then."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Self

import msgspec

_LENGTH = 4
"""Bytes of the length of an entry."""


class FileSnapshot(msgspec.Struct, frozen=True):
    """A file in the snapshot. `stamp` changes whenever the file does. Its content is at `start` of the baseline file, or
    `lost` says why it was not saved."""

    root: str
    stamp: tuple[int, ...]
    mode: int
    start: int = 0
    size: int = 0
    lost: str = ""


class _Entry(msgspec.Struct, frozen=True, array_like=True):
    """A file (`root` empty: it was removed), followed by `size` bytes of content. Without a `path`: a `commit`."""

    path: bytes = b""
    root: bytes = b""
    stamp: tuple[int, ...] = ()
    mode: int = 0
    size: int = 0
    lost: str = ""
    commit: Commit | None = None


class Commit(msgspec.Struct, frozen=True, array_like=True):
    """All entries before this one are what the files below `roots` held at `scanned_at` (nanoseconds). Since then
    commands of `agent` may have changed them ("": none was running)."""

    agent: str
    roots: tuple[bytes, ...] = ()
    scanned_at: int = 0


class BaselineFile:
    """The file at `path`, private and created when first needed; `close` removes it. Entries after the last commit are not
    read by the next process. If an entry cannot be written, the file is removed at once and serves only this process,
    because an incomplete list would make files of the person look as if a command had created them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.end = 0
        self._file: IO[bytes] | None = None
        self._written = False
        """Whether something was written since the last sync."""
        self._root = "", b""
        """The root of the last entry, as text and encoded."""

    @classmethod
    def load(cls, path: Path) -> tuple[Self, dict[str, FileSnapshot], Commit] | None:
        """The file that a process left behind, with its files up to the last commit; None if there is no commit."""
        made = cls(path)
        try:
            made._file = path.open("r+b", buffering=0)
        except OSError:
            return None
        files: dict[str, FileSnapshot] = {}
        new: dict[str, FileSnapshot | None] = {}
        commit = None
        for start, entry in made._entries():
            name, root = os.fsdecode(entry.path), os.fsdecode(entry.root)
            if name:
                found = FileSnapshot(root, entry.stamp, entry.mode, start, entry.size, entry.lost)
                new[name] = found if root else None
            elif entry.commit is not None:
                commit = entry.commit
                files = {path: file for path, file in (files | new).items() if file is not None}
                new = {}
        if commit is None:
            made.close()
            return None
        return made, files, commit

    def add(self, path: str, file: FileSnapshot, data: bytes = b"") -> FileSnapshot:
        """Write the entry of a file, with its content unless it is lost. Raises OSError if the content does not fit."""
        if file.root != self._root[0]:
            self._root = file.root, os.fsencode(file.root)
        entry = _Entry(os.fsencode(path), self._root[1], file.stamp, file.mode, len(data), file.lost)
        try:
            start = self._append(entry, data)
        except OSError:
            if not file.lost:
                raise
            self._remove()
            start = 0
        return FileSnapshot(file.root, file.stamp, file.mode, start, len(data), file.lost)

    def drop(self, path: str) -> None:
        """Write that a file no longer exists."""
        self._append_or_remove(_Entry(os.fsencode(path)))

    def commit(self, commit: Commit) -> None:
        """Make all entries so far valid for the next process; they survive a power failure if commands are to run."""
        self._append_or_remove(_Entry(commit=commit))
        if commit.agent and self._written and self._file is not None:
            with contextlib.suppress(OSError):
                os.fdatasync(self._file.fileno())
            self._written = False

    def read(self, file: FileSnapshot) -> bytes:
        """The content of a file."""
        assert self._file is not None
        return os.pread(self._file.fileno(), file.size, file.start)

    def compact(self, files: Mapping[str, FileSnapshot]) -> dict[str, FileSnapshot] | None:
        """Write a new file with only these files, to be committed; returns their new entries. None if it does not fit:
        nothing changes then."""
        if self._file is None:
            return None
        new = BaselineFile(self.path.with_name(f"{self.path.name}.{secrets.token_hex(4)}"))
        try:
            moved = {path: new.add(path, file, b"" if file.lost else self.read(file)) for path, file in files.items()}
            new._open()
            os.rename(new.path, self.path)
        except OSError:
            new.close()
            return None
        self._file.close()
        self._file, self.end = new._file, new.end
        return moved

    def close(self) -> None:
        """Remove the file."""
        self._remove()
        if self._file is not None:
            self._file.close()
            self._file, self.end = None, 0

    def _append(self, entry: _Entry, data: bytes = b"") -> int:
        """Write an entry and `data`; returns where the data starts. Raises OSError; nothing is written then."""
        file = self._open()
        head = msgspec.msgpack.encode(entry)
        start = self.end + _LENGTH + len(head)
        rest = b"".join((len(head).to_bytes(_LENGTH, "big"), head, data))
        try:
            at = self.end
            while rest:  # unbuffered: the error of a full disk must be raised for this entry
                written = os.pwrite(file.fileno(), rest, at)
                at, rest = at + written, rest[written:]
        except OSError:
            with contextlib.suppress(OSError):
                file.truncate(self.end)
            raise
        self.end = start + len(data)
        self._written = True
        return start

    def _append_or_remove(self, entry: _Entry) -> None:
        try:
            self._append(entry)
        except OSError:
            self._remove()

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            self.path.unlink()
        with contextlib.suppress(OSError):
            self.path.parent.rmdir()  # only if it is empty

    def _open(self) -> IO[bytes]:
        if self._file is None:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.fdopen(os.open(self.path, flags, 0o600), "r+b", buffering=0)
        return self._file

    def _entries(self) -> Iterator[tuple[int, _Entry]]:
        """All whole entries of the file, and where the content of each starts."""
        assert self._file is not None
        decode = msgspec.msgpack.Decoder(_Entry).decode
        size = os.fstat(self._file.fileno()).st_size
        with contextlib.suppress(msgspec.DecodeError):  # the end may be torn
            while self.end + _LENGTH <= size:
                self._file.seek(self.end)
                length = int.from_bytes(self._file.read(_LENGTH), "big")
                start = self.end + _LENGTH + length
                entry = decode(self._file.read(length))
                if start + entry.size > size:
                    return
                self.end = start + entry.size
                yield start, entry
