"""Fills in the files that AGENTS.md and CLAUDE.md name with `@path`, as other programs do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.text.lazy_regex import pattern

MAX_DEPTH = 5
"""Files that name each other, one below the other."""
MAX_FILES = 30
"""Files that one AGENTS.md brings in."""
MAX_TOLD = 5
"""Files that were left out and are named to the person."""
_NAMED = pattern(r"(?<![\w`@/])@((?:~?/|\.{1,2}/)?[\w.-][\w./-]*)")
_FENCE = pattern(r"^[ \t]{0,3}(`{3,}|~{3,})")


class Importer:
    """Reads the files that a text names, if `why_left_out` lets them in. `root`: the folder that they must be in, with links
    followed. `read(path, asked)` returns the text of a file; it raises OSError, ValueError or ToolError. `names_only`: nothing is
    brought in, since the folder is not trusted. `files` are those that were brought in."""

    def __init__(self, root: Path, read: Callable[[Path, Path], str], *, names_only: bool = False) -> None:
        self._root = root
        self._read = read
        self._names_only = names_only
        self._left_out: list[str] = []
        self.files: list[Path] = []

    def expand(self, text: str, path: Path) -> str:
        """`text`, the content of `path`, with the text of each file after the line that names it."""
        return self._expand(text, (path.resolve(),))

    def notice(self, path: Path) -> str:
        """One line for the person about what was left out of `path`; "" for nothing."""
        if not self._left_out:
            return ""
        more = len(self._left_out) - MAX_TOLD
        if self._names_only:
            names = ", ".join(self._left_out[:MAX_TOLD]) + (f" and {more} more" if more > 0 else "")
            return f"{path}: not imported, because the folder is not trusted: {names}."
        return "; ".join(self._left_out[:MAX_TOLD]) + (f"; and {more} more" if more > 0 else "") + "."

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
        """The text of the file `name`, None if it is not brought in. Most words with an @ do not name a file: they are not a problem."""
        where = chain[-1]
        asked = Path(name).expanduser() if name.startswith("~/") else where.parent / name
        try:
            if not asked.is_file():
                return None
            path = asked.resolve()
        except (OSError, RuntimeError):
            return None
        if path in self.files and path not in chain:
            return None
        if self._names_only:
            self._left_out += [told] if (told := f"@{name}") not in self._left_out else []
            return None
        try:
            if why := self._refusal(path, chain):
                raise ValueError(why)
            text = self._read(path, asked)
        except (OSError, ValueError, ToolError) as error:
            why = (str(getattr(error, "strerror", None) or error)).removesuffix(".")
            told = f"{where}: @{name} is not imported: {why}"
            self._left_out += [told] if told not in self._left_out else []
            return None
        self.files.append(path)
        return f"[@{name}]\n{self._expand(text.strip(), (*chain, path))}\n[end of @{name}]"

    def _refusal(self, path: Path, chain: tuple[Path, ...]) -> str:
        """Why a file is not brought in; "" if it is."""
        if path in chain and path.is_relative_to(self._root):
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
