"""Reads AGENTS.md files: instructions of the user, the project and its folders for every agent."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from friday_cli.core.text.sanitize import sanitize

from .instruction_imports import Importer

NAMES = ("AGENTS.override.md", "AGENTS.md", "CLAUDE.md")
"""File names in order of preference: one file per folder is used."""
MAX_BYTES = 1_000_000
"""Largest file that is used."""
MAX_FILE = 32_000
"""Characters used of one file."""
MAX_TOTAL = 80_000
"""Characters used of all files together."""


class Instruction(msgspec.Struct, frozen=True):
    """The text of one file. `own`: the file of the user, which is always used as instructions; a project needs trust."""

    path: str
    text: str
    own: bool = False


class Instructions(msgspec.Struct, frozen=True):
    """All files, the most general first, and notices for the person."""

    files: tuple[Instruction, ...] = ()
    trusted: bool = False
    notices: tuple[str, ...] = ()


def read(folder: Path, *, root: Path, config: Path, trusted: bool) -> Instructions:
    """Read the file of the user in `config`, then those from the project `root` down to `folder`. Files that they name
    with `@path` are filled in, if they are in the same project or folder. A file that cannot be read is skipped with a notice."""
    files: list[Instruction] = []
    notices: list[str] = []
    remaining = MAX_TOTAL
    for parent, own in _folders(folder.resolve(), root.resolve(), config):
        if (path := _file_in(parent)) is None:
            continue
        try:
            text = _text(path, None if own else root.resolve())
            imports = Importer((config if own else root).resolve(), lambda path: sanitize(_text(path, None)))
        except (OSError, ValueError, RuntimeError) as error:
            notices.append(f"{path} is skipped: {getattr(error, 'strerror', None) or error}.")
            continue
        clean = sanitize(text)
        if len(clean) < len(text):
            notices.append(f"{path}: {len(text) - len(clean)} invisible characters were removed.")
        text = imports.expand(clean, path).strip()
        notices += imports.notices
        limit = min(MAX_FILE, remaining)
        if len(text) > limit:
            notices.append(f"{path}: only the first {limit:,} of {len(text):,} characters are used.")
            text = text[:limit].rstrip() + "\n[truncated]"
        if text:
            remaining = max(0, remaining - len(text))
            files.append(Instruction(str(path), text, own))
    return Instructions(tuple(files), trusted, tuple(notices))


def of_project(folder: Path, root: Path) -> list[Path]:
    """The files from the project `root` down to `folder`, both resolved, and those that they import."""
    found: list[Path] = []
    for path in filter(None, map(_file_in, _chain(folder, root))):
        imports = Importer(root, lambda path: sanitize(_text(path, None)))
        with suppress(OSError, ValueError, RuntimeError):
            imports.expand(sanitize(_text(path, root)), path)
        found += [path, *imports.files]
    return list(dict.fromkeys(found))


def _file_in(folder: Path) -> Path | None:
    return next((folder / name for name in NAMES if (folder / name).is_file()), None)


def _folders(folder: Path, root: Path, config: Path) -> Iterator[tuple[Path, bool]]:
    yield config, True
    for parent in _chain(folder, root):
        yield parent, False


def _chain(folder: Path, root: Path) -> Iterator[Path]:
    chain: Sequence[Path] = (folder,)
    if folder.is_relative_to(root):
        chain = [parent for parent in (folder, *folder.parents) if parent.is_relative_to(root)]
    yield from reversed(chain)


def _text(path: Path, root: Path | None) -> str:
    if root is not None and not path.resolve().is_relative_to(root):
        raise ValueError("it links out of the project")
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size > MAX_BYTES:
            raise ValueError(f"it is larger than {MAX_BYTES:,} bytes")
        raw = file.read(MAX_TOTAL * 4 + 4)
    return raw.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")
