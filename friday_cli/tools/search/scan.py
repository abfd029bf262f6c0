"""A search program with Python's `re` and the output format of `rg --null --heading`.

It runs as a process, so that a slow pattern can be stopped, and imports only the standard library, so that it starts fast.
Its argument is a `ScanRequest` as JSON.
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

from friday_cli.system.beneath import FILE, opened_folder
from friday_cli.system.gitignore import WalkedFile, level_of, walk_files

MAX_FILE_BYTES = 64 * 1024 * 1024
"""Larger files are not searched."""
MAX_LINE_BYTES = 2000
"""Bytes of a line that are returned."""
_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


class ScanRequest(TypedDict):
    """A search in `base`, which is in `root`. Mode "list" prints all files; `name`: a regular expression for the file name."""

    root: str
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
    """Run the search in the argument of the program."""
    scan(json.loads(sys.argv[1]), sys.stdout.buffer)


def scan(request: ScanRequest, out: BinaryIO) -> None:
    """Search and print the results to `out`."""
    base = request["base"]
    flags = re.IGNORECASE if request["ignore_case"] else 0
    pattern = re.compile(request["pattern"], flags)
    separator = b""
    for file in _files(request):
        relative = os.fsencode("./" * bool(request["only"]) + os.path.relpath(file.path, base))
        if request["mode"] == "list":
            out.write(relative + b"\0")
        elif (text := _text(file)) is not None and (
            found := _report(relative, text, pattern, request["mode"], request["context"])
        ):
            out.write(separator + found)
            out.flush()  # a search that is stopped keeps what it found
            separator = b"\n" if request["mode"] == "content" else b""


def _files(request: ScanRequest) -> Iterator[WalkedFile]:
    """The files to search, each with an open folder."""
    base, only = request["base"], request["only"]
    if not only:
        level = level_of(Path(base))[0] if request["ignore"] else None
        name = re.compile(request["name"], re.S)
        files = walk_files(request["root"], base, level, hidden=request["hidden"])
        yield from (file for file in files if not request["name"] or name.fullmatch(file.name))
        return
    parts = Path(only).parent.relative_to(request["root"]).parts
    try:
        with opened_folder(request["root"], parts) as folder:
            yield WalkedFile(only, os.path.basename(only), folder)
    except OSError:
        return  # removed, or replaced by a link


def _text(file: WalkedFile) -> str | None:
    """The text of a file; None if it is binary, a link by now, or cannot be read."""
    try:
        with open(os.open(file.name, FILE, dir_fd=file.folder), "rb") as opened:
            found = os.fstat(opened.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_FILE_BYTES:
                return None
            data = opened.read(MAX_FILE_BYTES)
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
        b"%d%s%s\n" % (at + 1, b":" if at in matching else b"-", lines[at].encode("utf-8", "replace")[:MAX_LINE_BYTES])
        for at in shown
    )
    return path + b"\0" + b"".join(rows)
