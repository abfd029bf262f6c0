"""Fills in the files that AGENTS.md and CLAUDE.md name with `@path`, as other programs do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from friday_cli.core.text.lazy_regex import pattern

MAX_DEPTH = 5
"""Files that name each other, one below the other."""
MAX_FILES = 30
"""Files that one AGENTS.md brings in."""
_NAMED = pattern(r"(?<![\w`@/])@((?:~?/|\.{1,2}/)?[\w.-][\w./-]*)")
_FENCE = pattern(r"^[ \t]{0,3}(`{3,}|~{3,})")


class Importer:
    """Reads the files that a text names. `read(path)` returns the text of a file below `root`, with links followed; it raises
    OSError or ValueError. `notices` say what was not brought in and why; `files` are those that were."""

    def __init__(self, root: Path, read: Callable[[Path], str]) -> None:
        self._root = root
        self._read = read
        self.files: list[Path] = []
        self.notices: list[str] = []

    def expand(self, text: str, path: Path) -> str:
        """`text`, the content of `path`, with the text of each file after the line that names it."""
        return self._expand(text, (path.resolve(),))

    def _expand(self, text: str, chain: tuple[Path, ...]) -> str:
        if "@" not in text:
            return text
        lines: list[str] = []
        for line, plain in _with_fences(text):
            lines.append(line)
            for name in () if plain else _names(line):
                if (found := self._imported(name, chain)) is not None:
                    lines.append(found)
        return "\n".join(lines)

    def _imported(self, name: str, chain: tuple[Path, ...]) -> str | None:
        """The text of the file `name`, None if it is not brought in. Most words with an @ name no file: they are no problem."""
        where = chain[-1]
        path = Path(name).expanduser() if name.startswith("~/") else where.parent / name
        try:
            if not path.is_file():
                return None
            path = path.resolve()
        except (OSError, RuntimeError):
            return None
        if path in self.files and path not in chain:
            return None
        try:
            if why := self._refusal(path, chain):
                raise ValueError(why)
            text = self._read(path)
        except (OSError, ValueError) as error:
            why = str(getattr(error, "strerror", None) or error)
            self.notices.append(f"{where}: @{name} is not imported: {why}.")
            return None
        self.files.append(path)
        return f"[@{name}]\n{self._expand(text.strip(), (*chain, path))}\n[end of @{name}]"

    def _refusal(self, path: Path, chain: tuple[Path, ...]) -> str:
        """Why a file is not brought in; "" if it is."""
        if not path.is_relative_to(self._root):
            return f"it is outside {self._root}"
        if path in chain:
            names = " -> ".join(one.name for one in (*chain[chain.index(path) :], path))
            return f"it imports itself ({names})"
        if len(chain) > MAX_DEPTH:
            return f"imports are nested deeper than {MAX_DEPTH} files"
        return f"more than {MAX_FILES} files are imported" if len(self.files) >= MAX_FILES else ""


def _with_fences(text: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it is part of a code block."""
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE().match(line)
        if fence:
            yield line, True
            fence = "" if mark and mark[1].startswith(fence) else fence
        else:
            fence = mark[1] if mark else ""
            yield line, bool(fence)


def _names(line: str) -> list[str]:
    """The paths after an @ in a line, without those in `code`."""
    words = "".join(part for number, part in enumerate(line.split("`")) if number % 2 == 0)
    return [name.rstrip(".") for name in _NAMED().findall(words)]
