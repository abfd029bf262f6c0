"""The files of a project that a server is for: what changed on disk since it was told last, and which files use a name."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from friday_cli.core.protocol.errors import FileError
from friday_cli.core.text.untrusted import neutralize_line
from friday_cli.workspace.fs.change_detection import BUILD_FOLDERS, SKIPPED

CREATED, CHANGED, DELETED = 1, 2, 3
"""Kinds of changes of the protocol."""
MOST_FILES, SCAN_S = 20_000, 0.5
"""Files that are looked at, and seconds for that."""
MOST_USERS, USERS_S, LARGEST = 50, 0.5, 1_000_000
"""Files that use a changed name and are checked, seconds to find them, and bytes of a file that is searched."""
ABOVE = 60
"""Lines above a changed one in which its definition is looked for."""
_DEFINES = re.compile(
    r"^(\s*)(?:(?:export|default|declare|pub(?:\([^)]*\))?|public|private|protected|static|async|abstract|final|override|readonly)\s+)*"
    r"(?:def|class|function|func|fn|interface|type|struct|enum|trait|const|let|var|namespace)\s+(?:\([^)]*\)\s*)?([A-Za-z_]\w*)"
)
_BINDS = re.compile(
    r"^(\s*)(?:(?!(?:return|await|yield|throw|raise|new|delete|else|case|not|in|if|while)\b)[A-Za-z_](?:\w|::|[<>,\[\]])*\s+[*&]*){0,5}"
    r"([A-Za-z_]\w*)\s*(?:[:=]|\()"
)
"""Also `static int add(`, as in C, Java and C#."""
_WORDS = frozenset(
    ("assert", "await", "case", "catch", "elif", "else", "except", "finally", "for", "from", "import", "match", "print",
     "raise", "return", "self", "super", "switch", "this", "throw", "try", "while", "with", "yield", "__init__", "if")
)  # fmt: skip


def read_text(path: Path) -> str | FileError | None:
    """The text of a file; None if there is none, an error if it is too large. Blocks."""
    try:
        if not path.is_file():  # opening a pipe would wait
            return None
        with open(path, "rb") as file:
            data = file.read(LARGEST + 1)
    except OSError:
        return None
    if len(data) > LARGEST:
        return FileError(neutralize_line(path.name), f"is larger than {LARGEST:,} bytes.")
    return data.decode("utf-8", "replace")


class ProjectFiles:
    """The files below `root` whose names end with one of `ends`. Every call blocks."""

    def __init__(self, root: Path, ends: Collection[str]) -> None:
        self._root, self._ends = root, frozenset(ends)
        self._seen: dict[str, tuple[int, int]] | None = None

    def scan(self) -> dict[Path, int]:
        """What changed on disk since the last call, by path; nothing for the first. A scan that takes too long changes nothing."""
        found, before = {}, self._seen
        until = time.monotonic() + SCAN_S
        for entry in self._entries():
            if time.monotonic() > until:
                return {}
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            found[entry.path] = status.st_mtime_ns, status.st_size
        self._seen = found
        if before is None:
            return {}
        changes = {
            Path(path): CHANGED if path in before else CREATED for path, now in found.items() if before.get(path) != now
        }
        return changes | {Path(path): DELETED for path in before.keys() - found.keys()}

    def users(self, names: Sequence[str], leave_out: Collection[Path]) -> list[Path]:
        """Files in which one of `names` stands as a word, those with the first names first."""
        if not names:
            return []
        word = re.compile(rb"\b(?:" + b"|".join(re.escape(name.encode()) for name in names) + rb")\b")
        until, found = time.monotonic() + USERS_S, list[tuple[int, Path]]()
        rank = {name.encode(): number for number, name in enumerate(names)}
        for path in sorted(self._seen or ()):
            if time.monotonic() > until or len(found) >= 4 * MOST_USERS:
                break
            if Path(path) in leave_out:
                continue
            try:
                with open(path, "rb") as file:
                    data = file.read(LARGEST)
            except OSError:
                continue
            if hits := {rank[hit] for hit in word.findall(data)}:
                found.append((min(hits), Path(path)))
        return [path for _, path in sorted(found)[:MOST_USERS]]

    def _entries(self) -> Iterator[os.DirEntry[str]]:
        folders, left = [str(self._root)], MOST_FILES
        while folders and left > 0:
            try:
                with os.scandir(folders.pop()) as names:
                    for entry in names:
                        left -= 1
                        if entry.is_dir(follow_symlinks=False):
                            if entry.name not in SKIPPED and entry.name not in BUILD_FOLDERS:
                                folders.append(entry.path)
                        elif os.path.splitext(entry.name)[1] in self._ends and entry.is_file(follow_symlinks=False):
                            yield entry
            except OSError:
                continue  # removed since, or not readable


def changed_names(path: Path, old: str | None, new: str | None) -> list[str]:
    """The names whose definitions a change touched, those that it touched most directly first. A made or deleted file counts by its
    own name."""
    names: dict[str, None] = {}
    if old is None or new is None:
        names[path.parent.name if path.stem in ("__init__", "index", "mod") else path.stem] = None
    outer: dict[str, None] = {}
    for text, other in ((old or "", new or ""), (new or "", old or "")):
        lines, there = text.splitlines(), Counter(other.splitlines())
        for number, line in enumerate(lines):
            if there[line] > 0:
                there[line] -= 1
            elif line.strip():
                found = _definitions(lines, number)
                names |= dict.fromkeys(found[:1])
                outer |= dict.fromkeys(found[1:])
                if bound := _BINDS.match(line):
                    outer[bound[2]] = None
    return [name for name in (names | outer) if len(name) > 2 and name not in _WORDS]


def _definitions(lines: Sequence[str], number: int) -> list[str]:
    """The names of the nearest definition at or above a line, and of the one around that."""
    found: list[str] = []
    indent = len(lines[number]) - len(lines[number].lstrip()) + 1
    for line in reversed(lines[max(0, number - ABOVE) : number + 1]):
        defined = _DEFINES.match(line)
        if defined and len(defined[1]) < indent:
            found.append(defined[2])
            indent = len(defined[1])
        if indent == 0 or len(found) == 3:
            break
    return found
