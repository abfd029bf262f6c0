"""AGENTS.md: what a folder, its project and the user want every agent to know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from friday_cli.core.text.sanitize import sanitize

NAMES = ("AGENTS.md", "CLAUDE.md")
"""Looked for in this order; a folder's first one counts."""
LARGEST = 32_000
"""Characters taken of one file."""
LARGEST_SUM = 80_000
"""Characters taken of all together."""


class Instruction(msgspec.Struct, frozen=True):
    """One file's text. `own` marks the user's own file, which always counts; a project's counts when it is trusted."""

    path: str
    text: str
    own: bool = False


class Instructions(msgspec.Struct, frozen=True):
    """All files, the most general first, and what a person should be told about them."""

    files: tuple[Instruction, ...] = ()
    trusted: bool = False
    notices: tuple[str, ...] = ()


def read(folder: Path, *, root: Path, config: Path, trusted: bool) -> Instructions:
    """The user's file in `config`, then those from the project's `root` down to `folder`.

    Files are read here and nothing that they name. A file that cannot be read is skipped, and said.
    """
    files: list[Instruction] = []
    notices: list[str] = []
    left = LARGEST_SUM
    for place, own in _places(folder.resolve(), root.resolve(), config):
        path = next((place / name for name in NAMES if (place / name).is_file()), None)
        if path is None:
            continue
        try:
            text = _text(path, None if own else root.resolve())
        except (OSError, ValueError, RuntimeError) as error:
            notices.append(f"{path} is left out: {getattr(error, 'strerror', None) or error}.")
            continue
        clean = sanitize(text)
        if len(clean) < len(text):
            notices.append(f"{path}: {len(text) - len(clean)} invisible characters were taken out.")
        text = clean.strip()
        room = min(LARGEST, left)
        if len(text) > room:
            notices.append(f"{path}: only the first {room:,} of {len(text):,} characters are used.")
            text = text[:room].rstrip() + "\n[cut here]"
        if text:
            left = max(0, left - len(text))
            files.append(Instruction(str(path), text, own))
    if not trusted and any(not file.own for file in files):
        notices.append("The project's AGENTS.md is read as information only: the folder is not trusted (friday trust).")
    return Instructions(tuple(files), trusted, tuple(notices))


def _places(folder: Path, root: Path, config: Path) -> Iterator[tuple[Path, bool]]:
    yield config, True
    chain: Sequence[Path] = (folder,)
    if folder.is_relative_to(root):
        chain = [place for place in (folder, *folder.parents) if place.is_relative_to(root)]
    for place in reversed(chain):
        yield place, False


def _text(path: Path, root: Path | None) -> str:
    if root is not None and not path.resolve().is_relative_to(root):
        raise ValueError("it is a link that leads out of the project")
    with open(path, "rb") as file:
        raw = file.read(LARGEST_SUM * 4 + 4)
    return raw.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")
