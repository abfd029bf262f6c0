"""A search with Python's `re`, printed as `rg --null --heading` prints it.

It runs as a program, so that a pattern or a folder that takes too long can be stopped, and imports only the standard
library, so that it starts fast. Its one argument is a `Question` as JSON.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TypedDict

from friday_cli.workspace.fs.gitignore import Level, level_of

FILE = 64 * 1024 * 1024
"""Files larger than this many bytes are not searched."""
WIDTH = 2000
_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


class Question(TypedDict):
    """What to look for. `mode` "list" names the files themselves; `name` is a regular expression for their last name."""

    base: str
    only: str
    mode: str
    pattern: str
    ignore_case: bool
    context: int
    hidden: bool
    ignore: bool
    name: str


def main() -> None:
    """Answer the question in the program's argument."""
    answer(json.loads(sys.argv[1]), sys.stdout.buffer)


def answer(question: Question, out: BinaryIO) -> None:
    """Print what `question` asks for."""
    base = question["base"]
    flags = re.IGNORECASE if question["ignore_case"] else 0
    pattern = re.compile(question["pattern"], flags)
    if question["only"]:
        paths: Iterator[str] = iter((question["only"],))
    else:
        level = level_of(Path(base))[0] if question["ignore"] else None
        paths = _files(
            base, level, question["hidden"], re.compile(question["name"], re.S) if question["name"] else None
        )
    between = b""
    for path in paths:
        relative = os.fsencode("./" * bool(question["only"]) + os.path.relpath(path, base))
        if question["mode"] == "list":
            out.write(relative + b"\0")
        elif (text := _text(path)) is not None and (
            found := _report(relative, text, pattern, question["mode"], question["context"])
        ):
            out.write(between + found)
            between = b"\n" if question["mode"] == "content" else b""


def _files(folder: str, level: Level | None, hidden: bool, name: re.Pattern[str] | None) -> Iterator[str]:
    waiting = [(folder, level)]
    while waiting:
        folder, level = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name == ".git" or (not hidden and entry.name.startswith(".")) or entry.is_symlink():
                        continue
                    is_folder = entry.is_dir(follow_symlinks=False)
                    if level is not None and level.hides(entry.path, is_folder):
                        continue
                    if is_folder:
                        waiting.append((entry.path, level and level.below(entry.path)))
                    elif entry.is_file(follow_symlinks=False) and (name is None or name.fullmatch(entry.name)):
                        yield entry.path
        except OSError:
            continue  # gone meanwhile, or not ours to read


def _text(path: str) -> str | None:
    """The text of a file, None for what is none or cannot be read."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > FILE:
                return None
            data = file.read(FILE)
    except OSError:
        return None
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    return None if b"\0" in data else data.decode("utf-8", "replace")


def _report(path: bytes, text: str, pattern: re.Pattern[str], mode: str, context: int) -> bytes:
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    hits = [at for at, line in enumerate(lines) if pattern.search(line.removesuffix("\r"))]
    if not hits:
        return b""
    if mode == "files":
        return path + b"\0"
    if mode == "count":
        return b"%s\0%d\n" % (path, len(hits))
    matching = set(hits)
    shown = sorted({at for hit in hits for at in range(max(hit - context, 0), min(hit + context + 1, len(lines)))})
    rows = (
        b"%d%s%s\n" % (at + 1, b":" if at in matching else b"-", lines[at].encode("utf-8", "replace")[:WIDTH])
        for at in shown
    )
    return path + b"\0" + b"".join(rows)
