"""Reads AGENTS.md files: instructions of the user, the project and its folders for every agent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.text.sanitize import sanitize
from friday_cli.system import safe_files
from friday_cli.system.named_files import read_named, why_left_out

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
    with `@path` are filled in, if they are in the same project or folder and `why_left_out` lets them in. Without trust only
    the files themselves are read: no import, no link. A file that cannot be read is skipped with a notice."""
    files: list[Instruction] = []
    notices: list[str] = []
    remaining = MAX_TOTAL
    for parent, own in _folders(folder.resolve(), root.resolve(), config):
        path, skipped = _file_in(parent, links=own or trusted)
        if skipped:
            notices.append(f"{skipped} is a link, so it is not read: the folder is not trusted.")
        if path is None:
            continue
        source = _Source((config if own else root).resolve(), own)
        try:
            text = source.text(path)
        except (OSError, ValueError, RuntimeError, ToolError) as error:
            why = str(getattr(error, "strerror", None) or error).removesuffix(".")
            notices.append(f"{path} is skipped: {why}.")
            continue
        clean = sanitize(text)
        if len(clean) < len(text):
            notices.append(f"{path}: {len(text) - len(clean)} invisible characters were removed.")
        from .instruction_imports import Importer  # only where there is a file

        imports = Importer(source.root, source.imported, names_only=not (own or trusted))
        text = imports.expand(clean, path).strip()
        notices += filter(None, [imports.notice(path)])
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
    source = _Source(root, False)
    for parent in _chain(folder, root):
        path, _ = _file_in(parent)
        if path is None:
            continue
        from .instruction_imports import Importer

        imports = Importer(root, source.imported)
        with suppress(OSError, ValueError, RuntimeError, ToolError):
            imports.expand(sanitize(source.text(path)), path)
        found += [path, *imports.files]
    return list(dict.fromkeys(found))


class _Source:
    """Reads instruction files of a folder, and what they import. `own`: they are the person's."""

    def __init__(self, root: Path, own: bool) -> None:
        self.root = root
        self._own = own

    def text(self, path: Path) -> str:
        """The text of an instruction file. Raises OSError, ValueError, RuntimeError for a loop of links, and ToolError."""
        real = path.resolve()
        if not self._own and real != path and (why := why_left_out(real, self.root)):
            raise ValueError(f"it links to a file that is left out: {why}")
        base = (
            self.root if real.is_relative_to(self.root) else real.parent
        )  # the person's own may be a link to anywhere
        return _decoded(safe_files.read(base, real, MAX_BYTES + 1))

    def imported(self, path: Path, asked: Path) -> str:
        """The text of a file that another names."""
        return sanitize(_decoded(read_named(path, self.root, MAX_BYTES + 1, asked=asked, by_person=self._own)))


def _file_in(folder: Path, *, links: bool = True) -> tuple[Path | None, Path | None]:
    """The instruction file of a folder, and one before it that is not used because it is a link. Without `links`, a link to
    the file that is used instead is not worth a word."""
    skipped: Path | None = None
    for path in (folder / name for name in NAMES):
        if not path.is_file():
            continue
        if links or not path.is_symlink():
            return path, None if skipped is None or skipped.resolve() == path else skipped
        skipped = skipped or path
    return None, skipped


def _folders(folder: Path, root: Path, config: Path) -> Iterator[tuple[Path, bool]]:
    yield config, True
    for parent in _chain(folder, root):
        yield parent, False


def _chain(folder: Path, root: Path) -> Iterator[Path]:
    chain: Sequence[Path] = (folder,)
    if folder.is_relative_to(root):
        chain = [parent for parent in (folder, *folder.parents) if parent.is_relative_to(root)]
    yield from reversed(chain)


def _decoded(raw: bytes) -> str:
    if len(raw) > MAX_BYTES:
        raise ValueError(f"it is larger than {MAX_BYTES:,} bytes")
    raw = raw[: MAX_TOTAL * 4 + 4]
    return raw.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")
