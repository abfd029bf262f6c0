"""Reading what the tools gave back. Each figure is read by its place in the text, so that no file name can forge one."""

from __future__ import annotations

import re

import msgspec

_MORE = re.compile(r"\[([\d,]+) more\b[^\n]*\]")
_SECRET = re.compile(r"\[([\d,]+)(?: matching files)? that may hold secrets left out\]")
_ROW = re.compile(r"(\d+)[:-](.*)", re.S)
_NUMBERED = re.compile(r"(\d+)\t(.*)", re.S)
_SPAN = re.compile(r"\[(?:.*; )?lines [\d,]+-[\d,]+ of ([\d,]+)(?:; go on with offset=\d+)?\]")
FULL_PATHS, FULL_CHARS = 500, 29_000
"""Only a listing this long can have been cut."""


class Tally(msgspec.Struct, frozen=True):
    """A figure; `exact` is False where the tool said that there may be more. `secret` counts files it left out."""

    count: int
    exact: bool = True
    secret: int = 0

    def __str__(self) -> str:
        return f"{'' if self.exact else 'at least '}{self.count:,}"


class Hit(msgspec.Struct, frozen=True):
    path: str
    line: int
    text: str


class Found(msgspec.Struct, frozen=True):
    """Matching lines of a search: those shown, and how many there are."""

    hits: list[Hit]
    total: Tally


class Listing(msgspec.Struct, frozen=True):
    """Paths of a glob: those shown, and how many there are. `complete` tells whether all of them are shown."""

    paths: list[str]
    total: Tally
    complete: bool


class Counts(msgspec.Struct, frozen=True):
    """Matching lines per file; `complete` tells whether every file is here."""

    rows: list[tuple[str, int]]
    complete: bool


class Folder(msgspec.Struct, frozen=True):
    """One folder: names of folders, names of files, and how many entries there are in all."""

    folders: list[str]
    files: list[str]
    total: Tally
    complete: bool


class Page(msgspec.Struct, frozen=True):
    """Lines of a file from the first one on; `total` is how many it has, as far as the tool said."""

    lines: list[str]
    total: Tally


def tally(text: str) -> Tally:
    """The number of files or lines of a grep with `limit=1`: the one that is shown, and the rest that is not."""
    lines = text.split("\n")
    if lines[0] == "No match.":
        return Tally(0, *_remarks(lines[1:])[1:])
    shown = 2 if len(lines) > 1 and _ROW.fullmatch(lines[1]) else 1
    more, exact, secret = _remarks(lines[shown:])
    return Tally(1 + more, exact, secret)


def found(text: str) -> Found:
    """The result of a grep for lines."""
    lines = text.split("\n")
    hits: list[Hit] = []
    path, at = "", 0
    if lines[0] != "No match.":
        while at < len(lines):
            path, at = lines[at], at + 1
            while at < len(lines) and (row := _ROW.fullmatch(lines[at])):
                hits.append(Hit(path, int(row[1]), row[2]))
                at += 1
            if at >= len(lines) or lines[at]:
                break
            at += 1
    else:
        at = 1
    more, exact, secret = _remarks(lines[at:])
    return Found(hits, Tally(len(hits) + more, exact, secret))


def counts(text: str) -> Counts:
    """The result of a grep that counts."""
    rows: list[tuple[str, int]] = []
    lines = text.split("\n")
    for line in lines:
        path, colon, number = line.rpartition(": ")
        if not (colon and number.isdigit()):
            break
        rows.append((path, int(number)))
    more, exact, _ = _remarks(lines[len(rows) + (lines[0] == "No match.") :])
    return Counts(rows, exact and not more)


def listing(text: str) -> Listing:
    """The result of a glob."""
    lines = text.split("\n")
    tail: list[str] = []
    while lines and lines[-1].startswith("[") and lines[-1].endswith("]") and len(tail) < 3:
        tail.insert(0, lines.pop())
    full = len(lines) >= FULL_PATHS or sum(map(len, lines)) >= FULL_CHARS
    if tail and not full and _MORE.fullmatch(tail[0]):  # a file may be called like a remark
        lines.append(tail.pop(0))
    more, exact, secret = _remarks(tail)
    paths = [] if len(lines) == 1 and lines[0].startswith("No file matches ") else lines
    return Listing(paths, Tally(len(paths) + secret + more, exact, secret), exact and not more)


def folder(text: str) -> Folder:
    """The result of list_dir."""
    lines = text.split("\n")
    if len(lines) == 1 and lines[0].startswith("(") and lines[0].endswith(" is empty)"):
        return Folder([], [], Tally(0), True)
    more = 0
    if len(lines) > FULL_PATHS and (match := _MORE.fullmatch(lines[-1])):
        more = _number(match[1])
        lines.pop()
    folders = [line[:-1] for line in lines if line.endswith("/")]
    files = [line.partition("\t")[0] for line in lines if "\t" in line]
    return Folder(folders, files, Tally(len(lines) + more), not more)


def page(text: str) -> Page:
    """The result of read_file from the first line on."""
    lines: list[str] = []
    total: int | None = None
    for line in text.split("\n"):
        if row := _NUMBERED.fullmatch(line):
            lines.append(row[2])
        elif span := _SPAN.fullmatch(line):
            total = _number(span[1])
    return Page(lines, Tally(len(lines) if total is None else total))


def _remarks(lines: list[str]) -> tuple[int, bool, int]:
    """(how many more, whether that is exact, how many left out as secret) of the remarks at the end of a result."""
    more, exact, secret = 0, True, 0
    for line in lines:
        if match := _MORE.fullmatch(line):
            more = _number(match[1])
        elif match := _SECRET.fullmatch(line):
            secret = _number(match[1])
        elif line.startswith("["):
            exact = False
    return more, exact, secret


def _number(text: str) -> int:
    return int(text.replace(",", ""))
